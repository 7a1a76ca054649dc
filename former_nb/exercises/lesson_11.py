"Lesson 11: decoding."

import torch
from torch import nn

from ..attention.fused import attention
from ..grading.ask import Call, exercise, question
from .lesson_09 import a_stack, an_embedding
from .lesson_10 import LanguageModel
from .parts import a_mask


class LayerCache:
    def __init__(self, attend=attention):
        self.attend = attend
        #! the cache calls `attention`, whatever it is made with
        # ~ self.attend = attention
        self.k = self.v = None

    def __call__(self, q, k, v, mask=None, is_causal=False):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            #! new keys come behind those that are kept, because the last query belongs to the last
            #! key
            # ~ k = torch.cat([k, self.k], dim=2)
            #! the keys that are kept have to be read, too
            # ~ pass
            v = torch.cat([self.v, v], dim=2)
            #! new values come behind those that are kept, in the order of the keys
            # ~ v = torch.cat([v, self.v], dim=2)
            #! the values that are kept have to be read, too
            # ~ pass
            #! new keys and values come behind those that are kept; yours come before them, and so
            #! the last query isn't that of the last key
            # ~2 k = torch.cat([k, self.k], dim=2)
            #| v = torch.cat([v, self.v], dim=2)
            #! keys are joined along the words, axis 2 of (B, h, T, d_k); axis 1 are the heads
            # ~2 k = torch.cat([self.k, k], dim=1)
            #| v = torch.cat([self.v, v], dim=1)
            #! keys are joined along the words, axis 2 of (B, h, T, d_k); the last axis holds the
            #! numbers of one key
            # ~2 k = torch.cat([self.k, k], dim=-1)
            #| v = torch.cat([self.v, v], dim=-1)
            #! keys are joined along the words, axis 2 of (B, h, T, d_k); axis 0 are the texts
            # ~2 k = torch.cat([self.k, k], dim=0)
            #| v = torch.cat([self.v, v], dim=0)
            #! what is kept are keys, and values apart from them; yours joins the keys to the values
            # ~ v = torch.cat([self.k, v], dim=2)
        self.k, self.v = k, v
        #! nothing is kept for the next call
        # ~ pass
        #! all keys and values are kept; yours keeps the newest alone, so the one before the last is
        #! forgotten
        # ~ self.k, self.v = k[:, :, -1:], v[:, :, -1:]
        #! keys and values are kept from the first call alone; keep the joined ones each time
        # ~ if self.k is None:
        #|     self.k, self.v = k, v
        #! keys and values are exchanged where they are kept
        # ~ self.k, self.v = v, k
        #! the keys are kept, but not the values
        # ~ self.k = k
        #| self.v = v if self.v is None else self.v
        #! what is kept is what came; keep what has been joined, so that nothing is forgotten
        # ~ n = q.shape[2]
        #| self.k, self.v = k[:, :, -n:], v[:, :, -n:]
        #! without a first call there is nothing to join, and torch.cat refuses None: `if self.k is
        #! not None`
        # ~2 self.k, self.v = k, v
        # ~ if self.k is not None: -> if True:
        return self.attend(q, k, v, mask, is_causal)
        #! mask and is_causal aren't passed on
        # ~ return self.attend(q, k, v)
        #! is_causal isn't passed on; a prompt comes with many queries at once, and they may not
        #! look ahead
        # ~ return self.attend(q, k, v, mask)
        #! the mask isn't passed on
        # ~ return self.attend(q, k, v, None, is_causal)
        #! is_causal is always on; it is for the caller to say
        # ~ return self.attend(q, k, v, mask, True)
        #! queries aren't kept: each call answers its own, one row for each of them
        # ~ self.q = torch.cat([self.q, q], dim=2) if hasattr(self, "q") else q
        #| return self.attend(self.q, k, v, mask, is_causal)
        #! the answer is what attention gives, one tensor; the cache keeps its keys and values
        #! itself
        # ~ return self.attend(q, k, v, mask, is_causal), (k, v)


