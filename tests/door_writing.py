"""Prompts and contexts: what comes, and the right answer. See `test_door`."""

import torch
from cli_tools import former  # noqa: F401
from door_tools import Noted, Refused, Said

import former_nb
from former_nb.attention.fused import attention
from former_nb.decoding import decoding
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache

# ---- prompts and contexts: what a text that ends says


def _model(positions="learned", **sizes):
    "A model that reads 16 tokens; rows end by no token."
    from former_nb.models.config import TransformerConfig
    from former_nb.models.savable import LanguageModel

    torch.manual_seed(0)
    sizes = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24) | sizes
    return LanguageModel.from_config(TransformerConfig(30, 16, positions=positions, **sizes)).eval()


def _write(positions="learned", lengths=(8,), most: int | None = 30, write=None, **how):
    "How many tokens rows have in the end, that had so many."
    rows = [[5] * n for n in lengths]
    written = (write or former_nb.generate)(_model(positions), rows, most, **how)
    return [len(row) for row in written]


def _in_lesson_11(positions, cache=None):
    prompts = torch.full((1, 8), 5)
    return decoding.generate(_model(positions), prompts, 30, cache=cache).shape[1]


def _reasons(positions, lengths, most, **how):
    stream = former_nb.stream(_model(positions), [[5] * n for n in lengths], most, **how)
    list(stream)
    return stream.reasons


def _beams(positions, **how):
    free = dict(eos_token_ids=(), suppress_tokens=())
    return len(beam_search(_model(positions), [5] * 8, 2, 30, **free, **how)[0][0])


def _next(model, cache, positions=None):
    "Three tokens, then one more."
    model(torch.tensor([[5, 6, 7]]), cache)
    return model(torch.tensor([[8]]), cache, positions)


def _one_text():
    model, tokenizer, _ = former_nb.load_model("numbers")
    return former_nb.translate(model, tokenizer, "zwei")


def _numbers(**how):
    model, tokenizer, _ = former_nb.load_model("numbers")
    return former_nb.translate(model, tokenizer, ["einundzwanzig", "zwei"], **how)


def _text(*args, **how):
    model, tokenizer, _ = former_nb.load_model("names")
    return former_nb.generate(model, *args, tokenizer=tokenizer, **how)


def _command(folder, *words):
    "Twenty texts of a model that was never trained, most of which the context ends."
    from former_nb.data.tokenization import CharTokenizer
    from former_nb.saving.saving import save_model

    tokenizer = CharTokenizer("abcdefghijklmnopqrstuvwxyz")
    save_model(folder / "model", _model("rotary"), tokenizer)
    return former("generate", "--model", folder / "model", "--n", 20, "--seed", 1, *words)


class _Sized(torch.nn.Module):
    "A layer that calls a size of its own a length."

    length = 16

    def forward(self, *inputs):
        return attention(*inputs)


def _read_around(attend):
    "What a model reads with a function that keeps nothing."
    return _model()(torch.tensor([[5, 6, 7]]), attend).shape


def _not_yet_there():
    "A function that reads a variable which comes later, if ever."

    def attend(*inputs):
        return attention(*inputs) if inputs else later

    found = _read_around(attend)
    later = None
    return found


CUT = "the context of 16 tokens ended"


