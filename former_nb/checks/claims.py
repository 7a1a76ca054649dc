"""Judges of the exercises on the page 08_claims, and the mistakes that they know."""

from ..base.exercises import diagnose_each, diagnose_formula, exercise


@exercise(
    "claims.1",
    "Sort all 2n numbers. Which places does the first variant have, if the ranges are apart?",
    "How many ways are there to choose n of 2n places?",
    "Two of them keep the ranges apart: the n lowest places, and the n highest.",
)
def judge_claims_1(answer):
    "A function of a number of seeds that returns a probability."
    cases = [1, 2, 3, 5]
    return diagnose_formula(
        answer,
        "n",
        [(n,) for n in cases],
        "2 / comb(2 * n, n)",
        {
            "1 / comb(2 * n, n)": "either variant may be the lower one, so there are two ways",
            "2 / factorial(2 * n)": "the numbers of one variant have no order "
            "among them; only the places count",
            "2 * 0.5 ** (2 * n)": "places can be taken only once, so this is no coin that you "
            "throw 2n times",
            "2 * 0.5**n": "after n numbers, the other n have no choice; but the first n had fewer "
            "and fewer places left",
            "1 - 2 / comb(2 * n, n)": "that is the chance that they overlap",
        },
    )


@exercise(
    "claims.2",
    "For each token, scores and sums need 2 · T · d multiplications, the matrices "
    "4 · d² + 2 · d · d_ff.",
    "Set both equal, and divide by 2 · d.",
)
def judge_claims_2(answer):
    "A function of two widths that returns a length."
    cases = [(12, 40), (64, 256), (7, 3)]
    return diagnose_formula(
        answer,
        "d, d_ff",
        cases,
        "2 * d + d_ff",
        {
            "1.5 * d + d_ff": "attention has four matrices, W_o too",
            "4 * d + 2 * d_ff": "weighted sums need as much as the scores, and nothing is skipped",
            "2 * d": "the feed-forward network is missing",
            "d_ff": "the matrices of attention are missing",
            "6 * d": "d_ff is an argument; it need not be 4 · d_model",
            "2 * d + d_ff / 2": "the network has two matrices",
        },
    )


@exercise(
    "claims.3",
    "A matrix has a row for each token, as wide as the model.",
    "The untied model has two such matrices and the blocks.",
)
def judge_claims_3(answer):
    "Two shares."
    cases = {"a": (32 * 64, 100_096), "b": (37_000 * 512, 44_138_496)}
    right = {}
    mistakes = []
    for name, (matrix, blocks) in cases.items():
        right[name] = matrix / (2 * matrix + blocks)
        mistakes.append(
            {
                matrix / (matrix + blocks): "that is the share of the tied model",
                2 * matrix / (2 * matrix + blocks): "tying saves one of the two matrices, not both",
                matrix / blocks: "the share is that of all parameters, the two matrices with them",
                (matrix + blocks) / (2 * matrix + blocks): "that is what remains",
            }
        )
    return diagnose_each(answer, right, mistakes, tolerance=6e-4)