def greedy(logits):  # (B, vocab_size) -> (B,)
    return logits.argmax(dim=-1)
    #! the likeliest token of each text is asked for, so look along the tokens, dim=-1; yours looks
    #! along the texts
    # ~ return logits.argmax(dim=0)
    #! the number of the token is asked for, argmax, not its logit
    # ~ return logits.max(dim=-1).values
    #! max gives logits and numbers; the numbers are asked for, argmax
    # ~ return logits.max(dim=-1)
    #! the largest logit is that of the likeliest token; yours takes the least likely
    # ~ return logits.argmin(dim=-1)
    #! one number for each text is asked for, (B,), so without keepdim
    # ~ return logits.argmax(dim=-1, keepdim=True)
    #! without dim, all texts are taken as one row; one number for each text is asked for, dim=-1
    # ~ return logits.argmax()
    #! .item() takes one text alone; a batch has B of them, (B,)
    # ~ return logits.argmax(dim=-1).item()
    #! the largest of the absolute values isn't the likeliest: a logit of -9 is most unlikely
    # ~ return logits.abs().argmax(dim=-1)
    #! that draws a token; greedy always takes the likeliest
    # ~ return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]
    #! a tensor is asked for, since it is joined to the tokens
    # ~ return logits.argmax(dim=-1).tolist()
    #! squeeze() takes away the batch, too, if it has one text: (B,) is asked for
    # ~ return logits.argmax(dim=-1).squeeze()
    #! of equal logits the first token is taken; yours takes the last
    # ~ return logits.shape[-1] - 1 - logits.flip(-1).argmax(dim=-1)


def sample(logits):
    return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]
    #! exp overflows from logits of 89 on, and 0 is left of those below -104; softmax takes the
    #! largest away first
    # ~ return torch.multinomial(logits.exp(), 1)[:, 0]
    #! that is greedy, always the likeliest; draw one
    # ~ return logits.argmax(dim=-1)
    #! probabilities are the softmax of logits, not the logits without their negative ones
    # ~ return torch.multinomial(logits.clamp(min=0), 1)[:, 0]
    #! (B, 1) came back; one token for each text is (B,)
    # ~ return torch.multinomial(logits.softmax(dim=-1), 1)
    #! squeeze() takes away the batch, too, if it has one text; squeeze(-1) keeps it
    # ~ return torch.multinomial(logits.softmax(dim=-1), 1).squeeze()
    #! the logits are taken for probabilities; their softmax is missing
    # ~ return torch.multinomial(logits, 1)[:, 0]
    #! multinomial wants probabilities, and log_softmax gives their logarithms: softmax
    # ~ return torch.multinomial(logits.log_softmax(dim=-1), 1)[:, 0]
    #! a token is drawn with its probability; yours draws all alike
    # ~ return torch.randint(logits.shape[-1], (len(logits),))
    #! probabilities sum to 1 over the tokens of a text, dim=-1; yours sum to 1 over the texts
    # ~ return torch.multinomial(logits.softmax(dim=0), 1)[:, 0]
    #! the logits are doubled, as with a temperature of a half: the likely come too often
    # ~ return torch.multinomial((2 * logits).softmax(dim=-1), 1)[:, 0]
    #! the logits are halved, as with a temperature of two: the unlikely come too often
    # ~ return torch.multinomial((logits / 2).softmax(dim=-1), 1)[:, 0]
    #! only the likeliest few can come, as in top-k; here each token comes with its own probability
    # ~ least = logits.topk(min(50, logits.shape[-1])).values[:, -1:]
    #| return torch.multinomial(logits.masked_fill(logits < least, -math.inf).softmax(dim=-1), 1)[:, 0]
    #! sigmoids look at each logit alone; a token's probability is its share, the softmax
    # ~ return torch.multinomial(logits.sigmoid(), 1)[:, 0]
    #! each text has its own logits; yours draws for all of them from those of the first
    # ~ return torch.multinomial(logits[0].softmax(dim=-1), len(logits), replacement=True)
    #! one token is drawn for all texts; each draws its own
    # ~ return torch.multinomial(logits.softmax(dim=-1), 1)[:1, 0].expand(len(logits))
    #! the least likely tokens come most often, because the sign is wrong
    # ~ return torch.multinomial((-logits).softmax(dim=-1), 1)[:, 0]
    #! .item() takes one text alone; a batch has B of them, (B,)
    # ~ return torch.multinomial(logits.softmax(dim=-1), 1).item()


