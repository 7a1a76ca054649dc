"""Folders that `save_model` of version 0.1 wrote, with the logits that version 0.1 computed.

They are in version_0_1.tar.xz: models of one or two layers, 4 wide, with random weights and a
tokenizer of four letters. The models that ship are tested with what they write."""

import json
import shutil
import tarfile
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.baselines import BagOfEmbeddings
from former_nb.models.bert import BertClassifier
from former_nb.models.bigrams import BigramClassifier
from former_nb.models.classifier import Classifier
from former_nb.models.encoder_decoder import EncoderDecoder
from former_nb.models.generator import LanguageModel
from former_nb.models.second_edition import is_second_edition
from former_nb.saving.saving import load_model, save_model

SRC = torch.tensor([[4, 5, 6, 2], [7, 4, 0, 0]])
TGT = torch.tensor([[1, 5, 4], [1, 7, 7]])
KINDS = {  # what version 0.1 called the folder -> the class of today
    "generator": LanguageModel,
    "generator, rotary": LanguageModel,  # shared and wide heads, some biases, a head of its own
    "classifier": Classifier,
    "classifier, pairs": BigramClassifier,
    "classifier, segments": BertClassifier,
    "bag": BagOfEmbeddings,
    "translator": EncoderDecoder,  # shared heads, also of the memory
    "translator, two vocabularies": EncoderDecoder,  # shared heads in the target alone
    "translator, apart": BartEncoderDecoder,  # three matrices, a pad of its own
}
SAVED = "was saved by version 0.1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    "The folders as they were written."
    folder = tmp_path_factory.mktemp("version 0.1")
    with tarfile.open(Path(__file__).with_name("version_0_1.tar.xz")) as archive:
        archive.extractall(folder, filter="data")
    assert len(list(folder.iterdir())) == len(KINDS) + 2
    return folder


def inputs(model):
    return (SRC, TGT) if isinstance(model, EncoderDecoder) else (SRC,)


def expected(folder):
    "The logits of version 0.1, a row for each text."
    return torch.tensor(json.loads((folder / "logits.json").read_text()))


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_of_version_0_1_computes_what_it_did(name, folders, tmp_path):
    assert is_second_edition(load_file(folders / name / "model.safetensors"))
    with pytest.warns(UserWarning, match=f"^model: .*{name}' {SAVED}.*save it again") as said:
        model, tokenizer, labels = load_model(folders / name)
    assert len(said) == 1  # one line
    assert type(model) is KINDS[name] and not model.training and tokenizer.vocab_size == 8
    assert labels == (["bad", "good"] if isinstance(model, Classifier) else None)
    wanted = expected(folders / name)
    assert wanted.std() > 0.1  # its answers differ
    logits = model(*inputs(model)).flatten(1)
    assert_close(logits, wanted, rtol=1e-5, atol=1e-5)

    save_model(tmp_path, model, tokenizer, labels)  # saved again it is of today
    assert not is_second_edition(load_file(tmp_path / "model.safetensors"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_model(tmp_path).model
    assert torch.equal(again(*inputs(again)).flatten(1), logits)
    assert again.config == model.config and again.init_args == model.init_args


@pytest.mark.parametrize("name", KINDS)
def test_from_pretrained_reads_them_too(name, folders):
    with pytest.warns(UserWarning, match=SAVED):
        model = KINDS[name].from_pretrained(folders / name)
    assert_close(model(*inputs(model)).flatten(1), expected(folders / name), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generator, relative", "positions: expected another scheme than 'relative'"),
        ("translator, wide heads", "d_k: expected heads as wide as 2 for a memory, got 3"),
    ],
)
def test_what_no_class_of_today_computes_is_refused_by_name(name, said, folders):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=f"^model: .*{said}"):
        warnings.simplefilter("error")  # what is refused is not read
        load_model(folders / name)


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("translator, apart", EncoderDecoder, "expected the numbers of .*since this class has one"),
        ("classifier, pairs", Classifier, "embed.bigrams.weight"),
        ("classifier, segments", Classifier, "embed.segments.weight"),
        ("classifier", BertClassifier, "n_segments: expected a whole number of 1 or more"),
    ],
)
def test_another_class_does_not_read_them(name, kind, said, folders):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=f"^model: .*{said}"):
        warnings.simplefilter("ignore")
        kind.from_pretrained(folders / name)


def test_a_pad_of_its_own_is_refused_where_it_would_be_overlooked(folders, tmp_path):
    shutil.copytree(folders / "translator", tmp_path / "padded")
    config = json.loads((tmp_path / "padded" / "config.json").read_text())
    (tmp_path / "padded" / "config.json").write_text(json.dumps(config | {"pad_token_id": 3}))
    with pytest.raises(ValueError, match="^model: .*pad_token_id"):
        EncoderDecoder.from_pretrained(tmp_path / "padded")
    with pytest.warns(UserWarning, match=SAVED):
        model = BartEncoderDecoder.from_pretrained(tmp_path / "padded")
    assert model.pad == 3


def test_a_file_that_was_changed_is_refused_before_it_is_read(folders, tmp_path):
    shutil.copytree(folders / "classifier", tmp_path / "changed")
    (tmp_path / "changed" / "labels.json").write_text('["good", "bad"]')
    with pytest.raises(ValueError, match="labels.json .*does not belong to these weights"):
        load_model(tmp_path / "changed")


def test_the_models_that_ship_are_of_today():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("names", "numbers"):
            load_model(name)
