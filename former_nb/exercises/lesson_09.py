"Lesson 09: a classifier."

from functools import partial

import torch
from torch import nn

from ..grading.ask import Call, exercise, question
from .lesson_02 import attention
from .lesson_04 import padding_mask
from .lesson_05 import LearnedPositions
from .lesson_06 import Stack
from .lesson_07 import PAD, Embedding
from .parts import layer, spy


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.head = nn.Linear(d_model, n_classes)
        #! the head has a bias, because some classes come more often than others
        # ~ self.head = nn.Linear(d_model, n_classes, bias=False)
        #! the head makes a logit for each class, so it has n_classes outputs and not one
        # ~ self.head = nn.Linear(d_model, 1)

    def forward(self, tokens, attend=attention):  # (B, T) -> (B, n_classes)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        #! there are as many positions as tokens in a text, tokens.shape[1]; shape[0] is the number
        #! of texts
        # ~ positions = torch.arange(tokens.shape[0], device=tokens.device)
        #! the first position is 0
        # ~ positions = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        x = self.embed(tokens, positions)
        #! the embedding gets no positions, so a text means the same in any order of its words
        # ~ x = self.embed(tokens)
        x = self.stack(x, padding_mask(tokens), attend=attend, positions=positions)
        #! words attend to padding, so a text's answer depends on how long its neighbours are; give
        #! the stack padding_mask(tokens)
        # ~ x = self.stack(x, attend=attend, positions=positions)
        #! True in a mask means that a word may be attended to; yours hides the words and shows the
        #! padding
        # ~ x = self.stack(x, ~padding_mask(tokens), attend=attend, positions=positions)
        #! a mask needs axes for heads and queries, (B, 1, 1, T), to meet the scores; padding_mask
        #! makes them
        # ~ x = self.stack(x, tokens != PAD, attend=attend, positions=positions)
        #! a mask hides keys, the last axis; yours hides queries
        # ~ x = self.stack(x, padding_mask(tokens).mT, attend=attend, positions=positions)
        #! a classifier reads the whole text at once, so it isn't causal: each word may attend to
        #! later ones, too
        # ~ x = self.stack(x, padding_mask(tokens), True, attend, positions)
        #! attend isn't passed on to the stack
        # ~ x = self.stack(x, padding_mask(tokens), positions=positions)
        #! the positions aren't passed on to the stack, where rotary positions will need them
        # ~ x = self.stack(x, padding_mask(tokens), attend=attend)
        #! the stack isn't used: the words never meet
        # ~ pass
        real = (tokens != PAD)[..., None]  # (B, T, 1)
        #! the real tokens are those that aren't PAD; yours averages the padding
        # ~ real = (tokens == PAD)[..., None]
        #! only PAD is left out of the mean; BOS, EOS and UNK belong to the text
        # ~ real = (tokens > 3)[..., None]
        #! only PAD is left out of the mean; BOS and EOS belong to the text
        # ~ real = ((tokens != PAD) & (tokens != 1) & (tokens != 2))[..., None]
        #! an axis is missing: what is real is (B, T), and the vectors are (B, T, d_model), so
        #! append one of 1
        # ~ real = tokens != PAD
        mean = (x * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        #! padding has a part in the mean, so a text's answer depends on how long its neighbours are
        # ~ mean = x.mean(dim=1)
        #! padding is left out of the sum, so leave it out of the number, too: divide by how many
        #! tokens are real, not by T
        # ~ mean = (x * real).mean(dim=1)
        #! padding is left out of the number, so leave it out of the sum, too
        # ~ mean = x.sum(dim=1) / real.sum(dim=1).clamp(min=1)
        #! that is the sum, which grows with a text's length; divide by the number of real tokens
        # ~ mean = (x * real).sum(dim=1)
        #! a text of padding alone divides 0 by 0, and NaN spreads to all weights; at least 1:
        #! clamp(min=1)
        # ~ mean = (x * real).sum(dim=1) / real.sum(dim=1)
        #! the number of tokens is at least 1, clamp(min=1); yours adds 1 to each
        # ~ mean = (x * real).sum(dim=1) / (real.sum(dim=1) + 1)
        #! the number of tokens is that of each text; yours is that of the whole batch
        # ~ mean = (x * real).sum(dim=1) / real.sum().clamp(min=1)
        #! the first token alone is read, as in BERT; the mean of all real tokens is asked for
        # ~ mean = x[:, 0]
        #! the last position alone is read, which is padding in most texts; the mean of all real
        #! tokens is asked for
        # ~ mean = x[:, -1]
        #! the last real token alone is read, as in GPT; the mean of all real tokens is asked for
        # ~ last = (real[..., 0].sum(dim=1) - 1).clamp(min=0)
        #| mean = x[torch.arange(len(x)), last]
        #! that is the largest of each number; the mean is asked for
        # ~ mean = x.masked_fill(~real, float("-inf")).amax(dim=1)
        #! the mean runs over the words, dim=1; yours runs over the numbers of a vector
        # ~ mean = (x * real).mean(dim=-1)
        #! that is the median; the mean is asked for
        # ~ mean = x.masked_fill(~real, float("nan")).nanmedian(dim=1).values
        return self.head(mean)
        #! logits are asked for, since cross_entropy does the softmax itself
        # ~ return self.head(mean).softmax(dim=-1)
        #! logits are asked for, since cross_entropy does the log_softmax itself
        # ~ return self.head(mean).log_softmax(dim=-1)
        #! logits are asked for, since cross_entropy does the softmax itself; yours go through a
        #! sigmoid
        # ~ return self.head(mean).sigmoid()
        #! the head is missing, which makes a logit for each class of the mean
        # ~ return mean
        #! logits are asked for, one for each class; the likeliest class is taken elsewhere
        # ~ return self.head(mean).argmax(dim=-1)
        #! the words are averaged before the head, so each text has one vector; yours answers for
        #! each word
        # ~ return self.head(x)


# ---------------------------------------------------------------- exercises


@exercise("09.1")
def my_pool(x, real):  # (B, T, d_model), (B, T) boolean
    # ? `real[..., None]` has the shape (B, T, 1) and broadcasts over the numbers of each vector.
    # ? `x.masked_fill(~real[..., None], 0.0)` puts zeros at the padding. Then sum over `dim=1`.
    # ? Divide by `real.sum(dim=1, keepdim=True).clamp(min=1)`, the number of tokens, at least 1.
    total = x.masked_fill(~real[..., None], 0.0).sum(dim=1)  # (B, d_model)
    #! the padding is still in the sum; leave it out there, too
    # ~ total = x.sum(dim=1)
    #! the padding is summed; `masked_fill` fills where its mask is True, so give it
    #! `~real[..., None]`
    # ~ total = x.masked_fill(real[..., None], 0.0).sum(dim=1)
    #! that is the mean of the padding; the mask is the wrong way round
    # ~ real = ~real
    # | total = x.masked_fill(~real[..., None], 0.0).sum(dim=1)
    #! x is (B, T, d_model) and `real` (B, T); `real[..., None]` has an axis for the numbers of a
    #! vector
    # ~ total = (x * real).sum(dim=1)
    #! you summed over the numbers of each vector; sum over the tokens, `dim=1`
    # ~ total = x.masked_fill(~real[..., None], 0.0).sum(dim=2)
    #! you summed over the texts; sum over the tokens, `dim=1`
    # ~ total = x.masked_fill(~real[..., None], 0.0).sum(dim=0)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)
    #! a row of padding alone gives NaN, 0/0; divide by at least 1
    # ~ return total / real.sum(dim=1, keepdim=True)
    #! that is the mean of all vectors; leave the padding out
    # ~ return x.mean(dim=1)
    #! the sum is right; divide by the number of real tokens, not by T
    # ~ return total / x.shape[1]
    #! that is the sum; divide it by the number of real tokens
    # ~ return total
    #! you divide by all tokens of the batch; each text has its own number
    # ~ return total / real.sum().clamp(min=1)
    #! that is one vector for all texts; each text has its own mean
    # ~ return x[real].mean(dim=0)
    #! you divide by one more than there are tokens; `clamp(min=1)` divides by at least 1
    # ~ return total / (real.sum(dim=1, keepdim=True) + 1)
    #! the sums are (B, d_model) and the numbers of tokens (B,); `keepdim=True` makes them (B, 1)
    # ~ return total / real.sum(dim=1).clamp(min=1)
    #! `max` compares two numbers; `.clamp(min=1)` works on each number of a tensor
    # ~ return total / max(1, real.sum(dim=1, keepdim=True))


@exercise(
    "09.2",
    parts=(
        "*mean* in both directions: the mean reads all five positions, and every token stands at "
        "one of them",
        "*first* in both directions: it reads one position, but that position attends to all "
        "tokens",
        "*first* under a causal mask: the first position attends to itself and to no later token, "
        "however many blocks there are",
        "*mean* under a causal mask: each token reaches the mean at its own position, if nowhere "
        "else",
    ),
)
def tokens_that_change_the_logits():
    # ? Which positions does the pool read? And which tokens does the encoder's output at these positions depend on?
    # ? In both directions every position depends on all tokens. Under a causal mask position i depends on tokens 1 to i.
    # ? Under a causal mask the first position depends on itself only; the last, which is in the mean, on all.
    return 5, 5, 1, 5
    #! *first* is the first token; the last is the one that attends to all under a causal mask
    # ~ return 5, 5, 5, 1
    #! a token attends to itself, with a mask and without
    # ~ return 4, 4, 0, 4


@exercise("09.3")
def to_world(q, shares):
    # ? Write down Bayes' rule twice, once for the balanced texts and once for the world. What do the two have in common?
    # ? P(text | k) is the same in both. Among balanced texts q_k is proportional to P(text | k) · 1/K.
    # ? In the world the probability is proportional to P(text | k) · π_k, so to q_k · π_k. Then let each row sum to one.
    p = q * shares  # (B, K)
    #! the shares stand on the wrong side: dividing by them is the way from the world to balanced
    #! classes
    # ~ p = q / shares
    #! an average or a sum of the two is no use of Bayes' rule: multiply
    # ~ p = q + shares
    #! to logarithms one adds the shares' logarithms, `shares.log()`, and not the shares
    # ~ p = q * shares.exp()
    #! logits and probabilities are mixed: to logits one adds log π, to probabilities one multiplies
    #! π
    # ~ p = (q + shares.log()).exp()
    #! the shares are multiplied twice
    # ~ p = q * shares**2
    #! that is the shares alone: what the text says is lost
    # ~ p = torch.ones_like(q) * shares
    #! shares are (K,), as the last axis of q, and fit as they are
    # ~ p = q * shares[:, None]
    return p / p.sum(-1, keepdim=True)
    #! the rows do not sum to one: divide each by its sum
    # ~ return p
    #! the shares stand on the wrong side, and the rows do not sum to one
    # ~ return q / shares
    #! that sums to one over the texts, for each class; each text's probabilities must
    # ~ return p / p.sum(0)
    #! a softmax is not needed: these are probabilities already; divide by the sum
    # ~ return p.softmax(-1)
    #! the sums of the rows are (B,); `keepdim=True` makes them (B, 1)
    # ~ return p / p.sum(-1)
    #! those are logarithms; a probability was asked for
    # ~ return (p / p.sum(-1, keepdim=True)).log()
    #! one number for each text came back; each text has K probabilities
    # ~ return q @ shares


@exercise("09.4")
def pool_by_query(x, real, query):
    # ? It is attention with one query: scores, a mask, a softmax over the tokens, an average.
    # ? `scores.masked_fill(~real, -torch.inf).softmax(-1)` gives pads a weight of 0. What does it give where all are pads?
    # ? `masked_softmax` of lesson 02 gives zeros for a row without tokens; so does `nan_to_num`, or to multiply by `real.any(-1)`.
    scores = x @ query / x.shape[-1] ** 0.5  # (B, T)
    #! the scores are not divided by √d_model
    # ~ scores = x @ query
    #! the scores are divided by d_model, not by its root
    # ~ scores = x @ query / x.shape[-1]
    #! that divides by the root of the number of tokens, not of d_model
    # ~ scores = x @ query / x.shape[1] ** 0.5
    scores = scores.masked_fill(~real, -torch.inf)
    #! pads have weights: mask the scores before the softmax
    # ~
    # ~ .softmax(-1).masked_fill(~real, 0.0) -> .softmax(-1)
    # ~ x.masked_fill(~real[..., None], 0.0) -> x
    #! scores that are 0 still weigh e⁰: fill those of the pads with -inf
    # ~ scores = scores.masked_fill(~real, 0.0)
    # ~ .softmax(-1).masked_fill(~real, 0.0) -> .softmax(-1)
    # ~ x.masked_fill(~real[..., None], 0.0) -> x
    #! scores that are 0 still weigh e⁰, so the weights of the tokens do not sum to one: fill those
    #! of the pads with -inf
    # ~ scores = scores.masked_fill(~real, 0.0)
    #! the mask is the wrong way round: `real` is True where there is a token, so fill the scores
    #! where it is False
    # ~ scores = scores.masked_fill(real, -torch.inf)
    # ~ .softmax(-1).masked_fill(~real, 0.0) -> .softmax(-1)
    # ~ x.masked_fill(~real[..., None], 0.0) -> x
    weights = scores.softmax(-1).masked_fill(~real, 0.0)  # (B, T)
    #! a row without tokens gives NaN: its softmax is over nothing; it must give zeros
    # ~ weights = scores.softmax(-1)
    #! a row without tokens must give zeros: where all scores are alike, however low, the softmax is
    #! a plain mean of the pads
    # ~ weights = scores.clamp(min=-1e9).softmax(-1)
    # ~ x.masked_fill(~real[..., None], 0.0) -> x
    #! pads are left out after the softmax, so the weights of the others do not sum to one: mask the
    #! scores before
    # ~ weights = (x @ query / x.shape[-1] ** 0.5).softmax(-1).masked_fill(~real, 0.0)
    #! the exponentials are divided by the sum over the whole batch; each text has its own
    # ~ weights = scores.exp() / scores.exp().sum().clamp(min=1e-9)
    #! the softmax runs over the texts of the batch, not over the tokens
    # ~ weights = scores.softmax(0).nan_to_num()
    #! that is the plain mean: the query has no part in it
    # ~ weights = real / real.sum(-1, keepdim=True).clamp(min=1)
    return (weights[..., None] * x.masked_fill(~real[..., None], 0.0)).sum(1)  # (B, d_model)
    #! a weighted sum is wanted; yours is divided by the number of tokens once more
    # ~ return (weights[..., None] * x).sum(1) / real.sum(-1, keepdim=True).clamp(min=1)
    #! the weights are (B, T) and x is (B, T, d_model); `weights[..., None]` has an axis for the
    #! numbers of a vector
    # ~ return (weights * x).sum(1)
    #! one number for each token came back: those are the weights; sum the tokens' vectors with them
    # ~ return weights


# ---------------------------------------------------------------- questions


class Turning(nn.Module):
    "In place of rotary positions: adds the positions to the values."

    def forward(self, attend, positions):
        def attend_turned(q, k, v, mask=None, is_causal=False):
            where = positions[:, None] if positions.ndim == 1 else positions[:, None, :, None]
            return attend(q, k, v + 0.3 * where, mask, is_causal)

        return attend_turned


class Mixing(nn.Module):
    "The smallest block: attention with one head and one matrix."

    def __init__(self, d_model):
        super().__init__()
        self.w = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        k = self.w(x)[:, None]
        return x + attend(x[:, None], k, k, mask, is_causal)[:, 0]


def an_embedding(learned=True):
    return layer(Embedding, 11, 12, layer(LearnedPositions, 20, 12) if learned else None)


def a_stack(turning=False, n=2):
    blocks = [Mixing(12) for _ in range(n)]
    return layer(Stack, blocks, nn.LayerNorm(12), Turning() if turning else None)


def padded(draw, B, T):
    "Tokens with padding behind, at least one of each text real."
    tokens = draw.tokens(B, T)
    for row, n in zip(tokens, draw.tokens(B, low=1, high=T + 1).tolist()):
        row[n:] = PAD
    return tokens


@question("09", "Classifier")
def ask_classifier(draw):
    init = an_embedding(), a_stack(), 12, 3
    turning = an_embedding(False), a_stack(True), 12, 4
    texts = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 9, 8, 7, 4, 2]])
    yield Call("two texts, one padded", (texts,), {}, init)
    yield Call("the first alone", (texts[:1, :4],), {}, init)
    yield Call("the first with more padding", (nn.functional.pad(texts[:1], (0, 5)),), {}, init)
    alone = torch.tensor([[1, 7, 2], [0, 0, 0]])
    yield Call("a text of padding alone", (alone,), {}, init)
    yield Call("padding inside a text", (torch.tensor([[1, 0, 5, 2], [1, 4, 4, 2]]),), {}, init)
    yield Call("one token", (torch.tensor([[4], [5], [6]]),), {}, init)
    yield Call("another attend", (texts, spy), {}, init)
    yield Call("another attend, by name", (texts,), dict(attend=spy), init)
    yield Call("an attend for each block", (texts, [spy, partial(spy, more=1.0)]), {}, init)
    yield Call("positions in the stack", (texts,), {}, turning)
    yield Call("positions in the stack, another attend", (texts, spy), {}, turning)
    yield Call("int32 tokens", (texts.int(),), {}, init)
    yield Call("in training mode, without dropout", (texts,), {}, init, True)
    yield Call("two classes", (texts,), {}, (an_embedding(), a_stack(), 12, 2))
    for _ in draw.rounds:
        tokens = padded(draw, draw.size(1, 5), draw.size(1, 9))
        yield Call(f"texts of chance {tuple(tokens.shape)}", (tokens,), {}, init)