@torch.no_grad()
#! gradients are recorded while it writes, which takes memory with each token: @torch.no_grad()
# ~
def generate(
    model, prompts, max_new_tokens, pick=greedy, cache=None
):  # (B, T) -> (B, T + max_new_tokens)
    if cache is None:
        cache = [LayerCache() for _ in model.stack.blocks]
        #! each block needs a cache of its own, because its keys are those of its own vectors; yours
        #! share one
        # ~ cache = [LayerCache()] * len(model.stack.blocks)
        #! the cache that it is given isn't used
        # ~2 cache = [LayerCache() for _ in model.stack.blocks]
    tokens, start = prompts, 0
    for _ in range(max_new_tokens):
        #! one token too few is written: range(max_new_tokens)
        # ~ for _ in range(max_new_tokens - 1):
        #! one token too many is written: range(max_new_tokens)
        # ~ for _ in range(max_new_tokens + 1):
        #! max_new_tokens is how many are written, not how many there are together with the prompt
        # ~ for _ in range(max_new_tokens - prompts.shape[1]):
        positions = torch.arange(start, tokens.shape[1], device=tokens.device)
        #! a token is at the position behind all that the cache holds; yours is taken for the first
        #! one in each step, because the positions begin at 0 again, or aren't given to the model
        # ~ positions = torch.arange(tokens.shape[1] - start, device=tokens.device)
        #! a token is at the position behind all that the cache holds, and the first is 0; yours is
        #! one further
        # ~ positions = torch.arange(start, tokens.shape[1], device=tokens.device) + 1
        logits = model(tokens[:, start:], cache, positions)[:, -1]
        #! everything is fed again at each step, though the cache holds it already; feed what is new
        # ~ logits = model(tokens)[:, -1]
        #! each new token sees itself alone, because the cache isn't given to the model, or is made
        #! anew in each step
        # ~ logits = model(tokens[:, start:], positions=positions)[:, -1]
        #! the logits at the last position say what comes next; yours are those of the first
        # ~ logits = model(tokens[:, start:], cache, positions)[:, 0]
        #! the first step feeds the whole prompt; yours feeds its last token alone
        # ~ logits = model(tokens[:, -1:], cache, positions[-1:])[:, -1]
        #! `pick` gets logits; yours gives it probabilities
        # ~ logits = model(tokens[:, start:], cache, positions)[:, -1].softmax(dim=-1)
        #! the logits are of shape (B, vocab_size), those of the last position; yours keep an axis
        #! for the words
        # ~ logits = model(tokens[:, start:], cache, positions)[:, -1:]
        start = tokens.shape[1]
        #! everything is fed again at each step, and it comes into the cache once more; feed what is
        #! new, tokens[:, start:]
        # ~ pass
        #! `start` is where the new tokens begin, behind the whole prompt; yours grows by one
        # ~ start = start + 1
        tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
        #! the token comes from `pick`; yours is always the likeliest
        # ~ tokens = torch.cat([tokens, greedy(logits)[:, None]], dim=1)
        #! the new token comes behind the others; yours comes before them
        # ~ tokens = torch.cat([pick(logits)[:, None], tokens], dim=1)
        #! it stops when all texts have an EOS, but max_new_tokens are asked for; what comes behind
        #! an end is cut off elsewhere
        # ~ tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
        #| if (tokens == 2).any(dim=1).all():
        #|     break
        #! it stops when all new tokens are an EOS, but max_new_tokens are asked for; what comes
        #! behind an end is cut off elsewhere
        # ~ tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
        #| if (tokens[:, -1] == 2).all():
        #|     break
        #! it stops at an EOS of any text, so the others are cut short; max_new_tokens are asked for
        # ~ tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
        #| if (tokens[:, -1] == 2).any():
        #|     break
        #! after the first new token it returns: `return` belongs behind the loop
        # ~ tokens = torch.cat([tokens, pick(logits)[:, None]], dim=1)
        #| return tokens
    return tokens
    #! the prompt comes back, too, (B, T + max_new_tokens); yours gives the new tokens alone
    # ~ return tokens[:, prompts.shape[1] :]
    #! a tensor is asked for, (B, T + max_new_tokens); yours are lists
    # ~ return tokens.tolist()
    #! the prompt changes while it writes, and the first token is lost; the whole text comes back
    # ~ return tokens[:, -prompts.shape[1] :]


