"""Folders of Hugging Face that say *tied* and hold copies that are none, beside what transformers
computes from the same files."""

import pytest
import torch
from refusals import refuses
from safetensors.torch import load_file, save_file
from test_pretrained import DECODERS, ENCODERS, NEAR, TOKENS, make
from test_pretrained_translators import PAIRS
from torch.testing import assert_close

from former_nb.models.bert import BertClassifier
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face

transformers = pytest.importorskip("transformers")

TIED = {
    "gpt2": DECODERS["gpt2"],
    "llama": DECODERS["llama, tied, biases, wide heads"],
    "qwen2": DECODERS["qwen2"],
}


def write(theirs, folder, whole, copies, far=0.2):
    "Their folder, with copies of the tensor `whole` that are `far` from it; what theirs reads."
    theirs.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in copies:
        tensors[name] = tensors[whole] + far * torch.randn_like(tensors[whole])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return type(theirs).from_pretrained(folder).eval()


def embeddings(theirs):
    "What the tensor of the embeddings is called in a file."
    return next(
        n for n, p in theirs.named_parameters() if p is theirs.get_input_embeddings().weight
    )


@pytest.mark.parametrize("name", TIED)
def test_a_head_that_is_not_the_embedding_is_read(name, tmp_path):
    tied = make(*TIED[name])
    assert tied.config.tie_word_embeddings
    theirs = write(tied, tmp_path / "theirs", embeddings(tied), ["lm_head.weight"])
    assert not torch.equal(theirs.lm_head.weight, theirs.get_input_embeddings().weight)
    wanted = theirs(TOKENS).logits
    assert (wanted - tied(TOKENS).logits).abs().max() > 0.5  # the head matters
    for source in (tmp_path / "theirs", theirs):
        ours = from_hugging_face(source)
        assert not ours.config.tied_head
        assert_close(ours(TOKENS), wanted, **NEAR)
    to_hugging_face(ours, tmp_path / "ours")
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    assert_close(again(TOKENS).logits, wanted, **NEAR)


@pytest.mark.parametrize("name", TIED)
def test_a_head_that_is_the_embedding_stays_one_matrix(name, tmp_path):
    tied = make(*TIED[name])
    theirs = write(tied, tmp_path, embeddings(tied), ["lm_head.weight"], far=0.0)
    ours = from_hugging_face(tmp_path)
    assert ours.config.tied_head and ours.head.weight is ours.embed.tokens.weight
    assert_close(ours(TOKENS), theirs(TOKENS).logits, **NEAR)


@pytest.mark.parametrize("place", ["model.decoder.embed_tokens.weight", "lm_head.weight"])
def test_a_translator_with_two_matrices_is_refused_by_name(place, tmp_path):
    theirs = make(*PAIRS["bart"])
    write(theirs, tmp_path, "model.shared.weight", [place])
    refuses(lambda: from_hugging_face(tmp_path), ValueError, "source", "two that differ")
    write(theirs, tmp_path, "model.shared.weight", [place], far=0.0)
    assert from_hugging_face(tmp_path).init_args["tied"]


COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_model_for_hidden_tokens_with_two_matrices_is_refused_by_name(copy, tmp_path):
    theirs = make(*ENCODERS["masked"])
    write(theirs, tmp_path, COPIES[copy], [copy], far=0.0)
    places = torch.arange(7).expand(3, -1)
    real = TOKENS != 0
    assert_close(
        from_hugging_face(tmp_path)(TOKENS, places)[real],
        theirs(TOKENS, attention_mask=real.long()).logits[real],
        **NEAR,
    )
    write(theirs, tmp_path, COPIES[copy], [copy])
    with pytest.raises(ValueError, match=f"^source: .*{copy}"):
        from_hugging_face(tmp_path)


def test_a_classifier_does_not_read_what_finds_hidden_tokens(tmp_path):
    theirs = make(*ENCODERS["classifier"])
    copies = list(COPIES)[:1]
    write(theirs, tmp_path, COPIES[copies[0]], copies)
    ours = from_hugging_face(tmp_path)
    assert type(ours) is BertClassifier
    wanted = theirs(TOKENS, attention_mask=(TOKENS != 0).long()).logits
    assert_close(ours(TOKENS), wanted, **NEAR)
