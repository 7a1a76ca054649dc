"""Batches, masks and parts: what comes, and the right answer. See `test_door`."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from cli_tools import former
from door_tools import Noted, Refused
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from former_nb import (
    CharTokenizer,
    Classifier,
    EncoderDecoder,
    LanguageModel,
    MultiHeadAttention,
    TrainingConfig,
    TransformerConfig,
    fit,
    make_batches,
    save_model,
)
from former_nb.data.data_sets import compare_parts
from former_nb.data.long_text_data import long_text_data
from former_nb.data.long_texts import text_windows
from former_nb.data.text import IGNORE
from former_nb.data.tokenization import encode_texts
from former_nb.decoding.classification import label_batches, label_names
from former_nb.tasks.labels import Labels
from former_nb.training.callbacks import Callback
from former_nb.training.losses import batch_loss, evaluate, exact_match, to_device, token_loss

# ---- batches

SIZES = dict(vocab_size=8, max_len=4, d_model=8, n_heads=1, n_layers=1)


X, Y = torch.tensor([[1, 4, 5]]), torch.tensor([[4, 5, 2]])


HALVES = torch.rand(4, 3)


NOTHING = torch.full_like(Y, IGNORE)


HUGGING = {"input_ids": X, "attention_mask": X, "labels": X}


TOKENS = [[1, 4, 5, 2], [1, 6, 7, 2], [1, 4, 5, 6, 2]]


SHIFTED = [(row[:-1], row[1:]) for row in TOKENS]


ENGLISH = "the quick brown fox jumps over the lazy dog and runs away from all of it\n"


RUSSIAN = "съешь ещё этих мягких французских булок да выпей чаю\n"


TINY = "--d-model 8 --n-heads 1 --n-layers 1 --steps 1 --device cpu".split()


def generator():
    return LanguageModel.from_config(TransformerConfig(**SIZES))


def classifier():
    return Classifier.from_config(TransformerConfig(**SIZES), 3)


def translator():
    return EncoderDecoder.from_config(TransformerConfig(**SIZES))


class Gives(nn.Module):
    "A model whose answer is something else than logits."

    def __init__(self, change):
        super().__init__()
        self.inner, self.change = generator(), change

    def forward(self, x):
        return self.change(self.inner(x))


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(X, Y)])


def fitted(train, valid=None, model=generator, **how):
    "A few steps of training: their history."
    plan = TrainingConfig(epochs=2, eval_every=1)
    how = {"progress": False, "device": "cpu"} | how
    return lambda folder: fit(model(), train, valid, plan, **how)


def calls(function, *args, **kwargs):
    "A call that needs no folder."
    return lambda folder: function(*args, **kwargs)


def learned(history):
    "There are losses, and none is a wrong number."
    return len(history) > 0 and np.isfinite(history["train"].dropna()).all()


def learns(*args, **how):
    "How many steps such training has, without a note."
    args = dict(zip(("train", "model", "loss"), args), **how)

    def call(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            history = fitted(**args)(folder)
        assert learned(history)
        return len(history)

    return call


def mse(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def autoencoder():
    return nn.Linear(3, 3)


def eight_bits(folder):
    "Whether the loss of targets is the same in eight bits."
    logits = torch.randn(3, 200, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([156, 3, 156])
    return torch.equal(token_loss(logits, targets.to(torch.uint8)), token_loss(logits, targets))


def attended(mask):
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    return lambda folder: MultiHeadAttention(8, 1)(x, mask=mask)


def on_another_device(folder):
    "Targets that were sent to a device, which nobody waits for."
    sent = to_device(Y + 3, torch.device("meta"))
    return token_loss(torch.zeros(1, 3, 8, device="meta"), sent)


def train_text(text):
    def call(folder):
        (folder / "text.txt").write_text(text, encoding="utf-8")
        return former("train", "text", "--file", "text.txt", "--out", "run", "--length", 8, *TINY)

    return call


def train_names(names):
    def call(folder):
        (folder / "names.txt").write_text("\n".join(names), encoding="utf-8")
        return former("train", "names", "--file", "names.txt", "--out", "run", *TINY)

    return call


def label_only_held_out(folder):
    "A task whose test part has a label that nothing is learned about."

    class Own(Labels):
        def read_parts(self):
            known = [("good film", "good"), ("bad film", "bad")] * 9
            return [known, known[:2], [("a film", "so so")]], "made up"

    return Own().load_data()


BATCHES: list = [  # what `fit`, `evaluate` and the layers are given
    # targets that are no tokens
    ("a target as large as the vocabulary", fitted([(X, Y + 3)]), Refused("targets", ("8",))),
    ("such a target in the second batch", fitted([(X, Y), (X, Y + 3)]), Refused("targets", ("8",))),
    ("a target of -1", fitted([(X, Y.clamp(max=2) - 3)]), Refused("targets", ("-1",))),
    (
        "a target of -1 beside targets that don't count",
        fitted([(X, torch.tensor([[IGNORE, -1, 2]]))]),
        Refused("targets", ("-1",)),
    ),
    (
        "labels from 1 to 3 of three classes",
        fitted([(X, torch.tensor([3]))], model=classifier),
        Refused("targets", ("3",)),
    ),
    (
        "a translator's target beyond the vocabulary",
        fitted([((X, X), Y + 3)], model=translator),
        Refused("targets", ("8",)),
    ),
    ("such a target of `valid`", fitted([(X, Y)], [(X, Y + 3)]), Refused("targets", ("8",))),
    (
        "such a target of `evaluate`",
        calls(evaluate, generator(), [(X, Y + 3)]),
        Refused("targets", ("8",)),
    ),
    (
        "such a target of `exact_match`",
        calls(exact_match, generator(), [(X, Y + 3)]),
        Refused("targets", ("8",)),
    ),
    (
        "such a target of a loss",
        calls(token_loss, torch.zeros(1, 3, 8), Y + 3),
        Refused("targets", ("8",)),
    ),
    ("such a target that is on a device already", on_another_device, Refused("targets", ("8",))),
    ("an input as large as the vocabulary", fitted([(X + 3, Y)]), Refused("tokens", ("8",))),
    # targets that don't count
    ("an epoch without a target", fitted([(X, NOTHING)]), Refused("train", ("none",))),
    ("`valid` without a target", fitted([(X, Y)], [(X, NOTHING)]), Refused("valid", ("none",))),
    ("one batch without a target among good ones", learns([(X, NOTHING), (X, Y), (X, Y)]), 6),
    (
        "`evaluate` without a target",
        calls(evaluate, generator(), [(X, NOTHING)]),
        Refused("batches", ("none",)),
    ),
    ("a loss where nothing counts", calls(token_loss, torch.zeros(1, 3, 8), NOTHING), 0),
    (
        "rows of one token, of which none is a target",
        fitted([(X[:, :0], Y[:, :0])]),
        Refused("train"),
    ),
    (
        "targets that are the inputs, as Hugging Face's labels",
        fitted([(X, X)]),
        Noted(learned, ("train: its targets are its inputs", "one position ahead")),
    ),
    (
        "rows of one token as Hugging Face's labels, among others",
        fitted([(torch.tensor([[4, 4, 5]]), torch.tensor([[4, 4, 5]]))]),
        Noted(learned, ("its targets are its inputs",)),
    ),
    (
        "an autoencoder, whose targets are its inputs",
        learns([(HALVES, HALVES)], autoencoder, mse),
        2,
    ),
    ("an autoencoder of tokens", learns([((X, X), X)], translator), 2),
    # targets of another kind
    ("one-hot targets", fitted([(X, torch.eye(8)[Y])]), Refused("targets", ("(1, 3, 8)",))),
    (
        "one-hot labels",
        fitted([(X, torch.tensor([[0, 1, 0]]))], model=classifier),
        Refused("targets", ("(1, 3)",)),
    ),
    (
        "labels in a column",
        fitted([(X, torch.tensor([[1]]))], model=classifier),
        Refused("targets", ("(1, 1)",)),
    ),
    (
        "a label without an axis",
        fitted([(X, torch.tensor(1))], model=classifier),
        Refused("targets"),
    ),
    ("labels as strings", fitted([(X, ["good"])], model=classifier), Refused("train", ("list",))),
    (
        "labels that are true or false",
        fitted([(X, torch.tensor([True]))], model=classifier),
        Refused("targets", ("torch.bool",)),
    ),
    ("targets as fractions", fitted([(X, Y.float())]), Refused("targets", ("torch.float32",))),
    ("targets of 32 bits, and of 8", fitted([(X, Y.int()), (X, Y.to(torch.uint8))]), learned),
    ("the class 156 in 8 bits, as in 64", eight_bits, True),
    ("targets of 16 bits without a sign", learns([(X, Y.to(torch.uint16))]), 2),
    (
        "`evaluate` of such targets",
        calls(evaluate, generator(), [(X, Y.to(torch.uint32))]),
        lambda x: x > 0,
    ),
    ("targets of another length", fitted([(X, Y[:, :2])]), Refused("targets", ("(1, 2)",))),
    (
        "more rows of targets than of inputs",
        fitted([(X, Y.repeat(2, 1))]),
        Refused("inputs", ("1",)),
    ),
    # batches of another form
    ("three tensors", fitted([(X, X, Y)]), Refused("train", ("(Tensor, Tensor, Tensor)",))),
    ("three tensors later on", fitted([(X, Y), (X, X, Y)]), Refused("train", ("Tensor, Tensor",))),
    ("Hugging Face's dictionaries", fitted([HUGGING]), Refused("train", ("input_ids",))),
    ("such a dictionary alone", calls(evaluate, generator(), [HUGGING]), Refused("batches")),
    ("a tensor without targets", fitted([X]), Refused("train", ("(1, 3)",))),
    ("a batch that stands in no list", fitted((X, Y)), Refused("train", ("(1, 3)",))),
    ("NumPy arrays", fitted([(X.numpy(), Y.numpy())]), Refused("train", ("ndarray, ndarray",))),
    ("lists of numbers", fitted([(X.tolist(), Y.tolist())]), Refused("train", ("list, list",))),
    ("inputs in lists", fitted([(X.tolist(), Y)]), Refused("train", ("list, Tensor",))),
    ("texts", fitted(["ab", "cd"]), Refused("train", ("str",))),
    ("rows that are no batches", fitted(TOKENS), Refused("train", ("list",))),
    ("no batch", fitted([]), Refused("train", ("[]",))),
    ("no batch of `valid`", fitted([(X, Y)], []), Refused("valid", ("[]",))),
    ("a batch of no row", fitted([(X[:0], Y[:0])]), Refused("targets", ("(0, 3)",))),
    ("fractions as tokens", fitted([(X.float(), Y)]), Refused("tokens", ("torch.float32",))),
    (
        "a row of NaN",
        fitted(
            [(torch.tensor([[1.0, 2.0], [1.0, np.nan]]), torch.tensor([0, 1]))],
            model=lambda: nn.Linear(2, 3),
        ),
        Refused("loss", ("nan",)),
    ),
    # batches without a number
    ("an IterableDataset", fitted(Stream()), Refused("train", ("Stream",))),
    (
        "a DataLoader of one",
        fitted(DataLoader(Stream(), batch_size=None)),
        Refused("train", ("DataLoader of Stream",)),
    ),
    ("a generator", fitted(batch for batch in [(X, Y)]), Refused("train", ("generator",))),
    ("a generator of `valid`", fitted([(X, Y)], iter([(X, Y)])), Refused("valid", ("iterator",))),
    ("`evaluate` reads a generator", calls(evaluate, generator(), iter([(X, Y)])), lambda x: x > 0),
    ("nothing at all", calls(evaluate, generator(), None), Refused("batches", ("NoneType",))),
    # losses, models and callbacks
    (
        "PyTorch's loss",
        fitted([(X, Y)], loss=nn.CrossEntropyLoss()),
        Refused("loss", ("CrossEntropyLoss",)),
    ),
    (
        "a loss of PyTorch's functions",
        fitted([(X, Y)], loss=F.cross_entropy),
        Refused("loss", ("cross_entropy",)),
    ),
    ("a loss by its name", fitted([(X, Y)], loss="cross_entropy"), Refused("loss")),
    (
        "a loss that is NaN from the first batch",
        fitted([(X, Y)], loss=lambda m, b: batch_loss(m, b) * np.nan),
        Refused("loss", ("nan",)),
    ),
    (
        "a model that gives a tuple",
        fitted([(X, Y)], model=lambda: Gives(lambda logits: (logits, None))),
        Refused("model", ("tuple",)),
    ),
    (
        "a model that gives Hugging Face's output",
        fitted([(X, Y)], model=lambda: Gives(lambda logits: SimpleNamespace(logits=logits))),
        Refused("model", ("SimpleNamespace",)),
    ),
    (
        "`evaluate` of a model that gives a tuple",
        calls(evaluate, Gives(lambda logits: (logits,)), [(X, Y)]),
        Refused("model", ("tuple",)),
    ),
    (
        "a class in the place of a model",
        fitted([(X, Y)], model=lambda: nn.Linear),
        Refused("model"),
    ),
    ("a function as a callback", fitted([(X, Y)], callbacks=[print]), Refused("callbacks")),
    (
        "a callback that stands in no list",
        fitted([(X, Y)], callbacks=Callback()),
        Refused("callbacks"),
    ),
    ("a device as PyTorch's object", fitted([(X, Y)], device=torch.device("cpu")), learned),
    # rows
    (
        "pairs that were shifted already",
        lambda folder: list(make_batches(SHIFTED, 2)),
        Refused("rows", ("[([1, 4, 5]",)),
    ),
    ("texts in the place of rows", lambda folder: [*make_batches(["ab"], 2)], Refused("rows")),
    (
        "dictionaries in the place of rows",
        lambda folder: [*make_batches([HUGGING], 2)],
        Refused("rows"),
    ),
    (
        "a dictionary of columns",
        calls(make_batches, {"ids": TOKENS}, 2),
        Refused("rows", ("dict",)),
    ),
    ("a data frame", calls(make_batches, pd.DataFrame({"a": [1]}), 2), Refused("rows", ("Frame",))),
    ("one row in the place of several", calls(make_batches, TOKENS[0], 2), Refused("rows", ("1",))),
    ("no rows", calls(make_batches, [], 2), Refused("rows", ("[]",))),
    ("rows of a long text", calls(text_windows, TOKENS, 2), Refused("ids", ("lengths",))),
    ("a long text that isn't encoded", calls(text_windows, "abcdef", 3), Refused("ids")),
    ("labels as numbers", calls(label_names, [0, 1]), Refused("labels", ("0",))),
    ("a missing label", calls(label_names, ["a", None]), Refused("labels", ("None",))),
    ("rows without labels", calls(label_batches, TOKENS, 2), Refused("rows")),
    ("a text that is none", calls(encode_texts, ["a", 3], CharTokenizer("a")), Refused("texts")),
    (
        "a nested row to decode",
        calls(CharTokenizer("a").decode, [[4]]),
        Refused("tokens", ("[[4]]",)),
    ),
    # masks of zeros and ones
    ("a mask of 0.0 and 1.0", attended(torch.tensor([[[[1.0, 1.0, 0.0]]]])), Refused("mask")),
    ("a mask of 1.0 alone", attended(torch.ones(1, 1, 3, 3)), Refused("mask")),
    ("such a mask of 16 bits", attended(torch.ones(3, 3).tril().half()), Refused("mask")),
    (
        "(1 - mask) times -inf",
        attended((1 - torch.ones(3, 3).tril()) * -np.inf),
        Refused("mask", ("NaN",)),
    ),
    ("a mask of 0 and 1", attended(torch.ones(3, 3).tril().long()), Refused("mask", ("int64",))),
    (
        "a mask of 0.0, which adds nothing",
        attended(torch.zeros(3, 3)),
        lambda y: y.isfinite().all(),
    ),
    ("a bias by distance", attended(-torch.arange(9.0).view(3, 3)), lambda y: y.isfinite().all()),
    (
        "layer(x, x, x), as PyTorch's",
        attended(torch.zeros(1, 3, 8)),
        Refused("mask", ("(1, 3, 8)",)),
    ),
    # parts of another kind
    (
        "a text that ends in Cyrillic",
        train_text(ENGLISH * 60 + RUSSIAN * 9),
        Refused("text", ("%",)),
    ),
    (
        "a text that ends with a few unknown letters",
        lambda folder: long_text_data(ENGLISH * 70 + (ENGLISH[:60] + "жж\n") * 6, 8).train.length,
        Noted(8, ("characters that the training part hasn't", "'ж'", "unknown")),
    ),
    ("a text of one kind", lambda folder: long_text_data(ENGLISH * 70, 8).train.length, 8),
    (
        "names that share no letters",
        train_names([chr(19968 + 3 * i) * 3 for i in range(40)]),
        Refused("data", ("%",)),
    ),
    ("a label that only the test part has", label_only_held_out, Refused("label", ("so so",))),
    (
        "pairs whose test part is in another alphabet",
        calls(compare_parts, "src", [[ENGLISH] * 9, [ENGLISH], [RUSSIAN]], refuse=False),
        Noted(None, ("src: of the test part, 8", "nothing was learned")),
    ),
    # names that were written, and arguments in another order
    (
        "a classifier without its labels",
        calls(save_model, "m", classifier(), CharTokenizer("abcd")),
        Refused("labels", ("None",)),
    ),
    (
        "the tokenizer in the place of the labels",
        calls(save_model, "m", classifier(), CharTokenizer("abcd"), CharTokenizer("abcd")),
        Refused("labels", ("CharTokenizer",)),
    ),
    (
        "save_model(model, folder)",
        calls(save_model, generator(), "m", CharTokenizer("abcd")),
        Refused("model", ("str",)),
    ),
    (
        "a text longer than the model reads",
        calls(generator(), torch.ones(1, 9).long()),
        Refused("max_len", ("4",)),
    ),
    (
        "fit(model, train, config)",
        calls(fit, generator(), [(X, Y)], TrainingConfig()),
        Refused("valid", ("TrainingConfig",)),
    ),
    (
        "a word for the epochs",
        calls(fit, generator(), [(X, Y)], None, "ten"),
        Refused("epochs", ("ten",)),
    ),
]