# ---------------------------------------------------------------- exercises


@exercise("11.1")
def my_step(q, k, v, cache):
    # ? What must still be there at the next step? What does the newest token bring, and what does it
    # ? meet?
    # ? `torch.cat([cache['k'], k], dim=2)` joins along the axis of the positions; keep the result in
    # ? the cache.
    # ? Attend with q, which is (B, h, 1, d_k), to all keys and values. No mask: nothing in the cache
    # ? is in the future.
    if cache:
        #! the dictionary is empty at the first step; ask `if cache:` before you look into it
        # ~ if True:
        k = torch.cat([cache["k"], k], dim=2)  # (B, h, S, d_k)
        #! the keys were joined along a wrong axis; the positions are `dim=2`, and `dim=1` the heads
        # ~ k = torch.cat([cache["k"], k], dim=1)
        #! the newest key stands first in the cache, but the newest value last; keep both in the same
        #! order
        # ~ k = torch.cat([k, cache["k"]], dim=2)
        v = torch.cat([cache["v"], v], dim=2)  # (B, h, S, d_v)
        #! the newest token meets only itself; join its key and value to those of the cache, and
        #! attend to all of them
        # ~3
        #! keys were joined and values were not; the cache needs both
        # ~ pass
        #! both were joined along a wrong axis; the positions are `dim=2`, and the last axis holds the
        #! numbers of one key
        # ~2 k = torch.cat([cache["k"], k], dim=-1)
        # | v = torch.cat([cache["v"], v], dim=-1)
        #! keys and values are added up; `torch.cat` joins them, one behind the other
        # ~2 k = cache["k"] + k
        # | v = cache["v"] + v
        #! the first key and value are in the cache twice; join nothing at the first step
        # ~3 k = torch.cat([cache.get("k", k), k], dim=2)
        # | v = torch.cat([cache.get("v", v), v], dim=2)
    cache["k"], cache["v"] = k, v
    #! nothing is kept; put what you joined into the dictionary
    # ~
    #! only two steps are remembered; keep what you joined, not the newest alone
    # ~ cache["k"], cache["v"] = k[:, :, -1:], v[:, :, -1:]
    #! only the first step is remembered; keep what you joined
    # ~ if not cache:
    # |     cache["k"], cache["v"] = k, v
    return attention(q, k, v)  # (B, h, 1, d_v)
    #! y leaves out the newest token, which sees itself too
    # ~ return attention(q, k[:, :, :-1], v[:, :, :-1]) if k.shape[2] > 1 else v
    #! the newest token sees the first key only: a causal mask of PyTorch lets the first query see one
    #! key, and yours is the only query; leave the mask out
    # ~ return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    #! old queries were kept; the newest token asks alone, and y has one row
    # ~ q = cache["q"] = torch.cat([cache["q"], q], dim=2) if "q" in cache else q
    # | return attention(q, k, v)
    #! the scores are not divided by the root of d_k
    # ~ return (q @ k.mT).softmax(dim=-1) @ v
    #! the cache is changed in its place; return y alone
    # ~ return attention(q, k, v), cache


@exercise(
    "11.2",
    parts=(
        "without the cache: write down what each of the seven steps reads, and add up",
        "with the cache: write down what each of the seven steps reads, and add up",
    ),
)
def tokens_through_the_model():
    # ? Which tokens go in at the first step, and which at the last? The seventh new token is chosen;
    # ? is it read?
    # ? Everything again: 5 + 6 + … + 11 tokens per prompt. With the cache: 5 at the first step, 1 at
    # ? each of the other six.
    return 4 * (5 + 6 + 7 + 8 + 9 + 10 + 11), 4 * (5 + 6)  # everything again, with the cache
    #! you swapped the two; the one without the cache comes first
    # ~ return 44, 224
    #! these are the visits of one prompt; there are four
    # ~ return 56, 11
    #! you fed the last token too; it is chosen, and nothing is asked of it
    # ~ return 272, 48
    #! with the cache: the last token is chosen and never read
    # ~ return 224, 48
    #! with the cache: the first step reads the whole prompt, not one token
    # ~ return 224, 28
    #! without the cache the prompt is read again at every step; with it, once at the first step
    # ~ return 112, 28


