"""A difference of low rank: what stays, is merged, saved and resumed; and a folder of BERT
as a start."""

import os

import pytest
import torch
from model_tools import small_bert
from refusals import refuses
from torch.testing import assert_close

from former_nb.data.tokenization import CharTokenizer, HuggingFaceTokenizer
from former_nb.decoding.classification import label_batches, label_rows, predict
from former_nb.models.bert import BertClassifier
from former_nb.models.config import TransformerConfig
from former_nb.models.fine_tuning import add_low_rank, merge_low_rank
from former_nb.models.savable import LanguageModel
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.saving.saving import load_model, save_model
from former_nb.training.callbacks import Callback, SaveBest
from former_nb.training.fitting import fit
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig

SIZES = dict(vocab_size=37, max_len=20, d_model=24, n_heads=3, n_layers=2, d_ff=40)
TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5, 11], [6, 2, 7, 1, 0, 0, 0], [5, 8, 30, 36, 12, 0, 0]])


def small_model(kind="generator"):
    torch.manual_seed(0)
    c = TransformerConfig(**SIZES, dropout=0.1, positions="rotary", n_kv_heads=1)
    return LanguageModel.from_config(c) if kind == "generator" else BertClassifier(c, 2)


@pytest.mark.parametrize("kind", ["generator", "classifier"])
def test_low_rank_training_leaves_the_rest_as_it_was_and_merges_exactly(kind, tmp_path):
    model = small_model(kind)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    first = model.eval()(TOKENS)
    add_low_rank(model, 3)
    assert_close(model(TOKENS), first, rtol=0, atol=0)  # B starts at 0
    small = {n for n, p in model.named_parameters() if p.requires_grad}
    assert len(small) == 2 * 6 * 2 and all(n.endswith((".0.a", ".0.b")) for n in small)
    if kind == "classifier":
        model.head.requires_grad_(True)
    targets = TOKENS.masked_fill(TOKENS == 0, -100) if kind == "generator" else TOKENS[:, 0] % 2
    batches, plan = [(TOKENS, targets)] * 5, TrainingConfig(epochs=2, lr=1e-2, pad=None)
    fit(model, batches, batches[:1], plan, progress=False, device="cpu")
    names = {n: n.replace("parametrizations.weight.original", "weight") for n in model.state_dict()}
    frozen = {names[n]: t for n, t in model.state_dict().items() if n not in small}
    changed = {n for n, t in frozen.items() if not torch.equal(t, before[n])}
    assert changed == ({"head.weight", "head.bias"} if kind == "classifier" else set())
    trained = model.eval()(TOKENS)
    assert not torch.equal(trained, first)
    merge_low_rank(model)
    assert_close(model(TOKENS), trained, rtol=0, atol=0)
    assert model.state_dict().keys() == before.keys()
    assert all(p.requires_grad for p in model.parameters())
    model.save_pretrained(tmp_path / "merged")
    assert_close(type(model).from_pretrained(tmp_path / "merged")(TOKENS), trained)


@pytest.mark.parametrize("rank", [0, 25, 1.5])
def test_a_rank_fits_the_narrowest_layer(rank):
    model = small_model()
    refuses(lambda: add_low_rank(model, rank), (TypeError, ValueError), "rank")
    assert all(p.requires_grad for p in model.parameters())


def test_layers_that_are_not_there_are_refused():
    model = small_model()
    refuses(lambda: add_low_rank(model, 2, ("q_proj", "v_proj")), ValueError, "layers", "q_proj")


# ---- saved before the merge


def low_rank_generator():
    "Its differences are not zero, and its positions are those that GPT-2 has."
    torch.manual_seed(1)
    model = LanguageModel.from_config(TransformerConfig(**SIZES, activation="gelu_tanh"))
    add_low_rank(model, 3)
    for p in model.parameters():
        if p.requires_grad:
            torch.nn.init.normal_(p, std=0.3)
    return model.eval()


def test_what_is_saved_before_the_merge_is_merged_and_the_model_stays_as_it_is(tmp_path):
    model, letters = low_rank_generator(), CharTokenizer("abcdefghijklmnop")
    model.save_pretrained(tmp_path / "bare")
    plan = TrainingConfig(steps=2, lr=1e-3)
    back = LanguageModel.from_pretrained(tmp_path / "bare")
    assert_close(back(TOKENS), model(TOKENS), rtol=0, atol=0)
    assert all(p.requires_grad for p in back.parameters())
    to_hugging_face(model, tmp_path / "theirs")
    assert_close(from_hugging_face(tmp_path / "theirs")(TOKENS), model(TOKENS))
    small = TransformerConfig(**SIZES | dict(vocab_size=letters.vocab_size))
    model = LanguageModel.from_config(small)
    add_low_rank(model, 2)
    best = SaveBest(lambda model: save_model(tmp_path / "best", model, letters))
    rows = torch.randint(4, letters.vocab_size, (3, 6))
    fit(model, [(rows, rows)], [(rows, rows)], plan, callbacks=[best], progress=False, device="cpu")
    assert sum(p.requires_grad for p in model.parameters()) == 2 * 6 * 2  # it can go on
    assert_close(load_model(tmp_path / "best").model(rows), model.eval()(rows), rtol=0, atol=0)


