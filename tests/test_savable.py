"""Models made of parts by hand: they write, learn and save as those that a configuration names."""

from dataclasses import asdict, replace

import pytest
import torch
import torch.nn.functional as F
from refusals import every_row, refuses
from torch import nn
from torch.nn.utils import prune
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import LearnedPositions
from former_nb.attention.relative_positions import ScaledRotary
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, generate
from former_nb.decoding.number_words import greedy_decode
from former_nb.decoding.sampling import Sampling
from former_nb.models.build import build_block, sizes_of
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import DecoderBlock
from former_nb.models.layers import Block, Embedding, FeedForward, Stack, make_block
from former_nb.models.modern_decoder import modern_decoder
from former_nb.models.parts import CrossAttention, Decoder, ScaledEmbedding
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.saving.saving import load_model, save_model
from former_nb.training.optimization import checkpoint_blocks

LETTERS = CharTokenizer("abcdefgh")
V = LETTERS.vocab_size
CONFIG = TransformerConfig(V, 12, d_model=16, n_heads=2, n_layers=2, d_ff=24, dropout=0.0)
MODERN = dict(n_kv_heads=2, positions="rotary", norm="rms", activation="swiglu", bias="none")
LLAMA = TransformerConfig(V, 12, d_model=16, n_heads=4, n_layers=2, d_ff=24, dropout=0.0, **MODERN)
TOKENS = torch.tensor([[1, 5, 6, 2, 0], [1, 9, 8, 7, 2]])


def embedding(kind=Embedding, **options):
    return kind(V, 16, LearnedPositions(12, 16), **options)


def stack(positions=None, **options):
    return Stack([make_block(16, 2, 24, **options) for _ in range(2)], nn.LayerNorm(16), positions)


def decoder_block():
    parts = MultiHeadAttention(16, 2), CrossAttention(16, 2), FeedForward(16, 24)
    return DecoderBlock(*parts, nn.LayerNorm(16), nn.LayerNorm(16), nn.LayerNorm(16))


def translator():
    unit = dict(std=0.25, scale=4.0)  # rows of length 1, times √d_model
    decoder = Decoder([decoder_block(), decoder_block()], nn.LayerNorm(16))
    return EncoderDecoder(embedding(ScaledEmbedding, **unit), stack(), decoder)


def llama():
    plain = modern_decoder(V, 16, 4, 2, 2, 24)
    return LanguageModel(plain.embed, plain.stack)


MADE = {  # by hand, and the configuration that says the same
    "language model": (lambda: LanguageModel(embedding(), stack()), CONFIG),
    "Llama": (llama, LLAMA),
    "classifier": (lambda: Classifier(embedding(), stack(), 16, 3), CONFIG),
    "translator": (translator, CONFIG),
}


def loud(model):
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.5)
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(TOKENS, TOKENS) if isinstance(model, EncoderDecoder) else model(TOKENS)


@pytest.mark.parametrize("make, config", MADE.values(), ids=MADE)
def test_with_the_same_weights_it_is_what_the_configuration_names(make, config):
    ours = loud(make())
    further = [3] * isinstance(ours, Classifier)
    named = type(ours).from_config(config, *further).eval()
    assert named.config is config and ours.config is None
    named.load_state_dict(ours.state_dict())
    assert_close(logits(named), logits(ours))


@pytest.mark.parametrize("make, config", MADE.values(), ids=MADE)
def test_it_saves_with_a_configuration_and_without_one_says_so(make, config, tmp_path):
    model = loud(make())
    labels = ["a", "b", "c"] if isinstance(model, Classifier) else None
    kind = type(model).__name__
    for save in (
        lambda: save_model(tmp_path / "own", model, LETTERS, labels),
        lambda: model.save_pretrained(tmp_path / "bare"),
    ):
        refuses(save, ValueError, "model", kind)
    model.config = config
    save_model(tmp_path / "own", model, LETTERS, labels)
    loaded = load_model(tmp_path / "own").model
    assert type(loaded) is type(model) and loaded.config == config
    assert_close(logits(loaded), logits(model))
    checkpoint_blocks(model, True)  # as while it trains
    model.save_pretrained(tmp_path / "bare")
    checkpoint_blocks(model, False)
    assert_close(logits(type(model).from_pretrained(tmp_path / "bare")), logits(model))


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(d_ff=20), ("(20, 16) for stack.blocks.0.ff.w_in.weight", "(24, 16)")),
        (dict(activation="relu"), ("activation", "gelu")),
        (dict(norm_first=False), ("PostNormBlock", "layers.Block")),
        (dict(n_layers=3), ("blocks.2", "nothing")),
        (dict(positions="sinusoidal"), ("SinusoidalPositions", "LearnedPositions")),
    ],
    ids=str,
)
def test_a_configuration_that_says_something_else_is_refused_before_a_file_is_written(
    change, words, tmp_path
):
    model = LanguageModel(embedding(), stack())
    model.config = replace(CONFIG, **change)
    with pytest.raises(ValueError, match="^model.config: expected") as error:
        model.save_pretrained(tmp_path / "never")
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not (tmp_path / "never").exists()