@exercise("11.3")
def times_fewer(n):
    # ? At step t, how many keys may each of the t queries see? And with the cache, how many queries
    # ? are there?
    # ? Without the cache step t costs t(t+1)/2 pairs, with it t. Sum both over t = 1 … n.
    # ? The sum of t(t+1)/2 is n(n+1)(n+2)/6, that of t is n(n+1)/2.
    return (n + 2) / 3
    #! you counted pairs that the mask forbids; of t queries the first sees one key only
    # ~ return (2 * n + 1) / 3
    #! that is the ratio of visits, and of the pairs of the last step; count the pairs of all steps
    # ~ return (n + 1) / 2
    #! that is the number of pairs without the cache; divide by those with it
    # ~ return n * (n + 1) * (n + 2) / 6
    #! that is the number of pairs with the cache; it divides the number without
    # ~ return n * (n + 1) / 2
    #! that is how many pairs are saved; asked for is how many times fewer
    # ~ return n * (n + 1) * (n - 1) / 6
    #! you have the two the wrong way round
    # ~ return 3 / (n + 2)
    #! with the cache one query meets t keys at step t, not one
    # ~ return (n + 1) * (n + 2) / 6
    #! one of the sums ends too early; both run over t = 1 … n
    # ~ return (n + 1) / 3
    #! that is the rule of thumb for many steps; the sums give it exactly
    # ~ return n / 3
    #! at step t there are t tokens; you took n at each step, in both
    # ~ return n
    #! it's no whole number; divide by `/`, which does not round down
    # ~ return (n + 2) // 3


# ---------------------------------------------------------------- questions


@question("11", "11.1")
def ask_my_step(draw):
    def steps(B, h, n, d_k, scale=1.0):
        "A call with the first token, which then feeds the others, and a second text."
        q, k, v = (draw.numbers(B, h, n, d_k, scale=scale) for _ in range(3))

        def newest(t):
            return [x[:, :, t : t + 1].clone() for x in (q, k, v)]

        def look(step, args, result):
            cache, found = args[3], {}
            for t in range(1, n):
                found[f"step {t + 1}"] = step(*newest(t), cache)
            found["the first step of another text"] = step(*newest(0), {})
            return found | {"something is kept in the dictionary": bool(cache)}

        return Call(f"{n} steps, q {(B, h, 1, d_k)}", (*newest(0), {}), look=look)

    yield steps(3, 2, 5, 7)
    yield steps(1, 4, 3, 6)
    yield steps(2, 1, 4, 3)
    yield steps(2, 3, 6, 5, scale=20.0)
    for _ in draw.rounds:
        yield steps(draw.size(1, 3), draw.size(1, 4), draw.size(4, 7), draw.size(8, 10))


@question("11", "11.3")
def ask_times_fewer(draw):
    for n in (7, 100, 12, 2, 3, 9, 5, 20, 33, 64, 1000, 4096):
        yield Call(f"n = {n}", (n,))


def upside_down(q, k, v, mask=None, is_causal=False):
    "Another attend."
    return attention(q, k, -2 * v, mask, is_causal)