def test_a_difference_on_a_tied_head_makes_two_weights_which_a_configuration_must_say(tmp_path):
    model = LanguageModel.from_config(TransformerConfig(**SIZES)).eval()
    add_low_rank(model, 3, ("head",))
    torch.nn.init.normal_(model.head.parametrizations.weight[0].b)
    save = lambda: model.save_pretrained(tmp_path / "tied")
    refuses(save, ValueError, "model.config", "two that differ")
    assert not (tmp_path / "tied").exists()
    model.config = TransformerConfig(**SIZES, tied_head=False)
    model.save_pretrained(tmp_path / "apart")
    again = LanguageModel.from_pretrained(tmp_path / "apart")
    assert_close(again(TOKENS), model(TOKENS), rtol=0, atol=0)


# ---- resumed


def begin(way):
    model = small_model("classifier")
    if way == "low rank":
        add_low_rank(model, 2)
    if way == "frozen":
        model.requires_grad_(False)
    model.head.requires_grad_(True)
    return model


BATCHES = [(TOKENS, TOKENS[:, 0] % 2), (TOKENS.flip(0), TOKENS[:, 1] % 2)] * 3


def go(way, folder, callbacks=(), resume=False):
    model, plan = begin(way), TrainingConfig(steps=6, lr=1e-2, pad=None, eval_every=2)
    saved = Checkpoint(folder, resume=resume)
    how = dict(progress=False, device="cpu", callbacks=[saved, *callbacks])
    return model, fit(model, BATCHES, BATCHES[:1], plan, **how)


class Stop(Exception):
    pass


class StopAfter(Callback):
    "Ends a run as an error would."

    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            raise Stop


@pytest.mark.parametrize("way", ["frozen", "low rank"])
def test_a_run_that_was_cut_off_goes_on_as_it_was(way, tmp_path):
    whole, history = go(way, tmp_path / "whole")
    with pytest.raises(Stop):
        go(way, tmp_path / "cut", [StopAfter(3)])
    model, again = go(way, tmp_path / "cut", resume=True)
    assert again["valid"].tolist() == history["valid"].tolist()
    for name, t in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], t), name


@pytest.mark.parametrize(
    "first, then",
    [("low rank", "full"), ("full", "low rank"), ("frozen", "full"), ("full", "frozen")],
)
def test_one_way_does_not_resume_another(first, then, tmp_path):
    go(first, tmp_path)
    with pytest.raises(ValueError, match="is of another run"):
        go(then, tmp_path, resume=True)


# ---- a folder of Hugging Face as a start


def test_a_pretrained_folder_becomes_a_classifier_that_is_trained_saved_and_loaded(tmp_path):
    "What the page does with the folder of the real BERT, with a small one and random weights."
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    transformers = pytest.importorskip("transformers")

    theirs, own = small_bert()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )
    theirs.save_pretrained(tmp_path / "bert")
    fast.save_pretrained(tmp_path / "bert")

    encoder = from_hugging_face(tmp_path / "bert").encoder
    tokenizer = HuggingFaceTokenizer.from_folder(tmp_path / "bert", encoder.config.vocab_size, [])
    texts, labels = ["it was good", "it was bad a film"] * 4, ["good", "bad"] * 4
    rows = label_rows(texts, labels, tokenizer, ["bad", "good"])
    assert rows[0][0] == [2, 9, 10, 6, 3]
    train = label_batches(rows, 4, 16, shuffle=True)
    plan = TrainingConfig(epochs=2, lr=1e-3, muon_lr=None, weight_decay=0.01, pad=None)
    start = {name: t.clone() for name, t in encoder.state_dict().items()}
    add_low_rank(encoder, 2)
    encoder.head.requires_grad_(True)
    encoder.pool.requires_grad_(True)
    fit(encoder, train, label_batches(rows, 8, 16), plan, progress=False, device="cpu")
    save_model(tmp_path / "ours", encoder, tokenizer, ["bad", "good"])
    model, tokenizer, names = load_model(tmp_path / "ours")
    assert model.state_dict().keys() == start.keys() and names == ["bad", "good"]
    assert torch.equal(model.state_dict()["embed.tokens.weight"], start["embed.tokens.weight"])
    for text, row in zip(texts[:2], rows):
        p = predict(model, tokenizer, [text], names)["p(good)"][0]
        alone = encoder.eval()(torch.tensor([row[0]])).softmax(-1)[0, 1]
        assert abs(p - alone.item()) < 1e-6