WRITING: list = [
    ("30 tokens, learned", lambda d: _write(), Noted([17], (CUT,))),
    ("30 tokens, sinusoidal", lambda d: _write("sinusoidal"), Noted([17], (CUT,))),
    ("30 tokens, rotary", lambda d: _write("rotary"), Noted([17], (CUT, "window=… goes on"))),
    ("30 tokens, ALiBi", lambda d: _write("alibi"), [38]),
    ("30 tokens, relative", lambda d: _write("relative"), [38]),
    ("as many as fit", lambda d: _write(most=9), [17]),
    ("no number", lambda d: _write(most=None), Noted([17], (CUT,))),
    ("no number, ALiBi", lambda d: _write("alibi", most=None), Noted([17], ("max_new_tokens=…",))),
    ("a window, learned", lambda d: _write(window=4), Noted([17], (CUT,))),
    ("a window, rotary", lambda d: _write("rotary", window=4), [38]),
    (
        "a window wider than the context",
        lambda d: _write("rotary", window=17),
        Noted([17], (CUT, "window=… goes on")),
    ),
    ("one as wide", lambda d: _write("rotary", window=16), [38]),
    (
        "a cache with a wider window",
        lambda d: _write("rotary", cache=KVCache(2, 17)),
        Noted([17], (CUT, "window")),
    ),
    ("a wider window, ALiBi", lambda d: _write("alibi", window=17), [38]),
    ("rows of 3 and 12", lambda d: _write(lengths=(3, 12), most=9), Noted([12, 17], ("1 of 2",))),
    ("a prompt as long as the context", lambda d: _write(lengths=(16,)), Noted([17], (CUT,))),
    ("one that is longer", lambda d: _write(lengths=(17,)), Refused("prompts[0]", ("17",))),
    ("one that is longer, ALiBi", lambda d: _write("alibi", lengths=(20,), most=3), [23]),
    ("lesson 11, learned", lambda d: _in_lesson_11("learned"), Refused("max_new_tokens", ("30",))),
    ("lesson 11, ALiBi", lambda d: _in_lesson_11("alibi"), 38),
    ("lesson 11, a window", lambda d: _in_lesson_11("rotary", KVCache(2, 4)), 38),
    ("beams, rotary", lambda d: _beams("rotary"), Noted(17, (CUT, "window"))),
    ("beams, a window", lambda d: _beams("rotary", cache=KVCache(2, 4)), 38),
    ("beams, ALiBi", lambda d: _beams("alibi"), 38),
    ("reasons", lambda d: _reasons("learned", (3, 12), 7), ["length", "context"]),
    ("reasons, ALiBi", lambda d: _reasons("alibi", (3, 12), 7), ["length", "length"]),
    (
        "a token that ends rows",
        lambda d: _reasons("learned", (3,), 9, eos_token_ids=range(30)),
        ["stop"],
    ),
    ("no token left", lambda d: _write(suppress_tokens=range(30)), Refused("suppress_tokens")),
    (
        "a class for a model",
        lambda d: former_nb.generate(former_nb.LanguageModel, [[5]], 3),
        Refused("model", ("class",)),
    ),
    ("nothing wanted", lambda d: _reasons("learned", (3,), 0), ["length"]),
    ("a name that ends", lambda d: _text("Jo"), lambda text: text.startswith("Jo")),
    (
        "a name without an end",
        lambda d: _text("Jo", eos_token_ids=()),
        Noted(lambda text: text.startswith("Jo"), ("ended the text",)),
    ),
    (
        "more than the context holds",
        lambda d: _command(d, "--max-new-tokens", 40),
        Said(("Note: the context of 16 tokens", "of 20 texts; --window goes on")),
    ),
    (
        "all that fits",
        lambda d: _command(d),
        Said(("Note: the context of 16", "--max-new-tokens go on")),
    ),
    (
        "with a window",
        lambda d: _command(d, "--max-new-tokens", 40, "--window", 4),
        lambda r: not r.stderr,
    ),
    (
        "with a window that is too wide",
        lambda d: _command(d, "--max-new-tokens", 40, "--window", 17),
        Said(("of 20 texts; --window goes on",)),
    ),
    (
        "one at a time",
        lambda d: _command(d, "--stream", "--max-new-tokens", 40),
        Said(("Note: the context",)),
    ),
    (
        "a position that nobody says",
        lambda d: _next(_model(), KVCache(2)),
        Refused("positions", ("None",)),
    ),
    ("the same, rotary", lambda d: _next(_model("rotary"), KVCache(2)), Refused("positions")),
    (
        "the same, layers in a list",
        lambda d: _next(_model(), list(KVCache(2))),
        Refused("positions"),
    ),
    ("a layer with a length of its own", lambda d: _read_around(_Sized()), (1, 3, 30)),
    (
        "a function around it",
        lambda d: _read_around(lambda *x, layer=_Sized(): layer(*x)),
        (1, 3, 30),
    ),
    ("a function with a variable that isn't there", lambda d: _not_yet_there(), (1, 3, 30)),
    (
        "a position that somebody says",
        lambda d: _next(_model(), KVCache(2), torch.tensor([3])).shape,
        (1, 1, 30),
    ),
    ("a translation", lambda d: _numbers()[0], "twenty-one"),
    ("a translation, printed", lambda d: f"{_numbers()[1]!s:>5}", "  two"),
    ("translations, joined", lambda d: " ".join(_numbers()), "twenty-one two"),
    ("a part of one", lambda d: "twenty" in _numbers()[0], True),
    ("max_new_tokens of translate", lambda d: _numbers(max_new_tokens=4)[0], "twen"),
    (
        "no tokens of translate",
        lambda d: _numbers(max_new_tokens=0),
        Refused("max_new_tokens", ("0",)),
    ),
    ("a text of translate", lambda d: _one_text(), Refused("sentences", ("'zwei'",))),
]