@question("11", "LayerCache")
def ask_cache(draw):
    def in_pieces(cuts, mask=None, is_causal=True, more=()):
        "A call with the first piece, which looks at further ones, and at a second cache."
        B, h = draw.size(1, 3), draw.size(1, 4)
        q, k, v = (draw.numbers(B, h, cuts[-1], d) for d in (4, 4, 5))

        def piece(start, end):
            part = None if mask is None else mask[..., start:end, :end]
            given = [t[:, :, start:end].clone() for t in (q, k, v)]
            return (*given, part, is_causal)

        def look(cache, args, result):
            found = {}
            for start, end in zip(cuts[1:], cuts[2:]):
                found[f"positions {start} to {end - 1}"] = cache(*piece(start, end))
            other = type(cache)(*more)
            return found | {"another cache": other(*piece(0, cuts[1]))}

        sizes = [b - a for a, b in zip(cuts, cuts[1:])]
        said = f"pieces of {sizes}, is_causal={is_causal}"
        said += ", with a mask" * (mask is not None) + ", another attend" * bool(more)
        return Call(said, piece(0, cuts[1]), {}, more, look=look)

    yield in_pieces([0, 6])
    yield in_pieces([0, 4, 5, 6])
    yield in_pieces([0, 1, 2, 3, 4, 5, 6])
    yield in_pieces([0, 3, 6])
    yield in_pieces([0, 2, 5, 6], is_causal=False)
    yield in_pieces([0, 4, 5, 6], more=(upside_down,))
    yield in_pieces([0, 2, 6], is_causal=False, more=(upside_down,))
    yield in_pieces([0, 4, 5, 6], a_mask(draw, 6, 6))
    yield in_pieces([0, 2, 6], a_mask(draw, 6, 6), False)
    q, k, v = (draw.numbers(2, 3, 4, 5) for _ in range(3))
    yield Call("q, k, v alone", (q, k, v), {}, ())
    yield Call("is_causal by name", (q, k, v), dict(is_causal=True), ())
    yield Call("float64", (q.double(), k.double(), v.double(), None, True), {}, ())
    yield Call("more queries than keys", (draw.numbers(2, 3, 6, 5), k, v, None, True), {}, ())
    for i in draw.rounds:
        sizes = [draw.size(1, 4) for _ in range(draw.size(2, 5))]
        cuts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
        mask = a_mask(draw, cuts[-1], cuts[-1]) if i % 2 else None
        yield in_pieces(cuts, mask, bool(draw.size(0, 1)), [(), (upside_down,)][draw.size(0, 1)])


@question("11", "greedy")
def ask_greedy(draw):
    yield Call("logits (4, 7)", (draw.numbers(4, 7),))
    yield Call("one text", (draw.numbers(1, 9),))
    yield Call("one token", (draw.numbers(3, 1),))
    yield Call("as many texts as tokens", (draw.numbers(5, 5),))
    yield Call("logits of a hundred", (draw.numbers(4, 7, scale=100.0),))
    yield Call("negative logits", (draw.numbers(4, 7) - 50,))
    yield Call("tokens that may not come", (draw.numbers(4, 7).where(draw.mask(4, 7), -torch.inf),))
    yield Call("float64", (draw.numbers(4, 7, dtype=torch.float64),))
    near = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0 + 1e-12, 1.0]], dtype=torch.float64)
    yield Call("float64, nearly equal", (near[1:],))
    yield Call("equal logits", (torch.tensor([[0.0, 2.0, 2.0], [1.0, 1.0, 1.0], [3.0, 1.0, 3.0]]),))
    for _ in range(7 * len(draw.rounds)):
        yield Call("logits of chance", (draw.numbers(draw.size(1, 5), draw.size(2, 9), scale=3.0),))


@question("11", "sample")
def ask_sample(draw):
    def often(given, args, drawn):
        drawn_of = drawn.bincount(minlength=args[0].shape[1]) / len(drawn)
        return {"": drawn_of, "the shape": list(drawn.shape), "the type": str(drawn.dtype)}

    def call(what, logits):
        given = (logits.expand(50_000, -1),)
        return Call(what, given, look=often, near=0.004, chance=True, slopes=False)

    def each(given, args, drawn):
        return {"": drawn}

    def of_itself(what, logits):
        return Call(what, (logits,), look=each, chance=True, slopes=False)

    logits = draw.numbers(7, scale=2.0)
    yield call("50,000 texts", logits)
    yield call("logits of a hundred", logits + 100)
    yield call("logits of a thousand below 0", logits - 1000)
    yield call("float64", logits.double())
    yield call("a token that may not come", torch.tensor([0.0, 1.0, -torch.inf]))
    yield call("equal logits", torch.zeros(5))

    def different(given, args, drawn):
        return {"": len(set(drawn.flatten().tolist()))}  # how many tokens came

    logits_alike = torch.linspace(0.0, 0.5, 70).expand(5_000, -1)
    said = "5,000 texts, 70 logits that hardly differ"
    yield Call(said, (logits_alike,), look=different, chance=True, slopes=False)
    halves = torch.tensor([[0.0, 0.0, 2.5, 0.0], [0.0, 2.5, 0.0, 0.0]])

    def of_both(given, args, drawn):
        shares = [half.bincount(minlength=4) / len(half) for half in drawn.view(2, -1)]
        differ = len(set(drawn[:200].tolist()))
        return {"": shares, "texts with the same logits differ": differ > 1}

    both = halves.repeat_interleave(20_000, dim=0)
    yield Call("two kinds of texts", (both,), look=of_both, near=0.004, chance=True, slopes=False)
    yield of_itself("each text its own token", torch.eye(5) * 200)
    yield of_itself("one text", torch.tensor([[0.0, 300.0, 0.0]]))
    yield of_itself("one token", torch.zeros(3, 1))


