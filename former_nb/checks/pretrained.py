"""Judges of the exercises on the page 16_pretrained, and the mistakes that they know."""

from ..base.exercises import exercise


@exercise(
    "pretrained.1",
    "Write down the four shapes. A weight is loaded if turning leaves its shape as it is.",
    "A third of c_attn and attn.c_proj are square: [True, True, False, False].",
)
def judge_pretrained_1(answer):
    if not isinstance(answer, (list, tuple)) or len(answer) != 4:
        return "give a list of four booleans, for a third of c_attn, attn.c_proj, c_fc, mlp.c_proj"
    answer = [bool(a) for a in answer]
    if answer[2] or answer[3]:
        return "the layers of the feed-forward network are 24 × 96 and 96 × 24, turned they differ"
    if not any(answer):
        return "some are square and fit both ways; which map 24 features to 24?"
    if not answer[0]:
        return "c_attn is 24 × 72, and a third of its columns is square"
    if not answer[1]:
        return "attn.c_proj maps 24 features to 24, so it is square"
