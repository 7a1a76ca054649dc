"""The work that is timed. A workload gives functions to run, ours first, by the name of who runs.

Every contender has the same sizes and does the same amount of work: one call is one step, one
forward pass or one whole generation. What a workload imports from a peer, it imports by name, so
that a peer which is not installed costs only its own line.
"""

from functools import partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import nn

import former_nb.optimization as optimization
from former_nb.attention import attention
from former_nb.beam_search import beam_search
from former_nb.classifier import Classifier
from former_nb.config import TransformerConfig
from former_nb.data_sets import load_reviews, load_translations
from former_nb.decoding import generate
from former_nb.encoder_decoder import EncoderDecoder, collate_pairs
from former_nb.generator import LanguageModel
from former_nb.losses import call
from former_nb.multi_head import MultiHeadAttention, mha_to_torch
from former_nb.number_words import greedy_decode
from former_nb.sampling import Sampling
from former_nb.text import BOS, EOS, PAD, SPECIALS, UNK, pad_rows
from former_nb.two_stacks import CrossAttentionCache

from . import peers

WORKLOADS = {}  # name -> a function of a device that gives (contenders, flop of one call or None)
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
    flop = 4 * B * h * T * T * d * (0.5 if causal else 1) * (3.5 if way == "backward" else 1)
    if way == "backward":
        return {name: backward(run, (q, k, v)) for name, run in runs.items()}, flop
    return {name: peers.no_grad(run) for name, run in runs.items()}, flop


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
    flop = len(x) * T * (8 * d * d + 4 * T * d * (0.5 if causal else 1))
    if way == "backward":
        weights = [*ours.parameters(), *theirs.parameters()]
        return {name: backward(run, weights) for name, run in runs.items()}, 3 * flop
    return {name: peers.no_grad(run) for name, run in runs.items()}, flop


def training_step(model, inputs, targets, loss, logits, precision, device):
    "One step: logits and their targets, loss, backward, clipping, AdamW."
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            found = logits(model, inputs, targets)
        loss(*found).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps(models: dict, inputs, targets, precision, device) -> dict:
    "Training steps of models that are given by name; theirs may give logits as an attribute."
    ours = optimization.token_loss, optimization.call_at_targets
    found = {}
    for name, (model, logits) in models.items():
        theirs = peers.cross_entropy, peers.call_with(logits or call)
        how = (*(ours if name == "ours" else theirs), precision, device)
        found[name] = training_step(model, inputs, targets, *how)
    return found


