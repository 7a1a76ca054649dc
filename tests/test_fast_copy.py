"A fast copy computes what its model does, or the model writes itself."

import pytest
import torch
from model_tools import loud
from refusals import refuses
from torch.testing import assert_close

from former_nb.attention.fused import attention
from former_nb.attention.masks import padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import ALiBi, RelativeBias
from former_nb.data.text import PAD
from former_nb.decoding import decoding
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, generate, stream
from former_nb.decoding.fast_copy import Int8Product, Product, fast_copy, faster, gated
from former_nb.decoding.sampling import Sampling
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.layers import Embedding, Stack, make_block
from former_nb.models.modern_decoder import modern_decoder
from former_nb.models.parts import attend_beams
from former_nb.models.savable import EncoderDecoder, LanguageModel, make_model

SIZES = dict(d_model=32, n_heads=4, n_layers=3, d_ff=48)
GREEDY = Sampling(temperature=0)
FREE = dict(eos_token_ids=None, suppress_tokens=())


def language_model(**choices):
    return loud(LanguageModel.from_config(TransformerConfig(30, 40, **(SIZES | choices))))


def draw(B, T, seed=0):
    return torch.randint(4, 30, (B, T), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def read(decode, tokens, cache, prompt=3):
    "Logits of a prompt and of each token after it."
    pieces = [tokens[:, :prompt], *tokens[:, prompt:].split(1, dim=1)]
    found = [decode(piece, cache, cache.positions(piece.shape[1])) for piece in pieces]
    return torch.cat(found, dim=1)


def bound(decoder, memory, mask):
    "A decoder with its memory, called as a language model."

    def decode(tokens, cache, positions):
        return decoder.decode(tokens, memory, mask, cache, positions)

    return decode


def check_equal(model):
    "The copy computes what the model does."
    tokens = draw(5, 20)
    with torch.no_grad():
        whole = model(tokens)
    assert_close(read(fast_copy(model), tokens, KVCache(3)), whole, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("n_kv_heads", [None, 2, 1])
def test_logits_are_those_of_the_modules(positions, norm_first, n_kv_heads):
    for norm, activation in (("layer", "gelu"), ("rms", "swiglu"), ("layer", "relu")):
        choices = dict(norm=norm, activation=activation, norm_first=norm_first)
        model = language_model(positions=positions, n_kv_heads=n_kv_heads, **choices)
        check_equal(model)


@pytest.mark.parametrize("choices", [
    dict(embed_norm=True, norm_first=False),
    dict(bias="none"),
    dict(bias="qkv"),
    dict(bias="attention", tied_head=False),
    dict(d_k=12, n_kv_heads=2),
    dict(positions="rotary", d_k=12, rope_scaling=dict(rope_type="linear", factor=2.0)),
])  # fmt: skip
def test_what_hub_models_choose(choices):
    check_equal(language_model(**choices))


def test_the_decoder_of_lesson_12():
    check_equal(loud(modern_decoder(30, 32, 4, 2, 3, 48)))


@pytest.mark.parametrize("positions", [ALiBi(4), RelativeBias(4, 8), None])
def test_a_model_of_parts_that_reads_any_length(positions):
    blocks = [make_block(32, 4, 48) for _ in range(3)]
    model = loud(LanguageModel(Embedding(30, 32), Stack(blocks, torch.nn.LayerNorm(32), positions)))
    check_equal(model)


@pytest.mark.parametrize("kind", ["plain", "paper", "bart", "wide", *POSITIONS])
def test_a_decoder_with_its_memory(kind):
    if kind == "paper":
        model = loud(make_model(30, max_len=40, **SIZES))
    elif kind == "bart":
        rare = dict(embed_norm=True, logits_bias=True, norm_first=False)
        model = loud(BartEncoderDecoder(TransformerConfig(30, 40, **SIZES, **rare)))
    else:
        choices = {"plain": {}, "wide": dict(d_k=12)}.get(kind, dict(positions=kind))
        model = loud(EncoderDecoder.from_config(TransformerConfig(30, 40, **SIZES, **choices)))
    src = draw(2, 7)
    src[1, 4:] = PAD
    mask = padding_mask(src)
    tokens = draw(6, 12)  # three texts about each source
    with torch.no_grad():
        memory = model.decoder.project(model.encode(src), attend_beams)
    whole = read(bound(model, memory, mask), tokens, KVCache(3))
    ours = read(bound(fast_copy(model), memory, mask), tokens, KVCache(3))
    assert_close(ours, whole, atol=2e-4, rtol=1e-4)


def test_a_decoder_with_a_memory_as_it_is():
    model = loud(EncoderDecoder.from_config(TransformerConfig(30, 40, **SIZES)))
    src, tgt = draw(2, 7), draw(2, 9)
    with torch.no_grad():
        assert_close(fast_copy(model)(src, tgt), model(src, tgt), atol=2e-4, rtol=1e-4)


def fed_again(model):
    "A function, which gets no cache: it reads everything at each step."
    return lambda tokens: model(tokens)


@pytest.mark.parametrize("positions", POSITIONS)
def test_texts_are_those_of_the_plain_loop(positions):
    model = language_model(positions=positions)
    prompts = [[5, 6], [7, 8, 9, 10], [11]]
    for sampling in (GREEDY, Sampling(seed=3), Sampling(0.8, top_p=0.9, seed=1)):
        texts = generate(model, prompts, 20, sampling, **FREE)
        assert texts == generate(fed_again(model), prompts, 20, sampling, **FREE)
        assert texts == generate(fast_copy(model), prompts, 20, sampling, **FREE)


FARTHER = [name for name, scheme in POSITIONS.items() if scheme.beyond != "never"]


@pytest.mark.parametrize("positions", FARTHER)
def test_a_window_beyond_the_trained_length(positions):
    model = language_model(positions=positions)
    rows = [[5, 6, 7]]
    far = generate(model, rows, 60, GREEDY, window=6, **FREE)
    plain = decoding.generate(model, torch.tensor(rows), 60, cache=KVCache(3, 6))
    assert far == plain.tolist()


def test_beams_are_those_of_the_modules():
    for seed in range(5):
        model = loud(LanguageModel.from_config(TransformerConfig(12, 30, **SIZES)), seed)
        how = dict(num_beams=4, max_new_tokens=14, num_return_sequences=4)
        ours = beam_search(model, [[5, 6], [7, 8]], **how)
        again = beam_search(fed_again(model), [[5, 6], [7, 8]], **how)
        for best, plain in zip(ours, again):
            assert [text for text, _ in best] == [text for text, _ in plain]
            ours_scores = torch.tensor([score for _, score in best])
            assert_close(ours_scores, torch.tensor([score for _, score in plain]))


def test_a_copy_is_made_and_the_model_stays_as_it_is(tmp_path):
    model = language_model()
    model.save_pretrained(tmp_path / "before")
    optimizer = torch.optim.AdamW(model.parameters())
    before = {name: (p.data_ptr(), p.stride()) for name, p in model.named_parameters()}
    generate(model, [[5, 6]], 20, GREEDY)
    assert before == {name: (p.data_ptr(), p.stride()) for name, p in model.named_parameters()}
    model.save_pretrained(tmp_path / "after")
    files = [tmp_path / name / "model.safetensors" for name in ("before", "after")]
    assert files[0].read_bytes() == files[1].read_bytes()
    model.train()
    model(draw(2, 5)).sum().backward()
    optimizer.step()
    for p in model.parameters():
        assert p.is_contiguous() and optimizer.state[p]["exp_avg"].is_contiguous()
    assert model.training  # writing in between leaves the mode
    generate(model, [[5, 6]], 20, GREEDY)
    assert model.training


def test_training_between_two_texts_counts():
    model = language_model()
    first = generate(model, [[5, 6]], 20, GREEDY, **FREE)
    loud(model, seed=1)
    second = generate(model, [[5, 6]], 20, GREEDY, **FREE)
    assert first != second
    assert second == generate(fed_again(model), [[5, 6]], 20, GREEDY, **FREE)


def test_dropout_is_off():
    model = language_model(dropout=0.5).train()
    ours = generate(model, [[5, 6]], 20, GREEDY, **FREE)
    assert ours == generate(model.eval(), [[5, 6]], 20, GREEDY, **FREE)


def test_half_precision():
    for positions in POSITIONS:
        model = language_model(positions=positions).bfloat16()
        ours = read(fast_copy(model), draw(2, 12), KVCache(3))
        theirs = read(model, draw(2, 12), KVCache(3))
        assert ours.dtype == torch.bfloat16
        assert (ours - theirs).float().norm() < 0.05 * theirs.float().norm()


# ---------------------------------------------------------------- what can't be copied


class Louder(MultiHeadAttention):
    def forward(self, *args, **how):
        return 2 * super().forward(*args, **how)


class Another(LanguageModel):
    pass


def with_own_layer():
    model = language_model()
    for block in model.stack.blocks:
        block.attention.__class__ = Louder
    return model


def with_hook():
    model = language_model()
    model.stack.blocks[1].ff.register_forward_hook(lambda *args: None)
    return model


def of_own_class():
    return loud(Another.from_config(TransformerConfig(30, 40, **SIZES)))


@pytest.mark.parametrize("make, part", [
    (with_own_layer, "Louder"),
    (with_hook, "1.ff"),
    (of_own_class, "Another"),
])  # fmt: skip
def test_a_model_that_cannot_be_copied_writes_itself(make, part, caplog):
    model = make()
    refuses(lambda: fast_copy(model), ValueError, "model", part)
    with caplog.at_level("INFO", "former_nb"):
        assert faster(model, 20) is model
    assert part in caplog.text and "modules" in caplog.text
    texts = generate(model, [[5, 6], [7]], 12, GREEDY, **FREE)
    assert texts == generate(fed_again(model), [[5, 6], [7]], 12, GREEDY, **FREE)


def test_few_tokens_are_not_worth_a_copy(caplog):
    model = language_model()
    with caplog.at_level("INFO", "former_nb"):
        assert faster(model, 11) is model and faster(model, 12) is not model
        fast = fast_copy(model)
        assert faster(fast, 32) is fast
    assert "fewer than 12" in caplog.text and "a fast copy" in caplog.text


def test_memory_that_is_full(monkeypatch, caplog):
    model = language_model()

    class Full:
        available = 1000

    monkeypatch.setattr("psutil.virtual_memory", lambda: Full)
    with caplog.at_level("INFO", "former_nb"):
        assert faster(model, 20) is model
    assert "no room" in caplog.text


def test_what_a_cache_calls_is_called():
    model = language_model()
    tokens = draw(2, 6)
    found = []
    for reader in (model, fast_copy(model)):
        halved = KVCache(3, attend=lambda *args, **options: attention(*args, **options) / 2)
        found.append(read(reader, tokens, halved))
    assert_close(*found, atol=2e-4, rtol=1e-4)


def test_bad_arguments():
    model = language_model()
    refuses(lambda: fast_copy(model.to("meta"), Int8Product), ValueError, "product", "meta")


def test_swiglu_gates_the_second_half_by_the_first():
    # gates, gates, values, values
    x = torch.tensor([[-2.0, 0.5, 3.0, -1.0], [1.0, 2.0, -0.5, 4.0]])
    assert_close(gated(x), x[:, :2] * torch.sigmoid(x[:, :2]) * x[:, 2:])
    assert gated(torch.tensor([-100.0, 5.0])) == 0  # a closed gate
    assert gated(torch.zeros(2, 0)).shape == (2, 0)


# ---------------------------------------------------------------- 8 bits


@pytest.mark.parametrize("sizes", [(7, 5), (65, 128), (33, 12), (8, 40), (32, 32)])
def test_a_product_of_8_bits_is_near_the_product(sizes):
    n, m = sizes
    torch.manual_seed(0)
    layers = [torch.nn.Linear(m, n), torch.nn.Linear(m, n)]
    for B in (1, 3, 16):
        x = torch.randn(B, m)
        exact = torch.cat([layer(x) for layer in layers], dim=1)
        assert_close(Product(*layers)(x), exact)
        rounded = Int8Product(*layers)(x)
        assert rounded.dtype == x.dtype
        assert 0 < (rounded - exact).norm() < 0.02 * exact.norm()


def test_a_row_of_zeros_stays_zero():
    layer = torch.nn.Linear(8, 4)
    torch.nn.init.zeros_(layer.weight)
    assert_close(Int8Product(layer)(torch.randn(2, 8)), layer.bias.detach().expand(2, 4))


def test_a_model_of_8_bits_says_nearly_the_same():
    model = language_model()
    tokens = draw(3, 20)
    ours = read(fast_copy(model, Int8Product), tokens, KVCache(3))
    theirs = read(model, tokens, KVCache(3))
    assert (ours - theirs).norm() < 0.1 * theirs.norm()
    assert next(stream(fast_copy(model, Int8Product), [[5]], 9, GREEDY))