def test_a_head_of_its_own_is_not_saved_as_a_tied_one(tmp_path):
    model = LanguageModel(embedding(), stack(), nn.Linear(16, V, bias=False))
    model.config = CONFIG
    refuses(lambda: model.save_pretrained(tmp_path), ValueError, "model.config", "two that differ")
    model.config = TransformerConfig(**asdict(CONFIG) | dict(tied_head=False))
    model.save_pretrained(tmp_path)
    assert logits(LanguageModel.from_pretrained(tmp_path)).equal(logits(model.eval()))


# ---- made from a configuration, and changed afterwards


def half(frequency):
    return frequency / 2


def own_head(model):
    model.head = nn.Linear(16, V, bias=False)


def own_tokens(model):
    model.src_embed.tokens = nn.Embedding(V, 16)


def slower(model):
    model.stack.rotary = ScaledRotary(8, 1e4, half)


def another_base(model):
    model.stack.rotary = Rotary(8, 500.0)


def without_positions(model):
    model.stack.rotary = None


def another_activation(model):
    model.stack.blocks[1].ff.activation = F.silu


def another_eps(model):
    model.stack.norm.eps = 0.5


ROTARY = replace(CONFIG, positions="rotary")
LOST = {  # what no file says -> words of the sentence
    own_head: ("one weight for embed.tokens.weight and head.weight", "tied_head=False"),
    own_tokens: ("one weight for src_embed.tokens.weight and tgt_embed.tokens.weight",),
    slower: ("positions.Rotary for the class of stack.rotary", "ScaledRotary"),
    another_base: ("for stack.rotary.frequency",),
    without_positions: ("for the class of stack.rotary", "nothing"),
    another_activation: ("gelu", "for stack.blocks.1.ff.activation", "silu"),
    another_eps: ("1e-05 for stack.norm.eps", "0.5"),
}


@pytest.mark.parametrize("change", LOST, ids=lambda change: change.__name__)
def test_a_change_that_no_file_says_is_refused_before_a_file_is_written(change, tmp_path):
    model = (EncoderDecoder if change is own_tokens else LanguageModel).from_config(ROTARY)
    change(model)
    with pytest.raises(ValueError, match="^model.config: expected .*, got ") as error:
        model.save_pretrained(tmp_path / "never")
    assert all(words in str(error.value) for words in LOST[change]), str(error.value)
    assert not (tmp_path / "never").exists()


def more_dropout(model):
    model.stack.blocks[0].dropout.p = 0.5


def more_positions(model):
    model.stack.rotary = Rotary(8)


def a_block_less(model):
    del model.stack.blocks[1]
    model.config = replace(ROTARY, n_layers=1)


def tied_again(model):
    own_head(model)
    model.head.weight = model.embed.tokens.weight


def a_copy(model):
    own_head(model)
    model.head.load_state_dict(model.embed.tokens.state_dict())


def a_head_that_is_said(model):
    own_head(model)
    model.config = TransformerConfig(**asdict(ROTARY) | dict(tied_head=False))


KEPT = [more_dropout, more_positions, a_block_less, tied_again, a_copy, a_head_that_is_said]


@pytest.mark.parametrize("change", KEPT, ids=lambda change: change.__name__)
def test_a_change_that_alters_no_answer_or_is_said_is_saved(change, tmp_path):
    model = loud(LanguageModel.from_config(ROTARY))
    change(model)
    model.save_pretrained(tmp_path)
    assert logits(LanguageModel.from_pretrained(tmp_path)).equal(logits(model.eval()))


