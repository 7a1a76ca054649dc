"""The decoder of lesson 12 beside `LanguageModel`, Hugging Face's Llama and PyTorch's layers."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from attention_tools import layer_edges, read_in_pieces
from refusals import counts, every_row, words
from torch import nn
from torch.testing import assert_close

from former_nb.attention.masks import causal_mask
from former_nb.data.batches import make_batches
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.decoding.caches import KVCache
from former_nb.decoding.decoding import generate
from former_nb.exercises.lesson_12 import llama_names
from former_nb.inspection.leaks import assert_no_leak
from former_nb.models.config import TransformerConfig
from former_nb.models.layers import Block, Embedding, Stack
from former_nb.models.modern_decoder import GroupedQueryAttention, RMSNorm, SwiGLU, modern_decoder
from former_nb.models.parts import FusedRMSNorm
from former_nb.models.savable import LanguageModel
from former_nb.saving.hugging_face import from_hugging_face
from former_nb.saving.saving import load_model
from former_nb.tasks import TASKS
from former_nb.training.fitting import fit
from former_nb.training.losses import batch_loss
from former_nb.training.training_config import TrainingConfig

V = 37
SIZES = dict(vocab_size=V, d_model=24, n_heads=6, n_kv_heads=2, n_layers=3, d_ff=20)
NEAR = dict(rtol=1e-10, atol=1e-10)
KINDS = {
    "tied": {},
    "one head of keys": dict(n_kv_heads=1),
    "as many as queries": dict(n_kv_heads=6),
    "base and eps": dict(base=500.0, eps=1e-3),
}


def loud(model):
    "The model in double precision, with weights that are large enough to tell models apart."
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, 1.0 if weight.ndim == 1 else 0.0, 0.3)
    return model.double()


def tokens(*shape, seed=1):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_it_is_what_a_configuration_names(changes):
    "The same names of weights, the same logits and gradients, and the parts of the lesson."
    names = {"base": "rope_base", "eps": "norm_eps", "n_kv_heads": "n_kv_heads"}
    parts = dict(norm="rms", activation="swiglu", positions="rotary", bias="none", dropout=0.0)
    rare = {names[name]: value for name, value in changes.items()}
    theirs = LanguageModel.from_config(
        TransformerConfig(max_len=16, **SIZES | parts | rare)
    ).double()
    ours = loud(modern_decoder(**SIZES | changes))
    theirs.load_state_dict(ours.state_dict())
    text = tokens(3, 11)
    targets = tokens(3, 11, seed=2)
    assert_close(ours(text), theirs(text), **NEAR)
    batch_loss(ours, (text, targets)).backward()
    batch_loss(theirs, (text, targets)).backward()
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert_close(mine.grad, other.grad, **NEAR, msg=name)


def kinds(model):
    "The classes of the parts of a decoder: embedding, stack, and those of each block."
    found = {type(model), type(model.embed), type(model.stack), type(model.stack.norm)}
    for block in model.stack.blocks:
        found |= {type(block), type(block.attention), type(block.ff)}
        found |= {type(block.norm_attention), type(block.norm_ff)}
    return found


PARTS = {LanguageModel, Embedding, Stack, Block, GroupedQueryAttention, SwiGLU, FusedRMSNorm}


def test_the_shakespeare_that_ships_is_made_of_the_parts_of_the_lessons_and_a_fused_norm():
    assert kinds(load_model("shakespeare").model) == PARTS


def test_a_llama_that_is_read_is_made_of_the_parts_of_the_lessons_and_a_fused_norm():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=24,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
    )
    theirs = transformers.LlamaForCausalLM(config)
    assert kinds(from_hugging_face(theirs)) == PARTS


def test_train_shakespeare_makes_the_parts_of_the_lessons_and_a_fused_norm():
    task = TASKS["shakespeare"]()
    data = SimpleNamespace(tokenizer=SimpleNamespace(vocab_size=V), max_len=16)
    assert kinds(task.make_model(data)) == PARTS


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_a_llama_of_hugging_face_gives_the_same_logits(changes):
    transformers = pytest.importorskip("transformers")
    ours = loud(modern_decoder(**SIZES | changes)).eval()
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=24,
        intermediate_size=20,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=changes.get("n_kv_heads", 2),
        max_position_embeddings=16,
        rms_norm_eps=changes.get("eps", 1e-5),
        rope_parameters=dict(rope_type="default", rope_theta=changes.get("base", 1e4)),
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = transformers.LlamaForCausalLM(config).double().eval()
    state = ours.state_dict()
    theirs.load_state_dict({name: state[mine] for name, mine in llama_names(3).items()})
    text = tokens(3, 11)
    with torch.no_grad():  # theirs turns by angles in float32, as ours does
        assert_close(ours(text), theirs(text).logits, rtol=1e-5, atol=1e-5)


# ---- each part beside PyTorch's


@pytest.mark.parametrize("shape", [(24,), (3, 24), (2, 3, 5, 24), (0, 24)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 1e-2])
def test_the_norm_is_that_of_pytorch_forward_and_backward(shape, eps):
    ours = RMSNorm(24, eps).double()
    theirs = nn.RMSNorm(24, eps=eps).double()
    nn.init.normal_(ours.weight)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(*shape, dtype=torch.float64) * 0.01
    gradients = []
    for norm in (ours, theirs):
        leaf = x.clone().requires_grad_()
        y = norm(leaf)
        y.square().sum().backward()
        gradients.append((y, leaf.grad, norm.weight.grad))
    assert_close(*gradients, **NEAR)
    assert ours(torch.zeros(2, 24).double()).equal(torch.zeros(2, 24).double())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_the_norm_of_the_lesson_rounds_as_far_as_its_squares_fit(dtype):
    "The square of 256 is too large for float16, so a Llama in float16 has the other norm."
    x = torch.randn(3, 24).to(dtype)
    y = RMSNorm(24).to(dtype)(x)
    assert y.dtype == dtype
    assert_close(y.float(), nn.RMSNorm(24, eps=1e-5)(x.float()), rtol=0.02, atol=1e-5)


def test_the_network_has_two_thirds_of_the_units_and_the_weights_of_one_without_a_gate():
    network = SwiGLU(48, 128)
    assert sum(weight.numel() for weight in network.parameters()) == 2 * 48 * 192
    x = torch.randn(3, 5, 48)
    gate = network.w_gate(x)
    second = network.w_in(x)
    assert_close(network(x), network.w_out(gate * gate.sigmoid() * second))


def test_a_decoder_ties_its_head_and_has_no_biases():
    model = modern_decoder(500, 96, 6, 2, 8, 256)
    assert model.head.weight is model.embed.tokens.weight
    assert not any(name.endswith("bias") for name, _ in model.named_parameters())


# ---- it writes and learns as any model does


@pytest.mark.parametrize("pieces", [[5], [1] * 5, [3, 2], [1, 4]], ids=str)
@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_with_a_cache_it_says_what_it_says_without(pieces, n_kv_heads):
    model = loud(modern_decoder(**SIZES | dict(n_kv_heads=n_kv_heads))).eval()
    text = tokens(2, 5)
    cache = KVCache(3)
    with torch.no_grad():
        whole = model(text)
        parts = read_in_pieces(model, text.split(pieces, dim=1), cache)
    assert_close(parts, whole, **NEAR)
    assert cache[0].k.shape == (2, n_kv_heads, 5, 4)
    again = generate(model, text, 7)
    assert generate(model, text, 7, cache=KVCache(3)).equal(again)


def test_no_word_sees_what_comes_after_it():
    model = loud(modern_decoder(**SIZES)).eval()
    x = model.embed(tokens(2, 7)).detach()
    stack = partial(model.stack, is_causal=True, positions=torch.arange(7))
    assert_no_leak(stack, x, allowed=causal_mask(7))


def test_it_learns_with_fit_and_saves_with_its_state():
    texts = ["anna", "otto", "hannah", "bob", "eve", "ada"] * 6
    tokenizer = CharTokenizer.train(texts)
    batches = make_batches(encode_texts(texts, tokenizer), 12)
    torch.manual_seed(0)
    sizes = SIZES | dict(vocab_size=tokenizer.vocab_size)
    model = modern_decoder(**sizes)
    history = fit(
        model, batches, batches, TrainingConfig(epochs=20, lr=1e-2), device="cpu", progress=False
    )
    assert history["valid"].iloc[-1] < 0.6 * history["valid"].iloc[0]
    other = modern_decoder(**sizes)
    other.load_state_dict(model.state_dict())
    text = torch.randint(4, tokenizer.vocab_size, (2, 5))
    assert other(text).equal(model(text))


# ---- bad input, in one sentence each

MODEL = modern_decoder(**SIZES)


def made(**changes):
    return lambda: modern_decoder(**SIZES | changes)


test_bad_input = every_row(
    [
        ("heads", made(n_heads=5), ValueError, "d_model", "24"),
        ("groups", made(n_kv_heads=4), ValueError, "n_heads", "6"),
        ("odd heads", made(d_model=18), ValueError, "d_k", "3"),
        ("no layers", made(n_layers=0), ValueError, "n_layers", "0"),
        ("no words", made(vocab_size=0), ValueError, "vocab_size", "0"),
        ("no units", made(d_ff=0), ValueError, "d_ff", "0"),
        ("eps", made(eps=0.0), ValueError, "eps", "0.0"),
        ("base", made(base=-1), ValueError, "base", "-1"),
        ("a word too many", lambda: MODEL(torch.tensor([[V]])), ValueError, "tokens", str(V)),
        ("below 0", lambda: MODEL(torch.tensor([[-1]])), ValueError, "tokens", "-1"),
        ("one row", lambda: MODEL(tokens(5)), ValueError, "tokens", "(5,)"),
        (
            "another model's cache",
            lambda: MODEL(tokens(2, 5), KVCache(2)),
            ValueError,
            "attend",
            "2",
        ),
    ]
)


def test_tokens_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="^tokens: expected torch.int64 of shape"):
        MODEL(torch.rand(2, 5))


# ---- the module


def test_a_grouped_layer_is_a_multi_head_layer_with_other_widths():
    layer = GroupedQueryAttention(24, 6, 2, bias=False)
    assert "forward" not in vars(GroupedQueryAttention)
    assert [tuple(w.shape) for w in layer.parameters()] == [(24, 24), (8, 24), (8, 24), (24, 24)]


GROUPED = GroupedQueryAttention(12, 6, 2)


TABLE = {
    "GroupedQueryAttention": [
        *words(GROUPED),
        *layer_edges(GROUPED),
        ("groups", lambda: GroupedQueryAttention(12, 6, 4), ValueError, "n_heads", "6"),
        *counts("n_kv_heads", lambda value: GroupedQueryAttention(12, 6, value)),
        *counts("d_k", lambda value: GroupedQueryAttention(12, 6, d_k=value)),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
