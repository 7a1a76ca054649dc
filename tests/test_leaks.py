"""The leak meters find every planted mistake, name the pair, pass the model put right, and leave it
as it was."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from attention_tools import read_in_pieces
from refusals import refuses
from torch import nn

from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.decoding.caches import KVCache, LayerCache
from former_nb.inspection.leak_tools import Edits, outputs_of
from former_nb.inspection.leaks import (
    LeakError,
    NoiseTest,
    allowed_pairs,
    assert_no_leak,
    edit_influence,
    find_joint_leak,
    gradient_influence,
    noise_leak,
)
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import CrossAttention
from former_nb.models.savable import LanguageModel

B, T, S, D = 2, 5, 7, 8
CAUSAL, EYE = causal_mask(T), torch.eye(T, dtype=torch.bool)
SOURCE = torch.tensor([[7, 5, 6, 0, 0], [4, 8, 2, 9, 0]])  # 0 is padding
TARGET = torch.tensor([[3, 4, 2, 6, 7], [5, 9, 0, 0, 0]])
TOKENS = torch.tensor([[4, 7, 5, 9, 6], [8, 5, 10, 4, 7]])


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ours(seed=0):
    torch.manual_seed(seed)
    return MultiHeadAttention(D, 2)


def language_model(**kwargs):
    torch.manual_seed(0)
    sizes = dict(d_model=D, n_heads=2, n_layers=2, d_ff=16)
    return LanguageModel.from_config(TransformerConfig(12, max_len=13, **sizes, **kwargs))


def leaking_pair(model, inputs, allowed, **kwargs):
    with pytest.raises(LeakError) as caught:
        assert_no_leak(model, inputs, allowed, **kwargs)
    return str(caught.value)


X = numbers(B, T, D)


# ---- the planted mistakes, on our layer and on PyTorch's


def torch_layer(mask):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(D, 2, batch_first=True)
    return lambda x: layer(x, x, x, attn_mask=None if mask is None else ~mask[0, 0])


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def torch_encoder(mask):
    return partial(encoder(), mask=None if mask is None else ~mask[0, 0])


def our_layer(mask):
    return partial(ours(), mask=mask)


LEAKING = {
    "no mask": (None, "20 such pairs; every output depends on every input"),
    "transposed": (CAUSAL.mT, "20 such pairs; the mask may be inverted or transposed"),
    "one key too far": (torch.ones(1, 1, T, T, dtype=torch.bool).tril(1), "off by one"),
}


@pytest.mark.parametrize("name", LEAKING)
@pytest.mark.parametrize("build", [our_layer, torch_layer, torch_encoder])
def test_a_wrong_causal_mask_is_caught_and_the_right_one_passes(build, name):
    mask, looks = LEAKING[name]
    if name == "one key too far" and build is torch_encoder:
        looks = "such pairs"  # two layers reach two places ahead
    text = leaking_pair(build(mask), X, CAUSAL)
    assert "output 0 of sample 0 depends on input 1 " in text and looks in text
    assert_no_leak(build(CAUSAL), X, CAUSAL)


def test_an_inverted_mask_is_caught():
    assert "inverted or transposed" in leaking_pair(our_layer(~CAUSAL), X, CAUSAL)
    # not a triangle: here the two can be told apart
    rows = [1, 1, 0, 0, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 1, 0], [1, 0, 0, 1, 1]
    some = torch.tensor(rows, dtype=torch.bool)[None, None]
    assert leaking_pair(our_layer(~some), X, some).endswith("; the mask may be inverted")
    assert leaking_pair(our_layer(some.mT), X, some).endswith("; the mask may be transposed")
    assert_no_leak(our_layer(some), X, some)
    refuses(lambda: assert_no_leak(torch_layer(~CAUSAL), X, CAUSAL), ValueError, "model")


def test_an_excluded_diagonal_is_caught_on_the_layer():
    text = leaking_pair(our_layer(CAUSAL & ~EYE), X, CAUSAL)
    assert "output 0 of sample 0 does not depend on input 0, which `allowed` allows" in text
    assert "the diagonal may be excluded" in text
    assert_no_leak(our_layer(CAUSAL & ~EYE), X, CAUSAL, must_depend=False)


@pytest.mark.parametrize("model", [torch.zeros_like, lambda x: X], ids=["zeros", "another tensor"])
def test_a_model_that_ignores_its_input_does_not_pass(model):
    assert "no output depends on any input" in leaking_pair(model, X, CAUSAL)


def test_targets_that_are_not_shifted_are_caught():
    model = language_model().eval()
    before = causal_mask(T) & ~EYE  # the prediction of token i may depend on the tokens before it
    shifted = lambda by: lambda tokens: F.pad(model(tokens)[:, :-by], (0, 0, by, 0))
    text = leaking_pair(model, TOKENS, before)
    assert "output 0 of sample 0 depends on input 0 " in text and "are the targets shifted?" in text
    assert_no_leak(shifted(1), TOKENS, before)
    text = leaking_pair(shifted(2), TOKENS, before)
    assert "output 1 of sample 0 does not depend on input 0" in text


def in_pieces(layer, x, ahead=0, size=2):
    kept, outs = LayerCache(), []
    for piece in x.split(size, dim=1):
        n, keys = piece.shape[1], kept.length + piece.shape[1]
        mask = torch.ones(1, 1, n, keys, dtype=torch.bool).tril(keys - n + ahead)
        outs.append(layer(piece, attend=kept, mask=mask))
    return torch.cat(outs, dim=1)


def test_a_cache_that_is_off_by_one_is_caught():
    cached = lambda **how: partial(in_pieces, ours(), **how)
    assert_no_leak(cached(), X, CAUSAL)
    text = leaking_pair(cached(ahead=1), X, CAUSAL)
    assert "output 0 of sample 0 depends on input 1 " in text and "off by one" in text
    for size in (1, 2):
        late = leaking_pair(cached(ahead=-1, size=size), X, CAUSAL)
        assert "does not depend on input 0" in late


def test_the_course_s_own_cache_does_not_leak_token_by_token():
    model, quick = language_model().eval(), dict(draws=2)

    def cached(tokens, size=1):
        cache = KVCache(model.config.n_layers)
        return read_in_pieces(model, tokens.split(size, dim=1), cache)

    def late(tokens):  # each token is read one step after its turn
        return torch.cat([cached(tokens)[:, 1:], cached(tokens)[:, -1:]], dim=1)

    assert_no_leak(cached, TOKENS, CAUSAL, **quick)
    assert_no_leak(partial(cached, size=3), TOKENS, CAUSAL, **quick)
    text = leaking_pair(late, TOKENS, CAUSAL, **quick)
    assert "output 0 of sample 0 depends on input 1 " in text


def test_attended_padding_is_caught():
    both = combine_masks(CAUSAL, padding_mask(SOURCE))
    assert_no_leak(our_layer(both), X, both | EYE)
    text = leaking_pair(our_layer(CAUSAL), X, both | EYE)
    assert "output 4 of sample 0 depends on input 3 " in text and "; 1 such pair;" in text
    text = leaking_pair(our_layer(None), X, padding_mask(SOURCE) | EYE)
    assert "output 0 of sample 0 depends on input 3 " in text


def test_padding_of_the_wrong_side_is_caught_in_cross_attention():
    torch.manual_seed(0)
    layer, memory = CrossAttention(D, 2), numbers(B, T, D, seed=1)

    def cross(mask):
        return lambda memory: layer(X, memory, mask=mask)

    assert_no_leak(cross(padding_mask(SOURCE)), memory, padding_mask(SOURCE))
    for wrong in (padding_mask(TARGET), padding_mask(SOURCE).mT, None):
        text = leaking_pair(cross(wrong), memory, padding_mask(SOURCE))
        assert "output 0 of sample 0 depends on input 3 " in text
    longer = numbers(B, S, D, seed=1)
    assert_no_leak(lambda memory: layer(X, memory), longer, torch.ones(T, S, dtype=torch.bool))
    assert_no_leak(lambda memory: layer(X, memory, is_causal=True), longer, causal_mask(T, S))


def test_samples_that_mix_are_named():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(D, 2)  # batch_first left out
    text = leaking_pair(lambda x: layer(x, x, x), X, CAUSAL)
    assert "output 0 of sample 0 depends on input 0 of sample 1 " in text and "batch_first" in text
    norm = nn.BatchNorm1d(D)

    def normed(x):
        return norm(x.flatten(0, 1)).view(x.shape)

    assert "samples mix" in leaking_pair(normed, X, EYE[None, None])
    norm.eval()
    assert_no_leak(normed, X, EYE[None, None])
    assert "sample 1" in leaking_pair(lambda x: x - x.mean(0), X, EYE[None, None])
    assert "samples mix" not in leaking_pair(lambda x: x - x.mean(1, keepdim=True), X, CAUSAL)


def later(x, n=1):
    return F.pad(x[:, n:], (0, 0) * (x.ndim - 2) + (0, n))


@pytest.mark.parametrize(
    "leak",
    [
        lambda n: (n > 0).to(n),
        lambda n: n.round(),
        lambda n: F.relu(n - 20),
        lambda n: n.detach(),
        lambda n: n.argmax(-1, keepdim=True).to(n),
    ],
)
def test_edits_find_what_gradients_miss(leak):
    def model(x):
        return x.cumsum(1) + leak(later(x))

    may = allowed_pairs(CAUSAL, (B, T, B, T))
    assert torch.equal(gradient_influence(model, X) > 0, may)
    assert not torch.equal(edit_influence(model, X) > 0, may)
    assert "output 0 of sample 0 depends on input 1 (an edit" in leaking_pair(model, X, CAUSAL)


def test_gradients_find_what_edits_miss_and_a_constant_sum_hides_nothing():
    weak = lambda x: x.cumsum(1) + 1e-20 * later(x)
    assert torch.equal(edit_influence(weak, X) > 0, allowed_pairs(CAUSAL, (B, T, B, T)))
    assert "output 0 of sample 0 depends on input 1 (gradient" in leaking_pair(weak, X, CAUSAL)
    for ending in (lambda y: F.layer_norm(y, (D,)), lambda y: y.softmax(-1)):
        found = gradient_influence(lambda x, ending=ending: ending(x + x.roll(-1, 1)), X)
        assert found[0, 0, 0, 1] > 1e-3


def change(x):
    return x - torch.cat([x[:, :1], x[:, :-1]], dim=1)


SAME = X[:, :1].repeat(1, T, 1)  # five times the same word
BLIND = {  # leaks that a gradient and edits of one input, of one spread or a hundred, miss
    "exactly zero": (lambda x: (later(x) == 0).to(x), "input 1 (an edit"),
    "far threshold": (lambda x: F.relu(later(x) - 2000), "input 1 (an edit"),
    "two together": (
        lambda x: F.relu(later(x) - 20) * F.relu(later(x, 2) - 20),
        "1 and 2 together",
    ),
    "cancels here": (lambda x: change(x) * later(x), "input 2, in a text other than the given"),
}


@pytest.mark.parametrize("name", BLIND)
def test_blind_spots_of_gradients_and_small_edits_are_covered(name):
    leak, words = BLIND[name]
    text = leaking_pair(lambda x: x.cumsum(1) + leak(x), SAME, CAUSAL)
    assert words in text and "which `allowed` forbids" in text
    assert_no_leak(lambda x: x.cumsum(1) + leak(x).roll(2, 1) * 0, SAME, CAUSAL)


def test_two_tokens_that_act_only_together_are_found_and_named():
    def model(tokens):
        both = (later(tokens) == 3) & (later(tokens, 2) == 1)
        return (tokens.cumsum(1) + both)[..., None].float()

    tokens = torch.tensor([[0, 2, 0, 2, 0], [2, 0, 2, 0, 2]])
    may = allowed_pairs(CAUSAL, (B, T, B, T))
    assert torch.equal(edit_influence(model, tokens, vocab_size=4) > 0, may)
    b, i, needed, move = find_joint_leak(model, tokens, CAUSAL, vocab_size=4, draws=64)
    assert needed == [(b, i + 1), (b, i + 2)] and move == 1
    assert "inputs" in leaking_pair(model, tokens, CAUSAL, vocab_size=4, draws=64)


def test_a_joint_leak_across_samples_is_named():
    def model(x):
        return x.cumsum(1) + F.relu(x.flip(0) - 20) * F.relu(x.flip(0).roll(1, 1) - 20)

    text = leaking_pair(model, X, CAUSAL)
    assert "output 0 of sample 0 depends on inputs 0 of sample 1 and 4 of sample 1 together" in text


def test_steps_through_python_numbers_are_found():
    def model(x):
        return x + round(x[0, -1, 0].item(), 1)

    text = leaking_pair(model, X, EYE[None, None])
    assert "output 0 of sample 0 depends on input 4 (an edit" in text


# ---- whole models


def test_the_language_model_is_causal_in_training_mode_and_its_stack_is_too():
    model = language_model(dropout=0.3)
    assert_no_leak(model, TOKENS, CAUSAL, draws=4)
    assert_no_leak(partial(model.stack, is_causal=True), X, CAUSAL, draws=4)
    assert "is the mask passed on?" in leaking_pair(model.stack, X, CAUSAL)


def test_one_layer_without_its_mask_is_enough():
    layers, forbid = encoder().eval().layers, ~CAUSAL[0, 0]

    def stack(x, forgotten):
        for i, layer in enumerate(layers):
            x = layer(x, src_mask=None if i == forgotten else forbid)
        return x

    for i in range(2):
        text = leaking_pair(partial(stack, forgotten=i), X, CAUSAL)
        assert "output 0 of sample 0 depends on input 1 " in text


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_floating_types(dtype):
    layer = ours().to(dtype)
    assert_no_leak(partial(layer, is_causal=True), X.to(dtype), CAUSAL)
    assert "output 0 of sample 0 depends on input 1 " in leaking_pair(layer, X.to(dtype), CAUSAL)


def test_inputs_with_more_axes_and_outputs_with_fewer():
    frames, ids = numbers(B, T, 3, 4), torch.arange(B * T).view(B, T)
    for model in (
        lambda x: x.cumsum(1),
        lambda x: x.cumsum(1).sum((2, 3)),  # (B, T)
        lambda x: (x.cumsum(1), "more"),
        lambda x: {"hidden": x.cumsum(1)},
    ):
        assert_no_leak(model, frames, CAUSAL)
    assert_no_leak(lambda x: x.cumsum(1), numbers(B, T), CAUSAL)
    assert_no_leak(lambda x: x.cummax(1).values, ids, CAUSAL, must_depend=False)


# ---- the model is left as it was


@pytest.mark.parametrize("raises", [False, True])
def test_modes_gradients_and_random_numbers_are_left_alone(raises):
    model = encoder()
    first, last = model.layers
    last.eval()  # a frozen part
    first.linear1.weight.requires_grad_(False)
    first.linear2.weight.grad = torch.ones(D, 16)
    modes = [m.training for m in model.modules()]
    state = {name: t.clone() for name, t in model.state_dict().items()}
    x, random = X.clone(), torch.get_rng_state()
    if raises:
        leaking_pair(model, x, CAUSAL)
    else:
        assert_no_leak(partial(model, mask=~CAUSAL[0, 0]), x, CAUSAL)
    assert [m.training for m in model.modules()] == modes and modes[0] and not modes[-1]
    assert not first.linear1.weight.requires_grad
    assert torch.equal(first.linear2.weight.grad, torch.ones(D, 16))
    assert all(p.grad is None for p in last.parameters())
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert torch.equal(x, X) and not x.requires_grad and torch.equal(random, torch.get_rng_state())


def test_a_model_that_works_in_place_changes_nothing():
    x = X.clone()
    assert_no_leak(lambda x: x.add_(1), x, EYE[None, None])
    assert "samples mix" in leaking_pair(lambda x: x.sub_(x.mean(0)), x, EYE[None, None])
    assert torch.equal(x, X)


def test_it_works_where_gradients_are_switched_off():
    layer = ours()
    for off in (torch.no_grad, torch.inference_mode):
        with off():
            assert_no_leak(partial(layer, is_causal=True), X.clone(), CAUSAL)
            assert "gradient" in leaking_pair(layer, X.clone(), CAUSAL)


# ---- bad arguments


@pytest.mark.parametrize(
    "model, inputs, allowed, error, name",
    [
        (3, X, CAUSAL, TypeError, ""),
        (lambda x: None, X, CAUSAL, TypeError, "what model returns"),
        (lambda x: x.sum(), X, CAUSAL, ValueError, "model"),
        (lambda x: x.transpose(0, 1), X, CAUSAL, ValueError, "model"),
        (lambda x: F.dropout(x, 0.5), X, CAUSAL, ValueError, "model"),
        (lambda x: x / 0, X, CAUSAL, ValueError, "model"),
        (nn.Identity(), [1.0], CAUSAL, TypeError, "inputs"),
        (nn.Identity(), X[0, 0], CAUSAL, ValueError, "inputs"),
        (nn.Identity(), X.long(), CAUSAL, ValueError, "inputs"),
        (nn.Identity(), X / 0, CAUSAL, ValueError, "inputs"),
        (nn.Identity(), torch.ones(2, 5).long(), CAUSAL, ValueError, "vocab_size"),
        (nn.Identity(), X, CAUSAL.float(), TypeError, "allowed"),
        (nn.Identity(), X, None, TypeError, "allowed"),
        (nn.Identity(), X, causal_mask(4), ValueError, "allowed"),
        (nn.Identity(), X, CAUSAL.expand(1, 3, T, T), ValueError, "allowed"),
        (nn.Identity(), numbers(T, T, D), CAUSAL[0, 0], ValueError, "allowed"),
    ],
)
def test_bad_arguments_are_named(model, inputs, allowed, error, name):
    refuses(lambda: assert_no_leak(model, inputs, allowed), error, name)


def test_gradients_of_tokens_are_refused():
    refuses(lambda: gradient_influence(nn.Identity(), TOKENS), TypeError, "inputs")


def test_what_a_model_returns_first_is_its_output():
    nested = outputs_of(lambda x: {"first": (x,), "second": x[0]}, numbers(2, 3, 4))
    assert nested.shape == (2, 3, 4)
    assert outputs_of(lambda x: x[..., None, :], numbers(2, 3, 4)).shape == (2, 3, 4)
    words = lambda: outputs_of(lambda x: ("a",), numbers(2, 3, 4))
    refuses(words, TypeError, "what model returns", "str")


def test_an_input_is_replaced_by_every_other_token_or_by_numbers_of_each_size():
    ids = torch.tensor([[3, 5, 4]])
    others = Edits(ids, 7).others(torch.tensor(5))
    assert sorted(value.item() for value, _ in others) == [0, 1, 2, 3, 4, 6]
    assert sorted(v.item() for v, _ in Edits(ids, None).others(torch.tensor(5))) == [3, 4]
    assert set(Edits(ids, None).redraw().flatten().tolist()) <= {3, 4, 5}
    x = numbers(2, 3, 4)
    (zero, _), *steps = Edits(x, None).others(x[0, 0])
    assert not zero.any() and [size for _, size in steps] == [1, 1, 100, 100, 1e4, 1e4]
    for (up, _), (down, _) in zip(steps[::2], steps[1::2]):
        torch.testing.assert_close((up + down) / 2, x[0, 0], atol=1e-2, rtol=0)
    assert Edits(x, None).redraw().shape == x.shape


# ---- noise


SMALL = {"vocab_size": 12, "length": 9, "batch": 32}


def next_token(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def same_token(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def padded_mean(model, tokens):  # half of the losses are zero, and counted
    logits, right = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    losses = F.cross_entropy(logits, right, reduction="none")
    return torch.cat([losses, torch.zeros_like(losses)])


def softmax_over_time(model, tokens):  # 8 places, so nothing keeps the loss above ln 8
    logs = model(tokens[:, :-1]).log_softmax(dim=1)  # (B, 8, V)
    return -logs.gather(2, tokens[:, 1:, None])


class NoMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = language_model()

    def forward(self, tokens):
        at = torch.arange(tokens.shape[1])
        return self.model.head(self.model.stack(self.model.embed(tokens, at), positions=at))


def test_noise_passes_the_language_model_and_leaves_it_alone():
    model, random = language_model(dropout=0.1), torch.get_rng_state()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    how = dict(vocab_size=6, steps=40, length=9, batch=32)
    test = noise_leak(model, next_token, **how)
    assert not test.leaks
    assert test.entropy == math.log(6) and test.error < 0.01 and len(test.history) == 40
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert model.training and torch.equal(random, torch.get_rng_state())
    assert test == noise_leak(model, next_token, **how)


@pytest.mark.parametrize(
    "build, loss_fn",
    [(language_model, same_token), (language_model, softmax_over_time), (NoMask, next_token)],
)
def test_noise_finds_leaks(build, loss_fn):
    assert noise_leak(build(), loss_fn, steps=200, **SMALL).leaks


def test_noise_gives_no_verdict_where_losses_are_left_out():
    with pytest.raises(ValueError, match="loss_fn: .* got .zeros"):
        noise_leak(language_model(), padded_mean, steps=5, **SMALL)


def test_noise_can_leave_out_special_tokens():
    seen = []

    def ignoring(model, tokens):
        seen.append(tokens)
        return F.cross_entropy(
            model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0
        )

    assert not noise_leak(language_model(), ignoring, vocab_size=8, first_id=4, steps=60).leaks
    assert torch.cat(seen).unique().tolist() == [*range(4, 12)]


@pytest.mark.parametrize(
    "change, error",
    [
        ({"vocab_size": 1}, ValueError),
        ({"batch": 0}, ValueError),
        ({"model": next_token}, TypeError),
        ({"model": nn.Identity()}, ValueError),
        ({"steps": True}, TypeError),
        ({"loss_fn": lambda model, tokens: 1.0}, TypeError),
        ({"loss_fn": lambda model, tokens: model(tokens).sum() * float("nan")}, ValueError),
    ],
)
def test_bad_arguments_of_the_noise_meter_are_refused(change, error):
    how = dict(model=language_model(), loss_fn=next_token, vocab_size=6, steps=1)
    with pytest.raises(error):
        noise_leak(**how | change)


def test_a_leak_is_five_standard_errors_below_the_entropy():
    assert NoiseTest(1.0, 2.0, 0.01, []).leaks and not NoiseTest(2.0, 2.0, 0.01, []).leaks
    assert not NoiseTest(1.96, 2.0, 0.01, []).leaks and NoiseTest(1.94, 2.0, 0.01, []).leaks
