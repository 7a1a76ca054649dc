"""Lessons 11 and 12 in a reader's file: decoding with a cache, and a decoder of today."""

import tempfile
from pathlib import Path

import torch

from ..base.files import find_model
from .questions import D_FF, D, V, ask_layer, made, see_less
from .small_llama import write_checkpoint
from .steps import same_weights, step, unchanged
from .steps_training import body

# ---------------------------------------------------------------- 11 · decoding


@step(
    "11",
    (
        "k = torch.cat([self.k, k], dim=2)",
        "k = torch.cat([k, self.k], dim=2)",
        "new keys come behind those that are kept",
    ),
    ("k = torch.cat([self.k, k], dim=2)", "pass", "the keys that are kept have to be read, too"),
    (
        "v = torch.cat([self.v, v], dim=2)",
        "v = torch.cat([v, self.v], dim=2)",
        "new values come behind those that are kept",
    ),
    ("self.k, self.v = k, v", "pass", "nothing is kept for the next call"),
    (
        "self.k, self.v = k, v",
        "self.k, self.v = k[:, :, -1:], v[:, :, -1:]",
        "all keys and values are kept, not only the last",
    ),
    (
        "return self.attend(q, k, v, mask, is_causal)",
        "return self.attend(q, k, v, mask)",
        "is_causal is not passed on",
    ),
    (
        "return self.attend(q, k, v, mask, is_causal)",
        "return self.attend(q, k, v, None, is_causal)",
        "the mask is not passed on",
    ),
    (
        "return self.attend(q, k, v, mask, is_causal)",
        "return attention(q, k, v, mask, is_causal)",
        "it calls attention, whatever it was made with",
    ),
    after=("attention with masks",),
)
def LayerCache(answer, right, draw):
    q, k, v = (draw.numbers(2, 3, 6, 4) for _ in range(3))

    def piece(t, first, end):
        return t[:, :, first:end]

    for made_with in [(), (see_less,)]:
        said = "another attend, " if made_with else ""
        for cuts in [(0, 6), (0, 4, 5, 6), (0, 1, 2, 3, 4, 5, 6), (0, 3, 6)]:

            def answers(cuts=cuts, made_with=made_with):
                cache = answer(*made_with)
                parts = []
                for first, end in zip(cuts, cuts[1:]):
                    given = [piece(t, first, end).clone() for t in (q, k, v)]
                    parts.append(cache(*given, None, True))
                return parts

            yield f"{said}pieces of {[b - a for a, b in zip(cuts, cuts[1:])]}", answers
    mask = draw.mask(2, 1, 1, 6)
    mask[..., 0] = True

    def masked():
        cache = answer()
        return [
            cache(*(piece(t, 0, 5) for t in (q, k, v)), mask[..., :5], True),
            cache(*(piece(t, 5, 6) for t in (q, k, v)), mask, True),
        ]

    yield "a mask", masked

    def apart():
        one, other = answer(), answer()
        one(*(piece(t, 0, 3) for t in (q, k, v)), None, True)
        return other(*(piece(t, 3, 5) for t in (q, k, v)), None, True)

    yield "two caches", apart


@step(
    "11",
    ("logits.argmax(dim=-1)", "logits.argmax(dim=0)", "the likeliest token of each row, dim=-1"),
    (
        "logits.argmax(dim=-1)",
        "logits.max(dim=-1).values",
        "the number of the token is asked for, argmax, not its logit",
    ),
    ("logits.argmax(dim=-1)", "logits.argmin(dim=-1)", "the largest logit is the likeliest token"),
    (
        "logits.argmax(dim=-1)",
        "logits.argmax(dim=-1, keepdim=True)",
        "one number for each row, (B,)",
    ),
    ("logits.argmax(dim=-1)", "logits.argmax()", "one number for each row, (B,)"),
)
def greedy(answer, right, draw):
    yield "logits (4, 7)", lambda: unchanged(answer, draw.numbers(4, 7))
    yield "one row", lambda: unchanged(answer, draw.numbers(1, 9))


