"""Judges of the exercises on the page 11_beam_search, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, exercise


@exercise(
    "beam_search.1",
    "The mean divides by 4 and by 9. GNMT divides by (5 + 4) / 6 and by (5 + 9) / 6.",
    "Sums: -6 and -9. Means: -1.5 and -1. GNMT: -6 / 1.5 = -4, and -9 / "
    "2.33 = -3.86. The larger number wins.",
)
def judge_beam_search_1(answer):
    if not isinstance(answer, str) or len(answer) != 3 or set(answer.upper()) - {"A", "B"}:
        return "expected three letters, A or B, as one string"
    if answer.upper() == "BAA":
        return "log-probabilities are negative: the larger number is the one nearer to zero"
    sentences = (
        "by the sum nothing is divided: -6 against -9",
        "the mean divides by the number of tokens: -6 / 4 against -9 / 9",
        "GNMT divides by (5 + n) / 6: -6 / 1.5 against -9 / 2.33",
    )
    return next(
        (
            sentence
            for got, right, sentence in zip(answer.upper(), "ABB", sentences)
            if got != right
        ),
        None,
    )


@exercise(
    "beam_search.2",
    "Add each text's sum to its row, make one flat list, and take the best. Which row "
    "and column does place i of the list come from?",
    "`best, at = (sums[:, None] + logp).flatten().topk(num_beams)`; then `at // V` and `at % V`.",
)
def judge_beam_search_2(answer):
    made = torch.Generator().manual_seed(0)
    for w, V, num_beams in ((3, 7, 4), (1, 5, 3), (4, 6, 2)):
        logp, sums = (
            torch.randn(w, V, generator=made).log_softmax(-1),
            -3 * torch.rand(w, generator=made),
        )
        try:
            result = answer(logp.clone(), sums.clone(), num_beams)
        except RuntimeError as error:
            if "must match the size" in str(error):
                return (
                    "`sums` (w,) has one number for each row of `logp` (w, V); `sums + "
                    "logp` lines it up with the columns"
                )
            raise
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            return "expected three tensors: sums, the text each continues, its token"
        total = sums[:, None] + logp
        best, at = total.flatten().topk(num_beams)
        unsummed = logp.flatten().topk(num_beams)
        problem = diagnose(
            result[0],
            best,
            {
                "these are the log-probabilities of the last token only; "
                "add the sum of the text so far": unsummed.values,
                "the scores are right, but the best comes first": best.flip(0),
                "these are probabilities; go on with their logarithms": best.exp(),
                "take the best of all texts together, not the best of each": total.max(
                    dim=1
                ).values,
            },
        )
        problem = problem or diagnose(
            result[1],
            at // V,
            {
                "this is the token; which text does it continue?": at % V,
                "place i belongs to text i // V: divide by the size of the "
                "vocabulary, not by the number of texts": at // w,
                "this is the place in the flat list": at,
            },
        )
        problem = problem or diagnose(
            result[2],
            at % V,
            {
                "this is the text; which token is taken?": at // V,
                "this is the place in the flat list; take the remainder by V": at,
            },
        )
        if problem:
            return problem


@exercise(
    "beam_search.3",
    "What is the most that the sum can become, and the most that the reward "
    "can become? Can both happen at once?",
    "The sum never rises, and stays where the model is certain. The "
    "reward is largest at the greatest length.",
)
def judge_beam_search_3(answer):
    for total, length, longest, beta in (
        (-3.5, 2, 7, 0.4),
        (-0.2, 5, 9, 1.5),
        (-8.0, 4, 4, 0.3),
        (-2.0, 1, 6, 0.0),
    ):
        right = torch.tensor(total + beta * longest, dtype=torch.float64)
        problem = diagnose(
            answer(total, length, longest, beta),
            right,
            {
                "this is the score now; a longer text earns more reward": total + beta * length,
                "the tokens it has are rewarded too": total + beta * (longest - length),
                "here nothing is divided: the reward is added": total / longest + beta,
                "the bound of the mean has no reward in it": total / longest,
                "the sum so far cannot be won back": beta * longest,
                "one more token is not the most that can come": total + beta * (length + 1),
            },
        )
        if problem:
            return problem
