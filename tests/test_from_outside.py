"""What people bring: a checkpoint, a tokenizer of their own, another trainer, a habit."""

import copy
import json
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from functools import partial
from inspect import signature

import pytest
import torch
from cli_tools import done, former, refused
from model_tools import small_bert
from refusals import every_row, refuses, shape
from safetensors.torch import load_file, save_file

import former_nb
from former_nb.attention.fused import attention
from former_nb.base.core import set_seed
from former_nb.data import CharTokenizer, TextTokenizer, TokenizerPair, make_batches
from former_nb.data.text import collate
from former_nb.data.tokenization import encode_texts, load_tokenizer
from former_nb.data.tokens import KINDS
from former_nb.decoding.caches import generate
from former_nb.decoding.translating import Translation, translate
from former_nb.inspection.viewer import view
from former_nb.models.build import build_stack
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import CrossAttention
from former_nb.models.modern_decoder import modern_decoder
from former_nb.models.savable import LanguageModel, make_model
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.saving.saving import load_model, save_model
from former_nb.training import Checkpoint, SaveBest, TrainingConfig, fit
from former_nb.training.callbacks import Callback

# ---- two vocabularies, and a tokenizer of one's own

SOURCE, TARGET = CharTokenizer("abc"), CharTokenizer("uvwxyz")
PAIR = (SOURCE, TARGET)


