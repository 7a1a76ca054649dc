"""Folders that `save_model` of version 0.2 wrote, with the logits that version 0.2 computed.

They are in version_0_2.tar.xz: a model of each kind, of one layer, 4 wide, with random weights and
a tokenizer of four letters. Whatever becomes of the classes, such folders load."""

import json
import tarfile
import warnings
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.baselines import BagOfEmbeddings
from former_nb.models.bert import BertClassifier
from former_nb.models.bigrams import BigramClassifier
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.saving.saving import load_model, save_model

SRC = torch.tensor([[4, 5, 6, 2], [7, 4, 0, 0]])
TGT = torch.tensor([[1, 5, 4], [1, 7, 7]])
KINDS = {
    "generator": LanguageModel,
    "generator, post-norm, sinusoidal, relu": LanguageModel,
    "generator, alibi": LanguageModel,
    "generator, relative": LanguageModel,
    "generator, modern": LanguageModel,  # rotary, RMSNorm, SwiGLU, shared heads, no biases
    "generator, wide heads": LanguageModel,  # rotary with other frequencies, some biases
    "classifier": Classifier,
    "classifier, pairs": BigramClassifier,
    "classifier, segments": BertClassifier,
    "bag": BagOfEmbeddings,
    "translator": EncoderDecoder,
    "translator, paper": EncoderDecoder,
    "translator, apart": BartEncoderDecoder,  # three matrices, a norm on the embeddings
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "The folders as they were written."
    folder = tmp_path_factory.mktemp("version 0.2")
    with tarfile.open(Path(__file__).with_name("version_0_2.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    assert {path.name for path in folder.iterdir()} > KINDS.keys()  # one with experts as well
    return folder


def logits(model):
    inputs = (SRC, TGT) if isinstance(model, EncoderDecoder) else (SRC,)
    with torch.no_grad():
        return model(*inputs).flatten(1)


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_computes_what_it_did(name, folders, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model, tokenizer, labels = load_model(folders / name)
    assert type(model) is KINDS[name] and not model.training and tokenizer.vocab_size == 8
    assert labels == (["bad", "good"] if isinstance(model, Classifier) else None)
    wanted = torch.tensor(json.loads((folders / name / "logits.json").read_text()))
    assert wanted.std() > 0.1  # its answers differ
    assert_close(logits(model), wanted, rtol=1e-4, atol=1e-5)
    assert_close(logits(KINDS[name].from_pretrained(folders / name)), logits(model))

    save_model(tmp_path, model, tokenizer, labels)
    again = load_model(tmp_path).model
    assert torch.equal(logits(again), logits(model))
    assert again.config == model.config and again.init_args == model.init_args