@step(
    "11",
    (
        "logits.softmax(dim=-1)",
        "logits.softmax(dim=0)",
        "probabilities sum to 1 over the tokens of a row, dim=-1",
    ),
    (
        "torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]",
        "logits.argmax(dim=-1)",
        "it has to draw; yours always takes the likeliest",
    ),
    (
        "torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]",
        "torch.multinomial(logits.softmax(dim=-1), 1)",
        "one number for each row, (B,)",
    ),
    (
        "torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]",
        "torch.randint(logits.shape[-1], (len(logits),))",
        "a token is drawn with its probability; yours draws all alike",
    ),
    (
        "logits.softmax(dim=-1)",
        "(2 * logits).softmax(dim=-1)",
        "the probabilities are those of softmax(logits)",
    ),
)
def sample(answer, right, draw):
    def shares():
        torch.manual_seed(0)
        logits = torch.tensor([[0.0, 0.0, 2.5, 0.0], [0.0, 2.5, 0.0, 0.0]])
        drawn = answer(logits.repeat_interleave(4000, dim=0)).view(2, 4000)
        given = [[(row == n).float().mean().item() for n in range(4)] for row in drawn]
        pairs = zip(sum(given, []), logits.softmax(dim=-1).flatten().tolist())
        near = all(abs(share - p) < 0.03 for share, p in pairs)  # more than four standard errors
        quarters = [[round(4 * share) for share in row] for row in given]  # far from any half
        draws = len(set(drawn.flatten().tolist())) > 2  # more than the likeliest of each row
        return ["as softmax(logits) says" if near else "more or less often", quarters, draws]

    yield "how often each token is drawn", shares
    logits = draw.numbers(5, 7)
    yield (
        "the shape of what comes back",
        lambda: [tuple(unchanged(answer, logits).shape), answer(logits).dtype],
    )
    sure = torch.full((3, 6), -1e9)
    sure[0, 2] = sure[1, 5] = sure[2, 0] = 0.0
    yield "a token that is certain", lambda: answer(sure)


def least(logits):
    "A pick: the least likely token."
    return logits.argmin(dim=-1)


@step(
    "11",
    (
        "start = start + new.shape[1]",
        "start = start + 1",
        "after a prompt of several tokens, the position is behind all of them",
    ),
    (
        "start = start + new.shape[1]",
        "pass",
        "the positions of what follows begin where the last ones end",
    ),
    (
        "model(new, attend, positions)[:, -1]",
        "model(new, attend, positions)[:, 0]",
        "the logits at the last position say what comes next",
    ),
    ("new = pick(logits)[:, None]", "new = greedy(logits)[:, None]", "the token comes from pick"),
    (
        "[LayerCache() for _ in model.stack.blocks]",
        "[LayerCache()] * len(model.stack.blocks)",
        "each block needs a cache of its own",
    ),
    (
        "tokens = torch.cat([tokens, new], dim=1)",
        "tokens = new",
        "the prompt and all new tokens come back, (B, T + n)",
    ),
    ("for _ in range(n):", "for _ in range(n - 1):", "n tokens are asked for"),
    after=("LayerCache", "greedy"),
)
def generate(answer, right, draw):
    for base, longest, said in [(None, 32, "learned positions"), (20.0, None, "rotary")]:
        model = right.LanguageModel(*body(right, longest), base)
        same_weights(model, model)
        model.eval()
        prompt = draw.tokens(2, 4)
        yield f"{said}, 9 tokens", lambda: unchanged(answer, model, prompt, 9)
        yield f"{said}, a prompt of one token", lambda: answer(model, prompt[:, :1], 5)
        yield f"{said}, no token", lambda: answer(model, prompt, 0)
        yield f"{said}, another pick", lambda: answer(model, prompt, 6, least)

        def with_caches(model=model, prompt=prompt):
            caches = [right.LayerCache(see_less) for _ in model.stack.blocks]
            return answer(model, prompt, 6, right.greedy, caches)

        yield f"{said}, caches of your own", with_caches

        def calls():
            read = []
            forward = model.forward

            def watch(tokens, *further, **options):
                read.append(tokens.shape[1])
                return forward(tokens, *further, **options)

            model.forward = watch
            try:
                answer(model, prompt, 5)
            finally:
                del model.forward
            return read

        yield f"{said}, how many tokens each call reads", calls


# ---------------------------------------------------------------- 12 · a modern decoder