def test_weights_of_other_names_are_refused(tmp_path):
    model = LanguageModel.from_config(ROTARY)
    prune.l1_unstructured(model.stack.blocks[0].ff.w_in, "weight", 0.5)
    save = lambda: model.save_pretrained(tmp_path / "never")
    refuses(save, ValueError, "model.config", "(24, 16)")


# ---- they write


@pytest.mark.parametrize("name", ["language model", "Llama"])
def test_it_writes_without_a_configuration(name):
    make, config = MADE[name]
    ours = loud(make())
    named = LanguageModel.from_config(config).eval()
    named.load_state_dict(ours.state_dict())
    longest = 30 if name == "language model" else 9  # rotary parts by hand read any length
    for write in (
        lambda model: generate(model, [[1, 5], [1]], 9, Sampling()),
        lambda model: generate(model, [[1, 5]], longest),  # to the longest text that it reads
        lambda model: beam_search(model, [1, 5], num_beams=3, max_new_tokens=6),
    ):
        torch.manual_seed(3)
        mine = write(ours)
        torch.manual_seed(3)
        theirs = write(named)
        if isinstance(mine[0], tuple):  # texts and their scores
            assert [text for text, _ in mine] == [text for text, _ in theirs]
            assert_close([score for _, score in mine], [score for _, score in theirs])
        else:
            assert mine == theirs


def test_a_translator_made_by_hand_writes():
    ours = loud(translator())
    named = EncoderDecoder.from_config(CONFIG).eval()
    named.load_state_dict(ours.state_dict())
    assert greedy_decode(ours, TOKENS, 8) == greedy_decode(named, TOKENS, 8)


def test_sizes_are_read_from_the_parts():
    sizes = sizes_of(LanguageModel(embedding(), stack()))
    assert (sizes.vocab_size, sizes.n_layers, sizes.max_len) == (V, 2, 12)
    for rotary in (Rotary(8), ScaledRotary(8, 1e4, half)):
        sizes = sizes_of(LanguageModel(Embedding(V, 16), stack(rotary)))
        assert sizes.max_len > 10**9 and sizes.positions == "rotary"
    assert sizes_of(LanguageModel(Embedding(V, 16), stack())).max_len > 10**9
    refuses(lambda: sizes_of(nn.Linear(2, 2)), TypeError, "model")


def test_a_cache_and_one_function_for_each_block_go_through_parts_of_any_kind():
    model = loud(LanguageModel(embedding(), stack()))
    cache = KVCache(2)
    with torch.no_grad():
        whole = model(TOKENS)
        first = model(TOKENS[:, :3], cache)
        rest = model(TOKENS[:, 3:], cache, torch.arange(3, 5))
    assert_close(torch.cat([first, rest], dim=1), whole)


def test_make_block_and_the_configuration_make_the_same_parts():
    ours = make_block(16, 2, 24, 0.3)
    named = build_block(replace(CONFIG, dropout=0.3))
    assert str(ours) == str(named)


test_bad_input = every_row(
    [
        (
            "a configuration",
            lambda: LanguageModel(CONFIG),
            TypeError,
            "LanguageModel",
            "a configuration",
        ),
        ("no embedding", lambda: LanguageModel(3, stack()), TypeError, "embed", "3"),
        ("no stack", lambda: LanguageModel(embedding(), None), TypeError, "stack", "None"),
        ("no network", lambda: Block(nn.Identity(), F.relu, *[nn.Identity()] * 2), TypeError, "ff"),
        ("no norm", lambda: Stack([], "layer"), TypeError, "norm", "layer"),
        ("a word", lambda: Embedding(V, 16, "learned"), TypeError, "position_embedding", "learned"),
        ("no tokens", lambda: Embedding(0, 16), ValueError, "vocab_size", "0"),
        (
            "no cross",
            lambda: DecoderBlock(*[nn.Identity()], 2, *[nn.Identity()] * 4),
            TypeError,
            "cross",
        ),
        ("words", lambda: LanguageModel.from_config(dict(d_model=3)), TypeError, "config", "dict"),
        ("dropout", lambda: Block(*[nn.Identity()] * 4, 1.5), ValueError, "dropout", "1.5"),
    ]
)