@workload("train_generator", *product(SIZES, ("float32", "bf16")))
def train_generator(size, precision, device):
    c = TransformerConfig(65, dropout=0.0, **SIZES[size])
    B, T = (16, 256) if device.type == "cpu" else (256, 256)
    B = max(1, B // (4 if size == "10.8M" else 1))
    tokens = torch.randint(len(SPECIALS), c.vocab_size, (B, T), device=device)
    targets = tokens.roll(-1, 1)
    models = peers.available({
        "ours": lambda: (LanguageModel(c), None),
        "nn.TransformerEncoder": lambda: (peers.TorchLanguageModel(c), None),
        "Hugging Face GPT-2": lambda: (peers.gpt2(c), None),
        "x-transformers": lambda: (peers.x_transformers(c), None),
    })  # fmt: skip
    weights = sum(p.numel() for p in models["ours"][0].stack.parameters()) + 65 * c.d_model
    flop = 6 * B * T * (weights + c.n_layers * T * c.d_model)  # causal: half of 2 * T * d_model
    return steps(models, tokens, targets, precision, device), flop


def ragged(texts, most, vocab_size, n, device):
    "Rows as long as some texts have words, of random tokens: the lengths are real."
    lengths = [min(len(text.split()) + 2, most) for text in texts[:: max(1, len(texts) // n)][:n]]
    draw = lambda size: torch.randint(len(SPECIALS), vocab_size, (size,)).tolist()
    return [[BOS, *draw(size - 2), EOS] for size in lengths]


@workload("train_classifier")
def train_classifier(device):
    c = TransformerConfig(8000, 256, 128, 4, 4, 512, dropout=0.0)
    rows = ragged([text for text, _ in load_reviews()[0]["train"]], 256, 8000, 32, device)
    tokens, targets = pad_rows(rows).to(device), torch.randint(2, (len(rows),), device=device)
    mask = (tokens != PAD).long()
    models = peers.available({
        "ours": lambda: (Classifier(c, 2), None),
        "nn.TransformerEncoder": lambda: (peers.TorchClassifier(c), None),
        "Hugging Face BERT": lambda: (peers.bert(c), lambda m, x: m(x, attention_mask=mask).logits),
    })  # fmt: skip
    return steps(models, tokens, targets, "float32", device), None


def captions(n, vocab_size, device):
    "A batch of pairs as long as real captions, or number words where there are none."
    pairs = load_translations()[0]["train"]
    sides = (ragged([p[i] for p in pairs], 100, vocab_size, n, device) for i in (0, 1))
    (src, tgt), targets = collate_pairs(list(zip(*sides)))
    return (src.to(device), tgt.to(device)), targets.to(device)


TRANSLATOR = TransformerConfig(5000, 128, 256, 4, 3, 1024, dropout=0.0)


@workload("train_translator")
def train_translator(device):
    (src, tgt), targets = captions(128, TRANSLATOR.vocab_size, device)
    real = (src != PAD).long()
    theirs = lambda m, x: m(x[0], attention_mask=real, decoder_input_ids=x[1]).logits
    models = peers.available({
        "ours": lambda: (EncoderDecoder(TRANSLATOR), None),
        "nn.Transformer": lambda: (peers.TorchTranslator(TRANSLATOR), None),
        "Hugging Face BART": lambda: (peers.bart(TRANSLATOR), theirs),
    })  # fmt: skip
    return steps(models, (src, tgt), targets, "float32", device), None


@workload("generate", *product(SIZES, (1, 16)))
def generation(size, B, device, n=128):
    c = TransformerConfig(65, dropout=0.0, **SIZES[size])
    prompt = torch.randint(len(SPECIALS), 65, (B, 16), device=device)
    ours = LanguageModel(c).to(device).eval()
    greedy, never = Sampling(temperature=0), (PAD, BOS, EOS, UNK)
    runs = {
        "ours": lambda: generate(ours, prompt, n, greedy, eos_token_ids=None, suppress_tokens=never)
    }

    def theirs():
        model = peers.gpt2(c).to(device).eval()
        how = dict(do_sample=False, min_new_tokens=n, max_new_tokens=n, use_cache=True)
        how |= dict(attention_mask=torch.ones_like(prompt))
        return peers.no_grad(lambda: model.generate(prompt, **how))

    return runs | peers.available({"Hugging Face GPT-2": theirs}), None


@workload("translate", ("greedy", 1), ("beam", 4))
def translation(kind, num_beams, device, n=32):
    (src, _), _ = captions(64, TRANSLATOR.vocab_size, device)
    ours = EncoderDecoder(TRANSLATOR).to(device).eval()
    starts = torch.full((len(src), 1), BOS, device=device)

    def beams():
        memory, mask = ours.encode(src), src[:, None, None] != PAD
        decode = lambda tokens, cache: ours.decode(tokens, memory, mask, cache)
        cache = CrossAttentionCache(TRANSLATOR.n_layers)
        beam_search(
            decode, starts, num_beams, n, eos_token_ids=None, cache=cache,
            suppress_tokens=(PAD, BOS, UNK, EOS),
        )  # fmt: skip

    def theirs():
        model = peers.bart(TRANSLATOR).to(device).eval()
        how = dict(do_sample=False, num_beams=num_beams, min_new_tokens=n, max_new_tokens=n)
        how |= dict(attention_mask=(src != PAD).long())
        return peers.no_grad(lambda: model.generate(src, **how))

    own = beams if num_beams > 1 else lambda: greedy_decode(ours, src, n)
    return {"ours": peers.no_grad(own)} | peers.available({"Hugging Face BART": theirs}), None
