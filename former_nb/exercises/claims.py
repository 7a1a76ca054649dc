"What everybody repeats: claims, and what they need to be shown."

from math import comb, factorial  # noqa: F401, the mistakes use the second

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("claims.1")
def chance_apart(n):
    # ? Sort all 2n numbers. Which places does the first variant have, if the ranges are apart?
    # ? How many ways are there to choose n of 2n places?
    # ? Two of them keep the ranges apart: the n lowest places, and the n highest.
    return 2 / comb(2 * n, n)
    #! either variant may be the lower one, so there are two ways
    # ~ return 1 / comb(2 * n, n)
    #! the numbers of one variant have no order among them; only the places count
    # ~ return 2 / factorial(2 * n)
    #! places can be taken only once, so this is no coin that you throw 2n times
    # ~ return 2 * 0.5 ** (2 * n)
    #! after n numbers, the other n have no choice; but the first n had fewer and fewer places left
    # ~ return 2 * 0.5**n
    #! that is the chance that they overlap
    # ~ return 1 - 2 / comb(2 * n, n)


@exercise("claims.2")
def equal_length(d_model, d_ff):
    # ? For each token, scores and sums need 2 · T · d multiplications, the matrices 4 · d² + 2 · d
    # ? · d_ff.
    # ? Set both equal, and divide by 2 · d.
    return 2 * d_model + d_ff
    #! attention has four matrices, W_o too
    # ~ return 1.5 * d_model + d_ff
    #! weighted sums need as much as the scores, and nothing is skipped
    # ~ return 4 * d_model + 2 * d_ff
    #! the feed-forward network is missing
    # ~ return 2 * d_model
    #! the matrices of attention are missing
    # ~ return d_ff
    #! d_ff is an argument; it need not be 4 · d_model
    # ~ return 6 * d_model
    #! the network has two matrices
    # ~ return 2 * d_model + d_ff / 2


@exercise(
    "claims.3",
    parts=(
        "the first share is wrong; a matrix has 32 · 64 numbers, and the untied model has two",
        "the second share is wrong; a matrix has 37,000 · 512 numbers, and the untied model has two",
    ),
    near=6e-3,  # three digits
)
def shares_saved_by_tying():
    # ? A matrix has a row for each token, as wide as the model.
    # ? The untied model has two such matrices and the blocks.
    small, paper = 32 * 64, 37_000 * 512
    return small / (2 * small + 100_096), paper / (2 * paper + 44_138_496)
    #! those are shares of the tied model; take those of the untied one, which has two matrices
    # ~ return small / (small + 100_096), paper / (paper + 44_138_496)
    #! tying saves one of the two matrices, not both
    # ~ return 2 * small / (2 * small + 100_096), 2 * paper / (2 * paper + 44_138_496)
    #! the share is that of all parameters, the two matrices with them, not of the blocks
    # ~ return small / 100_096, paper / 44_138_496
    #! that is what remains
    # ~ return 1 - small / (2 * small + 100_096), 1 - paper / (2 * paper + 44_138_496)
    #! those are percent
    # ~ return 100 * small / (2 * small + 100_096), 100 * paper / (2 * paper + 44_138_496)


# ---------------------------------------------------------------- questions


@question("claims", "claims.1")
def ask_chance_apart(draw):
    for n in (3, 1, 2, 4, 5, 6, 7, 8):
        yield Call(f"n = {n}", (n,))


@question("claims", "claims.2")
def ask_equal_length(draw):
    cases = [(12, 40), (64, 256), (7, 3), (1, 1), (512, 2048), (256, 683)]
    cases += [(draw.size(1, 900), draw.size(1, 3000)) for _ in draw.rounds]
    for d_model, d_ff in cases:
        yield Call(f"d_model = {d_model}, d_ff = {d_ff}", (d_model, d_ff))