def behind(T, *lengths):
    "Which positions are real if padding comes behind."
    return torch.arange(T) < torch.tensor(lengths)[:, None]  # (B, T)


def some_rows(draw, d_model):
    "(what, x, real): vectors, of which some are real."
    fixed = {
        "rows with 4, 1, 6 and 0 tokens": behind(6, 4, 1, 6, 0),
        "one text": behind(5, 3),
        "one text without tokens": behind(3, 0),
        "no padding": behind(4, 4, 4),
        "one token": behind(1, 1, 1),
        "padding in front": ~behind(7, 2, 5, 0),
        "padding between tokens": torch.tensor([[1, 0, 1, 0, 1], [0, 1, 1, 0, 0]]).bool(),
    }
    for what, real in fixed.items():
        yield what, draw.numbers(*real.shape, d_model), real
    real = behind(6, 2, 5, 0)
    loud = torch.where(real[..., None], draw.numbers(3, 6, d_model), torch.tensor(1e4))
    yield "large numbers at the padding", loud, real
    for _ in draw.rounds:
        real = draw.mask(draw.size(1, 4), draw.size(2, 9))
        yield f"a mask of chance {tuple(real.shape)}", draw.numbers(*real.shape, d_model), real


@question("09", "09.1")
def ask_my_pool(draw):
    for what, x, real in some_rows(draw, 5):
        yield Call(what, (x + 1, real))


@question("09", "09.3")
def ask_to_world(draw):
    for B, K in [(4, 3), (2, 5), (1, 4), (6, 2), (3, 7)]:
        q = (0.1 + draw.numbers(B, K).abs()) / 3
        shares = 0.1 + draw.numbers(K).abs()
        yield Call(f"{B} texts, {K} classes", (q / q.sum(-1, keepdim=True), shares / shares.sum()))
    even = torch.full((3,), 1 / 3)
    q = torch.tensor([[0.2, 0.5, 0.3], [0.01, 0.01, 0.98]])
    yield Call("all shares alike", (q, even))
    yield Call("a rare class", (q, torch.tensor([0.9989, 0.001, 0.0001])))
    yield Call("the text says nothing", (even.repeat(2, 1), torch.tensor([0.7, 0.2, 0.1])))


@question("09", "09.4")
def ask_pool_by_query(draw):
    for what, x, real in some_rows(draw, 7):
        yield Call(what, (x, real, draw.numbers(7)))
    x, real = draw.numbers(3, 5, 8), behind(5, 4, 2, 5)
    yield Call("a query of zeros", (x, real, torch.zeros(8)))
    yield Call("a query of large numbers", (x, real, draw.numbers(8, scale=10.0)))
