"""A run in which a part is frozen is resumed; and a folder of BERT as a start."""

import os

import pytest
import torch
from model_tools import small_bert

from former_nb.data.tokenization import HuggingFaceTokenizer
from former_nb.decoding.classification import label_batches, label_rows, predict
from former_nb.models.bert import BertClassifier
from former_nb.models.config import TransformerConfig
from former_nb.saving.hugging_face import from_hugging_face
from former_nb.saving.saving import load_model, save_model
from former_nb.training.callbacks import Callback
from former_nb.training.fitting import fit
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig

SIZES = dict(vocab_size=37, max_len=20, d_model=24, n_heads=3, n_layers=2, d_ff=40)
TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5, 11], [6, 2, 7, 1, 0, 0, 0], [5, 8, 30, 36, 12, 0, 0]])


# ---- resumed


def begin(way):
    torch.manual_seed(0)
    choices = dict(dropout=0.1, positions="rotary", n_kv_heads=1)
    model = BertClassifier(TransformerConfig(**SIZES, **choices), 2)
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


def test_a_run_that_was_cut_off_goes_on_as_it_was(tmp_path):
    whole, history = go("frozen", tmp_path / "whole")
    with pytest.raises(Stop):
        go("frozen", tmp_path / "cut", [StopAfter(3)])
    model, again = go("frozen", tmp_path / "cut", resume=True)
    assert again["valid"].tolist() == history["valid"].tolist()
    for name, t in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], t), name


@pytest.mark.parametrize("first, then", [("frozen", "full"), ("full", "frozen")])
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
    encoder.requires_grad_(False)
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
