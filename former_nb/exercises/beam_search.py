"The exercises of the deep dive on beam search."

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("beam_search.1")
def winners():
    # ? The mean divides by 4 and by 9. GNMT divides by (5 + 4) / 6 and by (5 + 9) / 6.
    # ? Sums: -6 and -9. Means: -1.5 and -1. GNMT: -6 / 1.5 = -4, and -9 / 2.33 = -3.86. The larger
    # ? number wins.
    return "ABB"  # by the sum, by the mean, by GNMT
    #! log-probabilities are negative: the larger number is the one nearer to zero
    # ~ return "BAA"
    #! by the sum nothing is divided: -6 against -9
    # ~ return "BBB"
    #! by the sum nothing is divided, -6 against -9; and GNMT divides by (5 + n) / 6: -6 / 1.5 against
    #! -9 / 2.33
    # ~ return "BBA"
    #! by the sum nothing is divided, -6 against -9; and the mean divides by the number of tokens
    # ~ return "BAB"
    #! the mean divides by the number of tokens: -6 / 4 against -9 / 9
    # ~ return "AAB"
    #! the longer text has more tokens to divide by: -6 / 4 against -9 / 9 by the mean, and by GNMT
    #! -6 / 1.5 against -9 / 2.33
    # ~ return "AAA"
    #! GNMT divides by (5 + n) / 6: -6 / 1.5 against -9 / 2.33
    # ~ return "ABA"


@exercise("beam_search.2")
def step(logp, sums, num_beams):
    # ? Add each text's sum to its row, make one flat list, and take the best. Which row and column
    # ? does place i of the list come from?
    # ? `best, at = (sums[:, None] + logp).flatten().topk(num_beams)`; then `at // V` and `at % V`.
    best, at = (sums[:, None] + logp).flatten().topk(num_beams)
    #! these are the log-probabilities of the last token only; add the sum of the text so far
    # ~ best, at = logp.flatten().topk(num_beams)
    #! the best are chosen by their last token alone; add the sum of the text before you choose
    # ~ at = logp.flatten().topk(num_beams).indices
    # | best = (sums[:, None] + logp).flatten()[at]
    #! `sums` (w,) has one number for each row of `logp` (w, V); `sums + logp` lines it up with the
    #! columns
    # ~ best, at = (logp + sums).flatten().topk(num_beams)
    #! these are probabilities; go on with their logarithms
    # ~ best, at = (sums[:, None] + logp).exp().flatten().topk(num_beams)
    #! the scores are right, but the best comes first
    # ~ best, at = (t.flip(0) for t in (sums[:, None] + logp).flatten().topk(num_beams))
    #! that is the best of each text; take the best of all texts together
    # ~ best, tokens = (sums[:, None] + logp).max(dim=1)
    # | return best, torch.arange(len(sums)), tokens
    return best, at // logp.shape[1], at % logp.shape[1]
    #! the second is the place in the flat list; which text does it continue?
    # ~ return best, at, at % logp.shape[1]
    #! the third is the place in the flat list; take the remainder by V
    # ~ return best, at // logp.shape[1], at
    #! place i belongs to text i // V: divide by the size of the vocabulary, not by the number of texts
    # ~ return best, at // logp.shape[0], at % logp.shape[0]
    #! place i belongs to text i // V: divide by the size of the vocabulary, not by the number of
    #! texts; the tokens are right
    # ~ return best, at // logp.shape[0], at % logp.shape[1]
    #! text and token are exchanged: the text comes second
    # ~ return best, at % logp.shape[1], at // logp.shape[1]
    #! three tensors are asked for: sums, the text that each continues, its token
    # ~ return best, at


@exercise("beam_search.3")
def highest(total, length, longest, beta):
    # ? What is the most that the sum can become, and the most that the reward can become? Can both
    # ? happen at once?
    # ? The sum never rises, and stays where the model is certain. The reward is largest at the
    # ? greatest length.
    return total + beta * longest
    #! this is the score now; a longer text earns more reward
    # ~ return total + beta * length
    #! the tokens it has are rewarded too
    # ~ return total + beta * (longest - length)
    #! here nothing is divided: the reward is added
    # ~ return total / longest + beta
    #! the bound of the mean has no reward in it
    # ~ return total / longest
    #! the sum so far cannot be won back
    # ~ return beta * longest
    #! one more token is not the most that can come
    # ~ return total + beta * (length + 1)


# ---------------------------------------------------------------- questions


@question("beam_search", "beam_search.1")
def ask_winners(draw):
    def letters(answer, args, given):
        "Of a text or a list of letters, large or small."
        try:
            return {"": "".join(given).upper()}
        except TypeError:
            return {"": given}

    yield Call("the answer", look=letters)


@question("beam_search", "beam_search.2")
def ask_step(draw):
    def call(w, V, num_beams, *ruled_out):
        logp = draw.numbers(w, V).log_softmax(dim=-1)
        for row, token in ruled_out:
            logp[row, token] = -float("inf")
        sums = -3 * draw.numbers(w).abs()
        what = f"logp {(w, V)}, num_beams = {num_beams}"
        return Call(what + ", some ruled out" * bool(ruled_out), (logp, sums, num_beams))

    yield call(3, 7, 4)
    yield call(1, 5, 3)
    yield call(4, 6, 2)
    yield call(2, 5, 4)
    yield call(5, 2, 1)
    yield call(3, 6, 4, (0, 0), (1, 3), (1, 4), (2, 5))
    for _ in draw.rounds:
        yield call(draw.size(2, 4), draw.size(8, 12), draw.size(5, 7))


@question("beam_search", "beam_search.3")
def ask_highest(draw):
    for total, length, longest, beta in [
        *[(-3.5, 2, 7, 0.4), (-0.2, 5, 9, 1.5), (-8.0, 4, 4, 0.3), (-2.0, 1, 6, 0.0)],
        *[(0.0, 1, 3, 0.7), (-60.0, 12, 100, 0.9), (-1.0, 3, 20, 0.05), (-5.0, 6, 8, 2.0)],
    ]:
        what = f"total = {total}, length = {length}, longest = {longest}, beta = {beta}"
        yield Call(what, (total, length, longest, beta))
    for _ in draw.rounds:
        length, more, tenths = draw.size(1, 9), draw.size(1, 9), draw.size(1, 20)
        args = -tenths / 3, length, length + more, tenths / 10
        yield Call(f"total = {args[0]:.3g}, length = {length}, longest = {args[2]}", args)