@step(
    "12",
    (
        "x.square().mean(dim=-1, keepdim=True)",
        "x.square().sum(dim=-1, keepdim=True)",
        "the mean of the squares, not their sum",
    ),
    (
        "(x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()",
        "x.square().mean(dim=-1, keepdim=True).sqrt() + self.eps",
        "eps belongs inside the root",
    ),
    ("self.weight * x /", "x /", "the gain is missing, self.weight"),
    (
        "self.weight * x / (x.square()",
        "self.weight * (x - x.mean(dim=-1, keepdim=True)) / (x.square()",
        "RMSNorm leaves the mean in",
    ),
    (" + self.eps).sqrt()", " + self.eps)", "divide by the root of the mean square"),
    ("torch.ones(d_model)", "torch.zeros(d_model)", "the gain begins at 1"),
    (" + self.eps)", ")", "eps is missing; it keeps zeros from a division by zero"),
)
def RMSNorm(answer, right, draw):
    norm = made(answer, right.RMSNorm, D, 1e-2)
    x = draw.numbers(2, 5, D)
    yield "x", lambda: unchanged(norm, x)
    yield "small numbers", lambda: unchanged(norm, 0.01 * x)
    yield "numbers far from 0", lambda: unchanged(norm, x + 3)
    yield "zeros", lambda: answer(D)(torch.zeros(2, D))
    yield "a new norm", lambda: answer(D)(x)


@step(
    "12",
    (
        "F.silu(self.w_gate(x)) * self.w_in(x)",
        "F.silu(self.w_in(x)) * self.w_gate(x)",
        "SiLU belongs on w_gate; w_in passes through it",
    ),
    (
        "F.silu(self.w_gate(x)) * self.w_in(x)",
        "F.silu(self.w_gate(x)) + self.w_in(x)",
        "the gate multiplies",
    ),
    ("F.silu(self.w_gate(x))", "self.w_gate(x).sigmoid()", "the gate is SiLU(z) = z · sigmoid(z)"),
    ("F.silu(self.w_gate(x))", "F.gelu(self.w_gate(x))", "the gate is SiLU, not GELU"),
    (
        "F.silu(self.w_gate(x)) * self.w_in(x)",
        "F.silu(self.w_gate(x) * self.w_in(x))",
        "SiLU is for the gate alone, before the product",
    ),
    (
        "self.w_out = nn.Linear(d_ff, d_model, bias=False)",
        "self.w_out = nn.Linear(d_ff, d_model)",
        "no layer has a bias",
    ),
)
def SwiGLU(answer, right, draw):
    part = made(answer, right.SwiGLU, D, D_FF)
    x = draw.numbers(2, 5, D)
    yield "x", lambda: unchanged(part, x)
    yield "larger numbers", lambda: unchanged(part, 4 * x)


@step(
    "12",
    (
        "k = k.repeat_interleave(self.group, dim=1)",
        "k = k.repeat(1, self.group, 1, 1)",
        "neighbouring heads of queries share a head of keys: repeat_interleave",
    ),
    (
        "v = v.repeat_interleave(self.group, dim=1)",
        "v = v.repeat(1, self.group, 1, 1)",
        "neighbouring heads of queries share a head of values: repeat_interleave",
    ),
    (
        "self.group = n_heads // n_kv_heads",
        "self.group = n_kv_heads",
        "each head of keys serves n_heads // n_kv_heads heads of queries",
    ),
    (
        "return attend(q, k, v, mask, is_causal)",
        "return attend(q, k, v, mask)",
        "is_causal is not passed on",
    ),
    (
        "return attend(q, k, v, mask, is_causal)",
        "return attention(q, k, v, mask, is_causal)",
        "it calls attention, whatever it is given as attend",
    ),
    (
        "self.w_o = nn.Linear(n_heads * d_k, d_model, bias=False)",
        "self.w_o = nn.Linear(n_heads * d_k, d_model)",
        "no layer has a bias",
    ),
    after=("MultiHeadAttention",),
)
def GroupedQueryAttention(answer, right, draw):
    for d_model, n_heads, n_kv_heads, d_k in [(12, 6, 2, 2), (8, 4, 1, 3), (8, 2, 2, 4)]:
        layer = made(answer, right.GroupedQueryAttention, d_model, n_heads, n_kv_heads, d_k)
        mask = draw.mask(2, 1, 1, 5)
        mask[..., 0] = True
        yield from ask_layer(layer, draw.numbers(2, 5, d_model), mask, right.attention)