class Watched(nn.Module):
    "A model that notes what it is fed."

    def __init__(self, model):
        super().__init__()
        self.model, self.stack, self.seen = model, model.stack, []

    def forward(self, tokens, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        self.seen.append(
            (positions.reshape(-1)[-tokens.shape[1] :].tolist(), torch.is_grad_enabled())
        )
        return self.model(tokens, attend, positions)


def a_model(draw, turning=False):
    "A model of chance."
    model = LanguageModel(an_embedding(not turning), a_stack(turning))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(draw.numbers(*p.shape, scale=0.7))
    return Watched(model.eval())


def least(logits):
    "A pick: the least likely token."
    return logits.argmin(dim=-1)


def by_signs(logits):
    "A pick that depends on which logits are above 0."
    return ((logits > 0) * torch.arange(1, logits.shape[-1] + 1)).sum(dim=-1) % logits.shape[-1]


def an_end(logits):
    "A pick: always EOS."
    return torch.full((len(logits),), 2)


def an_end_of_the_first(logits):
    "A pick: EOS for the first text, and the likeliest token for the others."
    tokens = logits.argmax(dim=-1)
    tokens[0] = 2
    return tokens


@question("11", "generate")
def ask_generate(draw):
    def look(given, args, result):
        seen = args[0].seen[: args[2]]  # once more at the end does no harm
        found = {"the positions that the model is fed": [positions for positions, _ in seen]}
        found["gradients are recorded"] = any(recorded for _, recorded in args[0].seen)
        if len(args) > 4:
            found["the cache that it is given is used"] = all(c.k is not None for c in args[4])
        return found

    def call(what, model, prompts, n, *more, **options):
        return Call(what, (model, prompts, n, *more), options, look=look, slopes=False)

    for turning, where in [(False, "the embedding"), (True, "the stack")]:
        model, said = a_model(draw, turning), f"positions in {where}"
        prompts = draw.tokens(2, 4)
        yield call(f"{said}, 5 new tokens", model, prompts, 5)
        yield call(f"{said}, a prompt of one token", model, prompts[:1, :1], 6)
        yield call(f"{said}, no new token", model, prompts, 0)
        yield call(f"{said}, one new token", model, prompts, 1)
        yield call(f"{said}, another pick", model, prompts, 6, least)
        caches = [LayerCache(upside_down) for _ in range(2)]
        yield call(f"{said}, caches of your own", model, prompts, 5, by_signs, caches)
    yield call("a pick by name", a_model(draw), prompts, 4, pick=by_signs)
    yield call("an end in each step", a_model(draw), prompts, 4, an_end)
    yield call("an end of one text", a_model(draw), prompts, 4, an_end_of_the_first)
    yield call("a prompt with an end", a_model(draw), torch.tensor([[1, 2], [1, 2]]), 5)
    for i in range(5 * len(draw.rounds)):
        prompts = draw.tokens(draw.size(1, 3), draw.size(1, 7))
        pick = [by_signs, least, by_signs][i % 3]
        yield call("a model of chance", a_model(draw, i % 4 == 3), prompts, draw.size(2, 9), pick)
