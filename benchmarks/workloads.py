"""The work that is timed. A workload gives functions to run, ours first, by the name of who runs.

Every contender has the same sizes and does the same amount of work: one call is one step, one
forward pass or one whole generation. What a workload imports from a peer, it imports by name, so
that a peer which is not installed costs only its own line.

Who changes what a workload does gives it another name: results keep what was measured by its name.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from former_nb.attention.fused import attention
from former_nb.attention.masks import padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.torch_layers import mha_to_torch
from former_nb.data.batches import make_batches
from former_nb.data.data_sets import load_reviews, load_translations
from former_nb.data.text import BOS, EOS, PAD, UNK
from former_nb.data.tokens import SPECIALS
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, generate
from former_nb.decoding.classification import collate_labels, label_batches
from former_nb.decoding.fast_copy import faster
from former_nb.decoding.sampling import Sampling
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import collate_pairs
from former_nb.models.parts import attend_beams
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.tasks.pairs import Multi30k
from former_nb.training.losses import call, token_loss
from former_nb.training.muon import Muon

from . import peers, timing


class Work(NamedTuple):
    "What is timed, and what one call of it cannot do without."

    runs: dict[str, Callable]  # by the name of who runs
    flops: float = 0.0  # on real tokens
    n_bytes: float = 0.0  # that must be read, where memory is the limit
    dtype: torch.dtype = torch.float32


WORKLOADS = {}  # name -> a function of a device that gives the work
SIZES = {  # of language models: parameters -> configuration
    "0.8M": dict(d_model=128, n_heads=4, n_layers=4, d_ff=512, max_len=256),
    "10.8M": dict(d_model=384, n_heads=6, n_layers=6, d_ff=1536, max_len=256),
}


def workload(name: str, *args):
    "Register a function under a name, once for each tuple of arguments."

    def register(make):
        for values in args or [()]:
            WORKLOADS["/".join([name, *map(str, values)])] = partial(make, *values)
        return make

    return register


def backward(run, inputs):
    "A function that runs forward and backward and throws the gradients away."

    def both():
        run().sum().backward()
        for t in inputs:
            t.grad = None

    return both


LENGTHS = list(product((128, 512, 2048, 4096), ("full", "causal"), ("forward", "backward")))


def one_way(runs, way, inputs, flops):
    "The work of forward alone, or of forward and backward."
    if way == "forward":
        return Work({name: peers.no_grad(run) for name, run in runs.items()}, flops)
    return Work({name: backward(run, inputs) for name, run in runs.items()}, 3 * flops)


@workload("attention", *LENGTHS)
def attention_core(T, rule, way, device):
    h, d, B, causal = 8, 64, max(1, 2048 // T), rule == "causal"
    q, k, v = (
        torch.randn(B, h, T, d, device=device, requires_grad=way == "backward") for _ in "qkv"
    )
    runs = {
        "ours": lambda: attention(q, k, v, is_causal=causal),
        "F.scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
            q, k, v, is_causal=causal
        ),
    }
    torch.testing.assert_close(*(run() for run in runs.values()))
    return one_way(runs, way, (q, k, v), 4 * B * h * T * T * d * (0.5 if causal else 1))


@workload("multi_head", *LENGTHS)
def multi_head(T, rule, way, device):
    d, causal, x = 512, rule == "causal", torch.randn(max(1, 2048 // T), T, 512, device=device)
    ours = MultiHeadAttention(d, 8).to(device)
    theirs = mha_to_torch(ours).to(device)
    mask = nn.Transformer.generate_square_subsequent_mask(T, device=device) if causal else None
    how = dict(attn_mask=mask, is_causal=causal, need_weights=False)
    runs = {
        "ours": lambda: ours(x, is_causal=causal),
        "nn.MultiheadAttention": lambda: theirs(x, x, x, **how)[0],
    }
    torch.testing.assert_close(*(run() for run in runs.values()), rtol=1e-3, atol=1e-4)
    flops = len(x) * T * (8 * d * d + 4 * T * d * (0.5 if causal else 1))
    return one_way(runs, way, [*ours.parameters(), *theirs.parameters()], flops)


@workload("memory", (4096,), (16384,))
def memory(T, device, h=4, d=64):
    "Causal attention forward and backward, whose peak is measured in place of its seconds."
    q, k, v = (torch.randn(1, h, T, d, device=device, requires_grad=True) for _ in "qkv")

    def written_out():
        allowed = torch.ones(T, T, dtype=torch.bool, device=device).tril()
        return (q @ k.mT / d**0.5).masked_fill(~allowed, float("-inf")).softmax(-1) @ v

    runs = {
        "ours": lambda: attention(q, k, v, is_causal=True),
        "F.scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
            q, k, v, is_causal=True
        ),
    }
    if (needed := 5 * 4 * h * T * T) < timing.free_memory(device):
        runs["written out"] = written_out
    else:
        print(f"  written out is left out: it needs some {needed / 2**30:.0f} GiB", file=sys.stderr)
    return Work({name: backward(run, (q, k, v)) for name, run in runs.items()})


def training_step(model, batches, loss, logits, dtype, device):
    "A step on each batch: logits and their targets, loss, backward, clipping, AdamW."
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    half = partial(torch.autocast, device.type, dtype, enabled=dtype != torch.float32)

    def step():
        for inputs, targets in batches:
            with half():
                found = logits(model, inputs, targets)
            loss(*found).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

    return step


def as_fit(model, inputs, targets):
    "Our logits and their targets, as `fit` has them: pads and all."
    return call(model, inputs), targets


def steps(models: dict, batches, device, dtype=torch.float32, compiled=False) -> dict:
    """Training steps of models by name, each with what calls it and, if it has them, own batches.

    `compiled` lets `torch.compile` build the kernels of all, ours and theirs.
    """
    found = {}
    for name, (model, logits, *own) in peers.available(models).items():
        how = peers.cross_entropy, peers.call_with(logits)
        if name == "ours":
            how = token_loss, as_fit
        if compiled:
            torch._dynamo.reset()  # no kernel of another contender counts as a second shape
            model = torch.compile(model)
        found[name] = training_step(model, *(own or [batches]), *how, dtype, device)
    return found


def step_flops(weights: int, tokens: int, pairs: int, width: int) -> int:
    "Forward and backward: each weight meets each token, each query the keys it may see."
    return 6 * weights * tokens + 12 * pairs * width


def weights_of(*parts) -> int:
    return sum(p.numel() for part in parts for p in part.parameters())


PRECISIONS = "float32", "bfloat16"


@workload("train_generator", *product(SIZES, PRECISIONS))
def train_generator(size, precision, device, compiled=False):
    c = TransformerConfig(65, dropout=0.0, **SIZES[size])
    B, T = (16, 256) if device.type == "cpu" else (256, 256)
    B = max(1, B // (4 if size == "10.8M" else 1))
    tokens = torch.randint(len(SPECIALS), c.vocab_size, (B, T), device=device)
    ours = LanguageModel.from_config(c)
    models = {
        "ours": lambda: (ours, call),
        "nn.TransformerEncoder": lambda: (peers.TorchLanguageModel(c), call),
        "Hugging Face GPT-2": lambda: (peers.gpt2(c), nn.Module.__call__),
        "x-transformers": lambda: (peers.x_transformers(c), call),
        "litgpt": lambda: (peers.litgpt(c), call),
    }
    weights, pairs = weights_of(ours.stack) + 65 * c.d_model, c.n_layers * B * T * T // 2
    dtype = getattr(torch, precision)
    runs = steps(models, [(tokens, tokens.roll(-1, 1))], device, dtype, compiled)
    return Work(runs, step_flops(weights, B * T, pairs, c.d_model), dtype=dtype)


def ragged(texts, most, vocab_size, n):
    "Rows as long as some texts have words, of random tokens: the lengths are real."
    lengths = [min(len(text.split()) + 2, most) for text in texts[:: max(1, len(texts) // n)][:n]]

    def draw(size):
        return torch.randint(len(SPECIALS), vocab_size, (size,)).tolist()

    return [[BOS, *draw(size - 2), EOS] for size in lengths]


@workload("train_classifier")
def train_classifier(device, compiled=False):
    "Four batches of reviews; ours are bucketed by length, a peer's are as they come."
    c = TransformerConfig(8000, 256, 128, 4, 4, 512, dropout=0.0)
    texts = [text for text, _ in load_reviews()[0]["train"]]
    rows = [(row, i % 2) for i, row in enumerate(ragged(texts, 256, c.vocab_size, 64))]

    def place(batches):
        return [tuple(t.to(device) for t in batch) for batch in batches]

    buckets = place(label_batches(rows, 16, 256))
    mixed = place(collate_labels(rows[i::4]) for i in range(4))

    def theirs(model, x):
        return model(x, attention_mask=(x != PAD).long()).logits

    ours = Classifier.from_config(c, 2)
    models = {
        "ours": lambda: (ours, call, buckets),
        "nn.TransformerEncoder": lambda: (peers.TorchClassifier(c), call),
        "Hugging Face BERT": lambda: (peers.bert(c), theirs),
        "BERT, our buckets": lambda: (peers.bert(c), theirs, buckets),
    }
    lengths = [len(row) for row, _ in rows]
    pairs = c.n_layers * sum(n * n for n in lengths)
    flops = step_flops(weights_of(ours.stack), sum(lengths), pairs, c.d_model)
    return Work(steps(models, mixed, device, compiled=compiled), flops)


def captions(n, vocab_size):
    "Pairs as long as real captions, or number words where there are none: `n` of them, or all."
    pairs = load_translations()[0]["train"]
    sides = ([pair[i] for pair in pairs] for i in (0, 1))
    return list(zip(*(ragged(side, 100, vocab_size, n or len(side)) for side in sides)))


TRANSLATOR = TransformerConfig(5000, 128, 256, 4, 3, 1024, dropout=0.0)


def translator_batches(kind):
    """Pairs of a size, on the CPU.

    "buckets": four of the batches that `former-nb train multi30k` makes, sorted by the longer side
    and of at most 2,500 tokens. They lie at one, three, five and seven eighths of that order.
    "unsorted": 128 pairs as they come, with the pads of the longest.
    """
    if kind == "unsorted":
        return [collate_pairs(captions(128, TRANSLATOR.vocab_size))]
    rows = captions(None, TRANSLATOR.vocab_size)
    how = dict(max_tokens=Multi30k.batch_tokens, length=lambda row: max(map(len, row)))
    order = make_batches(rows, collate=collate_pairs, **how).batch_sampler.batches()
    chosen = (order[(2 * i + 1) * len(order) // 8] for i in range(4))
    return [collate_pairs([rows[j] for j in batch]) for batch in chosen]


@workload("train_translator", ("buckets",), ("unsorted",))
def train_translator(kind, device, compiled=False):
    batches, ours, c = translator_batches(kind), EncoderDecoder.from_config(TRANSLATOR), TRANSLATOR

    def theirs(m, x):
        return m(x[0], attention_mask=(x[0] != PAD).long(), decoder_input_ids=x[1]).logits

    models = {
        "ours": lambda: (ours, call),
        "nn.Transformer": lambda: (peers.TorchTranslator(c), call),
        "Hugging Face BART": lambda: (peers.bart(c), theirs),
        "Hugging Face Marian": lambda: (peers.marian(c), theirs),
    }
    read, write = (
        torch.cat([(x[side] != PAD).sum(1) for x, _ in batches]).tolist() for side in (0, 1)
    )
    pairs = sum(s * s + t * t // 2 + s * t for s, t in zip(read, write)) * c.n_layers
    moved = 2 * c.n_layers * c.d_model**2  # keys and values of the memory meet its tokens
    flops = step_flops(weights_of(ours.encoder) + moved, sum(read), pairs, c.d_model)
    weights = weights_of(ours.decoder) - moved + c.vocab_size * c.d_model
    flops += step_flops(weights, sum(write), 0, 0)

    def place(x, targets):
        return (tuple(t.to(device) for t in x), targets.to(device))

    placed = [place(*batch) for batch in batches]
    return Work(steps(models, placed, device, compiled=compiled), flops)


@workload("compiled_generator", *product(SIZES, PRECISIONS))
def compiled_generator(size, precision, device):
    "All contenders of `train_generator` behind `torch.compile`."
    return train_generator(size, precision, device, compiled=True)


@workload("compiled_classifier")
def compiled_classifier(device):
    return train_classifier(device, compiled=True)


@workload("compiled_translator", ("buckets",))
def compiled_translator(kind, device):
    return train_translator(kind, device, compiled=True)


@workload("muon", *product(SIZES))
def muon(size, device):
    "A step of Muon for all matrices of a generator; the model itself isn't run."
    config = TransformerConfig(65, **SIZES[size])
    runs = {}
    for name, kind in {"ours": Muon, "torch.optim.Muon": torch.optim.Muon}.items():
        stack = LanguageModel.from_config(config).stack.to(device)
        matrices = [p for p in stack.parameters() if p.ndim == 2]
        for p in matrices:
            p.grad = torch.randn_like(p)
        runs[name] = kind(matrices, lr=1e-4).step
    return Work(runs, sum(muon_flops(*p.shape) for p in matrices))


def muon_flops(rows: int, columns: int) -> int:
    "Five rounds, each a product that gives the smaller square, one in it, and one with it."
    least, most = sorted((rows, columns))
    return 5 * (4 * least * least * most + 2 * least**3)


@workload("write", *product(SIZES, (1, 16)))
def generation(size, B, device, n=128, before=16):
    c = TransformerConfig(65, dropout=0.0, **SIZES[size])
    prompt = torch.randint(len(SPECIALS), 65, (B, before), device=device)
    ours = LanguageModel.from_config(c).to(device).eval()
    greedy, never = Sampling(temperature=0), (PAD, BOS, EOS, UNK)
    runs = {"ours": lambda: generate(ours, prompt, n, greedy, suppress_tokens=never)}

    def theirs():
        model = peers.endless(peers.gpt2(c).to(device).eval())
        how = dict(do_sample=False, max_new_tokens=n, attention_mask=torch.ones_like(prompt))
        return peers.no_grad(lambda: model.generate(prompt, **how))

    weights, kept = weights_of(ours.stack), 2 * c.n_layers * c.d_model * (before + n / 2)
    others = {"x-transformers": peers.write_with_x_transformers}
    if B == 1:
        others["litgpt"] = peers.write_with_litgpt
    makers = {"Hugging Face GPT-2": theirs}
    for name, make in others.items():
        makers[name] = partial(make, c, prompt, n, device)
    runs |= peers.available(makers)
    return Work(runs, 2 * B * n * (weights + kept), 4 * n * (weights + B * kept))


@workload("translate", (1,), (4,))
def translation(num_beams, device, n=32):
    "The search of `translate`, which is greedy with one beam."
    (src, _), _ = collate_pairs(captions(64, TRANSLATOR.vocab_size))
    src = src.to(device)
    ours = EncoderDecoder.from_config(TRANSLATOR).to(device).eval()
    starts = torch.full((len(src), 1), BOS, device=device)

    def search():
        memory, mask = ours.decoder.project(ours.encode(src), attend_beams), padding_mask(src)
        step = faster(ours, n)

        def decode(tokens, cache, positions):
            return step.decode(tokens, memory, mask, cache, positions)

        cache, never = KVCache(TRANSLATOR.n_layers), (PAD, BOS, UNK, EOS)
        how = dict(eos_token_ids=None, cache=cache, suppress_tokens=never)
        return [found[0][0] for found in beam_search(decode, starts, num_beams, n, **how)]

    def theirs(make):
        model = peers.endless(make(TRANSLATOR).to(device).eval())
        how = dict(do_sample=False, num_beams=num_beams, max_new_tokens=n)
        how |= dict(attention_mask=(src != PAD).long())
        return peers.no_grad(lambda: model.generate(src, **how))

    makers = {"Hugging Face BART": peers.bart, "Hugging Face Marian": peers.marian}
    runs = {"ours": peers.no_grad(search)}
    return Work(runs | peers.available({k: partial(theirs, make) for k, make in makers.items()}))