LLAMA = (V, 12, 6, 2, 2, 20, 4, 1e-3, 50.0)


@step(
    "12",
    ("rotary_base=base", "rotary_base=None", "the model has no positions; it needs rotary ones"),
    ("rotary_base=base", "rotary_base=10_000.0", "the base is not passed on"),
    (
        "norms = RMSNorm(d_model, eps), RMSNorm(d_model, eps)",
        "norms = RMSNorm(d_model), RMSNorm(d_model, eps)",
        "eps is not passed on to all norms",
    ),
    (
        "norms = RMSNorm(d_model, eps), RMSNorm(d_model, eps)",
        "norms = [RMSNorm(d_model, eps)] * 2",
        "both norms of a block are one and the same; make two",
    ),
    (
        "Stack(blocks, RMSNorm(d_model, eps))",
        "Stack(blocks, nn.Identity())",
        "a norm is missing after the last block",
    ),
    (
        "Stack(blocks, RMSNorm(d_model, eps))",
        "Stack(blocks, RMSNorm(d_model))",
        "eps is not passed on to the last norm",
    ),
    ("SwiGLU(d_model, d_ff)", "SwiGLU(d_model, 4 * d_model)", "the network has d_ff units"),
    after=(
        "GroupedQueryAttention",
        "SwiGLU",
        "RMSNorm",
        "Block",
        "Stack",
        "Embedding",
        "LanguageModel",
    ),
)
def modern_decoder(answer, right, draw):
    model = made(answer, right.modern_decoder, *LLAMA)
    tokens = draw.tokens(2, 6)
    yield "logits", lambda: unchanged(model, tokens)
    yield "small vectors", lambda: _shrunk(answer, right)(tokens)
    yield "positions", lambda: model(tokens, positions=torch.tensor([0, 2, 3, 5, 8, 9]))
    yield "the number of weights", lambda: sum(p.numel() for p in answer(*LLAMA).parameters())


def _shrunk(answer, right):
    "A model whose stream is so small that eps shows."
    model = made(answer, right.modern_decoder, *LLAMA)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.mul_(0.02)
    return model


@step(
    "12",
    ('"self_attn.q_proj": "attention.w_q"', '"self_attn.q_proj": "attention.w_k"', "q_proj is w_q"),
    (
        '"mlp.gate_proj": "ff.w_gate"',
        '"mlp.gate_proj": "ff.w_in"',
        "gate_proj is w_gate",
    ),
    (
        '"mlp.gate_proj": "ff.w_gate",\n    "mlp.up_proj": "ff.w_in"',
        '"mlp.gate_proj": "ff.w_in",\n    "mlp.up_proj": "ff.w_gate"',
        "gate_proj is w_gate, and up_proj is w_in",
    ),
    ('c["num_key_value_heads"]', "h", "the number of heads of keys is num_key_value_heads"),
    ('c["rms_norm_eps"]', "1e-5", "eps is rms_norm_eps"),
    ('c["rope_theta"]', "10_000.0", "the base of the rotary angles is rope_theta"),
    (
        'c.get("head_dim") or d_model // h',
        "d_model // h",
        "the width of a head is head_dim, where config.json has one",
    ),
    ("return model.eval()", "return model", "the model that comes back is in eval mode"),
    after=("modern_decoder",),
)
def load_llama(answer, right, draw):
    tokens = draw.tokens(2, 9, high=30)
    for changes in [
        {},
        dict(num_key_value_heads=1, rms_norm_eps=1e-2),
        dict(rope_theta=30.0, head_dim=6),
    ]:
        said = ", ".join(f"{name} = {value}" for name, value in changes.items()) or "a small Llama"

        def logits(changes=changes):
            with tempfile.TemporaryDirectory() as folder:
                write_checkpoint(Path(folder), tie_word_embeddings=True, **changes)
                with torch.no_grad():
                    return answer(Path(folder))(tokens)

        yield said, logits

    def ships():
        with torch.no_grad():
            return answer(find_model("shakespeare"))(tokens)

    yield "the Llama that ships with the course", ships
    yield "its mode", lambda: answer(find_model("shakespeare")).training
