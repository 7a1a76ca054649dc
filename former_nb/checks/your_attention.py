"""Judges of the exercises on the page 16_your_attention, and the mistakes that they know."""

import torch

from ..attention.fused import attention
from ..base.exercises import exercise, same_numbers


@exercise(
    "your_attention.1",
    "Which of the five changes q, k, v or the mask alone, before your function is called?",
    "The first three: [True, True, True, False, False]. The others act inside the softmax.",
)
def judge_your_attention_1(answer):
    if not isinstance(answer, (list, tuple)) or len(answer) != 5:
        return "give a list of five booleans, for scale, heads, bias, dropout and cap"
    answer = [bool(a) for a in answer]
    if not answer[0]:
        return "a factor of the queries is a factor of the scores"
    if not answer[1]:
        return "keys and values can be repeated before your function sees them"
    if not answer[2]:
        return "a mask may hold numbers, which are added to the scores"
    if answer[3]:
        return "dropped weights no longer come from a softmax, whatever the scores are"
    if answer[4]:
        return "the cap bends each score, which exists only inside your function"


@exercise(
    "your_attention.2",
    "Scores first, then the cap, then the mask, then the softmax.",
    "softcap * torch.tanh(scores / softcap), and masked_softmax after it.",
)
def judge_your_attention_2(capped):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (3 * torch.randn(2, 3, n, 6, generator=generator) for n in (5, 5, 5))
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    y = capped(q, k, v, past, False, 3.0)
    if not isinstance(y, torch.Tensor) or y.shape != v.shape:
        return f"expected a tensor of shape {tuple(v.shape)}"

    def near(weights):
        return same_numbers(y, weights.softmax(dim=-1) @ v)

    scores = q @ k.mT / 6**0.5
    cap = 3 * torch.tanh(scores / 3)
    if same_numbers(y, attention(q, k, v, past)):
        return "the scores are not capped yet"
    if near(3 * torch.tanh(scores.masked_fill(~past, float("-inf")) / 3)):
        return "the cap comes before the mask, or it makes -inf a score of -softcap"
    if near(torch.tanh(scores / 3).masked_fill(~past, float("-inf"))):
        return "multiply by softcap again, so that small scores stay as they are"
    if near((3 * torch.tanh(scores)).masked_fill(~past, float("-inf"))):
        return "divide by softcap inside of tanh"
    if near((3 * torch.tanh(q @ k.mT / 3)).masked_fill(~past, float("-inf"))):
        return "the scores are divided by √d_k first"
    if near(cap):
        return "use the mask"
    if not near(cap.masked_fill(~past, float("-inf"))):
        return "the result differs; compute scores, cap, mask, softmax in this order"
    causal = capped(q, k, v, None, True, 3.0)
    if not same_numbers(causal, y):
        return "with is_causal and no mask, a query may attend to no later key"
