"""Prompts are read as rows, and what cannot be written on is named before any work."""

import pytest
import torch
from decoding_tools import CAN, LETTERS, MODEL, generate
from refusals import refuses

from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding import caches
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.prompts import (
    append_columns,
    as_rows,
    check_prompts,
    encode_prompt,
    stop_tokens,
)
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, EncoderDecoder


class Elsewhere(torch.Tensor):
    "Says that it lies on another device, since there may be one only."

    device = torch.device("meta")


def test_a_function_is_called_where_the_prompts_are():
    class Called(Exception):
        pass

    def model(tokens):
        raise Called(tokens.device.type)

    prompts = torch.tensor([[5, 6]]).as_subclass(Elsewhere)
    for call in (
        lambda: next(caches.stream(model, prompts, 3)),
        lambda: caches.generate(model, prompts, 3),
        lambda: beam_search(model, prompts, 2, 3),
    ):
        with pytest.raises(Called, match="meta"):
            call()


def other_kinds():
    "Models that don't write on, and what says so: with a configuration, and made by hand."
    config = TransformerConfig(23, 24, d_model=16, n_heads=4, n_layers=1, d_ff=24)
    two, three = EncoderDecoder.from_config(config), Classifier.from_config(config, 3)
    bare = EncoderDecoder(two.src_embed, two.encoder, two.decoder)
    yield from ((two, "translate"), (bare, "translate"), (three, "predict"))


@pytest.mark.parametrize(("model", "instead"), list(other_kinds()))
def test_what_translates_or_judges_is_sent_elsewhere(model, instead):
    for call in (
        lambda: caches.generate(model, CAN, 3),
        lambda: caches.generate(model, "abc", 3, tokenizer=LETTERS),
        lambda: caches.stream(model, CAN, 3),
        lambda: beam_search(model, [5, 6], 2, 3),
    ):
        with pytest.raises(TypeError, match=f"model: expected .*{instead}.*{type(model).__name__}"):
            call()


def test_prompts_are_rows_and_a_row_that_cannot_be_read_is_named():
    assert as_rows(torch.tensor([[1, 5, 6]])) == as_rows([(1, 5, 6)]) == [[1, 5, 6]]
    for row in ([], [1, 5, 6, 7], [1, 9], [1, 0]):  # empty, long, outside, padding
        refuses(lambda: check_prompts([[1, 5], row], 9, 3), ValueError, "prompts[1]")
    check_prompts([[1, 0]], 9, 3, never=())


def test_columns_continue_each_prompt_from_its_own_end():
    rows = append_columns([[1, 5], [1, 6, 7, 8]], [[9, 7], [2, 8], [None, 9]])
    assert rows == [[1, 5, 9, 2], [1, 6, 7, 8, 9]]  # the second is two tokens longer


def test_tokens_that_end_a_row_or_are_never_written_get_one_form():
    assert stop_tokens(None, (0, 1, 3), vocab_size=3) == (set(), [0, 1])
    assert stop_tokens(2, (3, 1, 0), vocab_size=30) == ({2}, [0, 1, 3])
    refuses(lambda: stop_tokens([2, 30], (), vocab_size=30), ValueError, "eos_token_ids", "30")
    tokenizer = CharTokenizer("abc")
    assert encode_prompt(tokenizer, "cab") == [*tokenizer.before, *tokenizer.encode("cab")]
    refuses(lambda: encode_prompt(tokenizer, "xa"), ValueError, "prompt", "'x'")


def test_prompts_on_a_device_are_read_by_one_wait(monkeypatch):
    read, plain = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda t: read.append(t.shape) or plain(t))
    assert as_rows(torch.tensor([[5, 6], [7, 8]])) == [[5, 6], [7, 8]] and len(read) == 1


def test_where_every_token_is_suppressed_nothing_is_written():
    for call in (
        lambda **how: generate(MODEL, CAN, 3, **how),
        lambda **how: beam_search(MODEL, [5], 2, 3, **how),
    ):
        refuses(lambda: call(suppress_tokens=range(23)), ValueError, "suppress_tokens", "23")