class Words(TextTokenizer):
    "A word is a token."

    words = "ab ba cab".split()
    vocab_size = 4 + len(words)

    def encode(self, text):
        return [4 + self.words.index(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(self.words[i] for i in self.pieces(ids))


class Foreign:
    "No heir."

    vocab_size = 7

    def encode(self, text):
        return [4]

    def decode(self, ids):
        return "a"


def translator(source=SOURCE, target=TARGET):
    "Untrained, for two vocabularies."
    set_seed(0)
    sizes = dict(max_len=20, d_model=16, n_heads=2, n_layers=1, d_ff=16)
    return make_model(source.vocab_size, target.vocab_size, **sizes).eval()


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    "A translator of two vocabularies in a folder."
    folder = tmp_path_factory.mktemp("two")
    save_model(folder, translator(), PAIR)
    return folder


def test_two_vocabularies_translate_and_are_saved_together(two):
    found = translate(translator(), PAIR, ["abc", "cab"], 2)
    assert all(set(t.text) <= set(TARGET.alphabet) for t in found) and found[0].text
    model, tokenizer, labels = load_model(two)
    assert isinstance(tokenizer, TokenizerPair) and labels is None
    assert [side.alphabet for side in tokenizer] == ["abc", "uvwxyz"]
    assert translate(model, tokenizer, ["abc", "cab"], 2) == found
    said = done("translate", "--model", two, "--num-beams", 2, "abc", "cab")
    assert said.splitlines() == [t.text for t in found]
    labels = view(model, ("abc", "uv"), tokenizer).panels[0].labels
    assert labels == [["<bos>", "a", "b", "c", "<eos>"], ["<bos>", "u", "v"]]


def test_each_side_of_a_pair_belongs_to_its_weights(two, tmp_path):
    save_model(tmp_path, translator(), PAIR)
    other = (SOURCE, CharTokenizer("uvwxzy"))
    TokenizerPair(*other).save(tmp_path)
    refused(former("translate", "--model", tmp_path, "a"), "tokenizer.json", "does not belong")


def test_an_heir_is_a_kind_of_its_own_and_says_what_is_saved(tmp_path):
    class Shout(CharTokenizer):
        def encode(self, text):
            return super().encode(text.lower())

    try:
        assert Shout.kind == "Shout" and KINDS["char"] is CharTokenizer
        assert type(load_model("names").tokenizer) is CharTokenizer
    finally:
        KINDS.pop("Shout")

    class Silent(Words):
        def __init__(self, words):  # which no `to_dict` tells
            super().__init__()
            self.words = words

    KINDS.pop("Silent")
    silent = Silent(["ab", "ba"])
    for tokenizer in (silent, TokenizerPair(silent, TARGET)):
        refuses(lambda t=tokenizer: t.save(tmp_path), ValueError, "tokenizer")
    assert not (tmp_path / "tokenizer.json").exists()


def test_a_tokenizer_of_ones_own_is_saved_under_its_name(tmp_path):
    words = Words()
    model = translator(words)
    save_model(tmp_path, model, (words, TARGET))
    loaded = load_model(tmp_path)
    assert type(loaded.tokenizer.source) is Words
    kept = KINDS.pop("Words")  # as in a process that has not imported it
    try:
        words.save(tmp_path / "alone")
        with pytest.raises(ValueError, match="imported"):
            load_tokenizer(tmp_path / "alone")
    finally:
        KINDS["Words"] = kept


def tells(call, *words):
    "The refusal says what to do."

    def check():
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        return all(word in str(raised.value) for word in words)

    return check


ASK = lambda tokenizer: translate(translator(), tokenizer, ["abc"])
test_a_tokenizer_that_does_not_fit_is_refused = every_row(
    [
        ("one for two", lambda: ASK(SOURCE), ValueError, "tokenizer", "7"),
        ("the wrong way round", lambda: ASK(PAIR[::-1]), ValueError, "tokenizer", "(10, 7)"),
        ("three", lambda: ASK((*PAIR, SOURCE)), ValueError, "tokenizer", "3"),
        ("no heir", lambda: ASK((Foreign(), TARGET)), TypeError, "tokenizer", "Foreign"),
        ("a pair within", lambda: ASK((SOURCE, PAIR)), TypeError, "tokenizer"),
        (
            "saved",
            lambda: save_model("/nowhere", translator(), SOURCE),
            ValueError,
            "tokenizer",
        ),
    ]
)


# ---- a translation and a string


def test_a_translation_equals_its_text():
    found = Translation("zwei", "two", -0.5)
    assert found == "two" and "two" == found and found != "three" and not found != "two"
    assert "two" in [found] and len({found, "two"}) == 1
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert again == found and again.source == "zwei" and type(again) is Translation
    assert str(found) == f"{found}" == "".join([found]) == "two" and "score=-0.5" in repr(found)


# ---- BERT as it usually comes


def test_bert_for_hidden_tokens_is_loaded_and_looked_into(tmp_path):
    theirs, own = small_bert()
    theirs.save_pretrained(tmp_path)
    own.save(str(tmp_path / "tokenizer.json"))

    model, tokenizer, labels = load_model(tmp_path)
    row = [*tokenizer.before, *tokenizer.encode("it was good"), *tokenizer.after]
    tokens = torch.tensor([row])
    ours = model(tokens, torch.arange(len(row))[None])
    torch.testing.assert_close(ours, theirs(tokens).logits)
    assert labels is None
    done("view", "--model", tmp_path, "it was good", "--out", tmp_path / "page.html")
    assert "good" in (tmp_path / "page.html").read_text(encoding="utf-8")
    refused(former("classify", "--model", tmp_path, "it"), "hidden tokens", "former-nb view")
    refuses(lambda: save_model(tmp_path / "m", model, tokenizer), ValueError, "model", "Bert")


# ---- the first lines

FIRST_LINES = {
    "packages and modules": """
import former_nb
former_nb.attention.torch_layers  # which no face lists
former_nb.models.LanguageModel
former_nb.attention.masks.causal_mask""",
    "the function, then a module": """
from former_nb import attention
assert attention(x, x, x).shape == x.shape
import former_nb.attention.masks as masks
import former_nb
assert former_nb.attention is attention and attention.masks is masks""",
    "a module, then the function": """
import former_nb.attention.masks
from former_nb.attention import dot_product
from former_nb import *
assert attention(x, x, x).shape == x.shape
assert attention is former_nb.attention and attention.dot_product is dot_product""",
}


RUN = """
import sys, torch
for lines in sys.argv[1:]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "former_nb"]:
        del sys.modules[name]
    exec(compile(lines, lines, "exec"), {"x": torch.ones(1, 3, 2)})
"""


def test_the_first_lines_work_where_nothing_was_imported():
    subprocess.run([sys.executable, "-c", RUN, *FIRST_LINES.values()], check=True)


def test_the_callable_package_is_the_function_for_all_purposes():
    function = former_nb.attention.fused.attention
    q = torch.randn(2, 3, 4)
    assert torch.equal(former_nb.attention(q, q, q, is_causal=True), function(q, q, q, None, True))
    assert signature(former_nb.attention) == signature(function)
    layer = former_nb.MultiHeadAttention(4, 2)
    assert torch.equal(layer(q, attend=former_nb.attention), layer(q))
    kept = copy.deepcopy(partial(former_nb.attention, is_causal=True))
    assert pickle.loads(pickle.dumps(kept)).func is former_nb.attention


def test_a_configuration_stays_as_it_is():
    config = TransformerConfig(7, 8)
    with pytest.raises(FrozenInstanceError, match="use_cache"):
        config.use_cache = False
    assert copy.deepcopy(config) == replace(config) == pickle.loads(pickle.dumps(config)) == config


# ---- what people try


def test_a_run_without_validation_keeps_its_last_weights(tmp_path):
    rows = encode_texts(["abc", "cab", "bca", "cba"] * 4, SOURCE)
    config = TransformerConfig(7, 8, d_model=16, n_heads=2, n_layers=1, d_ff=16, dropout=0.0)
    train = make_batches(rows, 20, collate=collate)
    plan = TrainingConfig(steps=6, eval_every=2)

    def run(valid, **callbacks):
        set_seed(0)
        model = LanguageModel.from_config(config)
        kept = []
        save = SaveBest(lambda model: kept.append(model.head.weight.detach().clone()))
        made = [save, *(kind(tmp_path / name) for name, kind in callbacks.items())]
        return model, fit(model, train, valid, plan, callbacks=made, device="cpu"), kept

    with_valid, history, _ = run(train)
    alone, blind, kept = run(None, run=Checkpoint)
    assert blind["valid"].isna().all() and blind["train"].tolist() == history["train"].tolist()
    assert torch.equal(kept[-1], alone.head.weight) and len(kept) == 3
    assert torch.equal(alone.head.weight, with_valid.head.weight)  # whose last loss is the lowest
    stopped, done = LanguageModel.from_config(config), []

    class Stop(Callback):
        def on_step_end(self, run):  # one step after an evaluation
            done.append(stopped.head.weight.detach().clone())
            if len(done) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(stopped, train, None, plan, callbacks=[Stop()], device="cpu", progress=False)
    assert torch.equal(stopped.head.weight, done[-1])
    refuses(lambda: fit(alone, train, None, replace(plan, patience=1)), ValueError, "patience", "1")


MODEL = LanguageModel.from_config(
    TransformerConfig(7, 8, d_model=16, n_heads=2, n_layers=1, d_ff=16)
).eval()
LAYER = former_nb.MultiHeadAttention(16, 2)
STACKS = {
    positions: build_stack(TransformerConfig(7, 8, 16, 2, 1, 16, positions=positions))
    for positions in ("learned", "rotary", "alibi")
}
X = torch.randn(2, 3, 16)
AT = torch.arange(3)
MASK = torch.ones(3, 3, dtype=torch.bool)
ROWS = torch.zeros(2, 3, dtype=torch.int64)
WRONG = (TypeError, "attend", "bool of shape (3, 3)")
SWAPPED = (TypeError, "mask", "function")
TEXT = (TypeError, "prompts", "ROMEO")


test_what_people_try_gets_a_sentence = every_row(
    [
        ("a mask", lambda: LAYER(X, MASK), shape(2, 3, 16)),
        ("a function for a mask", lambda: LAYER(X, attention), *SWAPPED),
        ("its name", tells(lambda: LAYER(X, attention), "attend=function"), bool),
        ("a mask for attend", lambda: LAYER(X, attend=MASK), *WRONG),
        ("None for attend", lambda: LAYER(X, attend=None), TypeError, "attend", "NoneType"),
        *(
            (f"a stack, {p}", lambda s=s: s(X, attention, positions=AT), *SWAPPED)
            for p, s in STACKS.items()
        ),
        ("a stack of functions", lambda: STACKS["learned"](X, [attention]), *SWAPPED[:2], "list"),
        ("a block", lambda: STACKS["learned"].blocks[0](X, attention), *SWAPPED),
        ("a memory", lambda: CrossAttention(16, 2)(X, X, attention), *SWAPPED),
        ("lesson 12", lambda: modern_decoder(9, 16, 2, 1, 1, 8)(ROWS, MASK), *WRONG),
        ("a text", lambda: former_nb.generate(MODEL, "ROMEO:", 3), *TEXT),
        ("texts", lambda: generate(MODEL, ["ROMEO:"], 3), *TEXT),
        (
            "what takes text",
            tells(lambda: former_nb.generate(MODEL, "ROMEO:", 3), "`tokenizer`"),
            bool,
        ),
        ("a name", lambda: load_model("gpt2"), ValueError, "model", "gpt2"),
        ("what takes it", tells(lambda: load_model("gpt2"), "from_hugging_face('gpt2', "), bool),
        (
            "from_pretrained",
            tells(lambda: LanguageModel.from_pretrained("gpt2"), "from_hugging_face"),
            bool,
        ),
    ]
)


# ---- weights that are no plain numbers, or no numbers


@pytest.fixture
def llama(tmp_path):
    "A folder as Hugging Face writes it, without a tokenizer."
    config = TransformerConfig(
        7, 8, 16, 2, 1, 16, positions="rotary", activation="swiglu", norm="rms", bias="none"
    )
    to_hugging_face(LanguageModel.from_config(config), tmp_path / "llama")
    return tmp_path / "llama"


def changed(folder, change=None, **settings):
    "The folder with other weights and another config.json."
    weights = load_file(folder / "model.safetensors")
    if change is not None:
        weights["model.norm.weight"] = change(weights["model.norm.weight"])
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    saved = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps(saved))
    return folder


def test_weights_of_eight_bits_are_refused(llama):
    from_hugging_face(changed(llama, lambda t: t.bfloat16()))
    packed = dict(quantization_config={"quant_method": "fp8"})
    for folder in (
        lambda: changed(llama, lambda t: t.to(torch.float8_e4m3fn)),
        lambda: changed(llama, lambda t: t.float(), **packed),
    ):
        with pytest.raises(ValueError, match="16 bits or more|quantization_config"):
            from_hugging_face(folder())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_number_is_told(number, llama, tmp_path):
    spoil = lambda t: t.index_fill(0, torch.tensor([3]), number)
    with pytest.warns(UserWarning, match="NaN or infinity .* in stack.norm.weight"):
        from_hugging_face(changed(llama, spoil))
    model = LanguageModel.from_config(MODEL.config)
    model.stack.norm.weight.data = spoil(model.stack.norm.weight.data)
    save_model(tmp_path / "m", model, SOURCE)
    for load in (load_model, LanguageModel.from_pretrained):
        with pytest.warns(UserWarning, match="NaN or infinity .* in stack.norm.weight"):
            load(tmp_path / "m")
