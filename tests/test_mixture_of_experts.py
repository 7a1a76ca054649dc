"""A mixture of experts: equal to its sources on random weights, to a loop over tokens, and a model
that trains, saves and loads."""

import pytest
import torch
from refusals import counts, every_row, n, words
from torch import nn
from torch.testing import assert_close

from former_nb.data.text import IGNORE
from former_nb.data.tokenization import CharTokenizer
from former_nb.models.config import TransformerConfig
from former_nb.models.mixture_of_experts import (
    MixtureLanguageModel,
    MixtureOfExperts,
    balance_loss,
    expert_shares,
    record_routing,
    with_balance,
)
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model, save_model
from former_nb.training.fitting import fit
from former_nb.training.losses import batch_loss
from former_nb.training.training_config import TrainingConfig

N_EXPERTS, D, D_FF = 5, 12, 7
CONFIG = TransformerConfig(11, 9, 8, 2, 2, d_ff=6, dropout=0.0)


def random_weights(module):
    generator = torch.Generator().manual_seed(1)
    for weight in module.parameters():
        weight.data = 0.5 * torch.randn(weight.shape, generator=generator)
    return module


def theirs(name, top_k):
    "A sparse block of transformers with random weights, in float64."
    reason = "transformers, with which the mixture is compared, is not installed"
    transformers = pytest.importorskip("transformers", reason=reason)
    sizes = {
        "Mixtral": dict(num_local_experts=N_EXPERTS, intermediate_size=D_FF),
        "Qwen3Moe": dict(num_experts=N_EXPERTS, moe_intermediate_size=D_FF, norm_topk_prob=True),
    }[name]
    folder = {"Mixtral": "mixtral", "Qwen3Moe": "qwen3_moe"}[name]
    module = getattr(getattr(transformers.models, folder), f"modeling_{folder}")
    heads = dict(num_attention_heads=3, num_key_value_heads=3)
    config = getattr(transformers, f"{name}Config")(
        hidden_size=D, num_experts_per_tok=top_k, **heads, **sizes
    )
    config._experts_implementation = "eager"
    return random_weights(getattr(module, f"{name}SparseMoeBlock")(config)).double().eval()


def same_weights(block, top_k):
    "Our mixture with the weights of a block of transformers; its biases are zero."
    ours = MixtureOfExperts(D, D_FF, N_EXPERTS, top_k, activation="swiglu").double()
    ours.router.weight.data.copy_(block.gate.weight)
    for i, expert in enumerate(ours.experts):
        gate, up = block.experts.gate_up_proj[i].chunk(2)
        down = block.experts.down_proj[i]
        for linear, weight in [(expert.w_gate, gate), (expert.w_in, up), (expert.w_out, down)]:
            linear.weight.data.copy_(weight)
            nn.init.zeros_(linear.bias)
    return ours


@pytest.mark.parametrize("top_k", [1, 2, 5])
@pytest.mark.parametrize("name", ["Mixtral", "Qwen3Moe"])
def test_the_mixture_is_that_of_mixtral_and_of_qwen(name, top_k):
    "Outputs and all gradients, up to the float32 in which transformers computes its softmax."
    block = theirs(name, top_k)
    ours = same_weights(block, top_k)
    mine = n(3, 4, D, dtype=torch.float64).requires_grad_()
    his = mine.detach().clone().requires_grad_()
    a, b = ours(mine), block(his)
    assert_close(a, b, atol=1e-6, rtol=1e-6)
    a.square().sum().backward()
    b.square().sum().backward()
    close = dict(atol=1e-4, rtol=1e-4)
    assert_close(mine.grad, his.grad, **close)
    assert_close(ours.router.weight.grad, block.gate.weight.grad, **close)
    for i, expert in enumerate(ours.experts):
        both = torch.cat([expert.w_gate.weight.grad, expert.w_in.weight.grad])
        assert_close(both, block.experts.gate_up_proj.grad[i], **close)
        assert_close(expert.w_out.weight.grad, block.experts.down_proj.grad[i], **close)


@pytest.mark.parametrize("top_k", [1, 2, 4])
def test_the_balance_of_one_layer_is_that_of_transformers(top_k):
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    logits = n(30, N_EXPERTS).requires_grad_()
    ours = balance_loss(logits, top_k)
    want = load_balancing_loss_func((logits,), N_EXPERTS, top_k)
    assert_close(ours, want)
    assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (ours, want)))


def test_over_several_layers_transformers_lets_one_make_up_for_another():
    pytest.importorskip("transformers", reason="transformers is not installed")
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    first = torch.tensor([[9.0, 0.0]]).expand(8, 2)  # all to expert 0, and all to expert 1
    second = first.flip(1)
    assert_close(load_balancing_loss_func((first, second), 2, 1), torch.tensor(1.0))
    assert balance_loss(first, 1) > 1.99 and balance_loss(second, 1) > 1.99


@pytest.mark.parametrize("top_k", [1, 3])
def test_the_mixture_is_the_sum_over_a_loop_of_tokens(top_k):
    layer = random_weights(MixtureOfExperts(D, D_FF, N_EXPERTS, top_k))
    x = n(2, 6, D)
    y = layer(x)
    for b in range(2):
        for t in range(6):
            logits = layer.router(x[b, t])
            chosen = logits.argsort(descending=True)[:top_k]
            weights = logits.exp() / logits[chosen].exp().sum()
            want = sum(weights[i] * layer.experts[i](x[b, t]) for i in chosen)
            assert_close(y[b, t], want, atol=1e-5, rtol=1e-4)


def test_one_expert_is_a_feed_forward_network():
    layer = random_weights(MixtureOfExperts(D, D_FF, 1, 1))
    x = n(2, 6, D)
    assert_close(layer(x), layer.experts[0](x))


def test_an_expert_without_tokens_has_a_gradient_of_zeros():
    layer = MixtureOfExperts(D, D_FF, 3, 1)
    nn.init.zeros_(layer.router.weight)
    layer.router.weight.data[0] = 1
    layer(torch.ones(1, 4, D)).sum().backward()
    assert layer.experts[0].w_in.weight.grad.any()
    assert not layer.experts[2].w_in.weight.grad.any()


def test_autocast_and_no_tokens_are_taken():
    layer = MixtureOfExperts(D, D_FF, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(n(2, 5, D)).isfinite().all()
    assert layer(n(2, 0, D)).shape == (2, 0, D)


def test_shares_and_balance_are_even_or_not():
    even = 20 * torch.eye(4).repeat(3, 1)
    assert_close(expert_shares(even, 1), torch.full((4,), 0.25))
    assert_close(balance_loss(even, 1), torch.tensor(1.0))
    one = torch.tensor([[20.0, 0, 0, 0]]).expand(6, 4)
    assert_close(balance_loss(one, 1), torch.tensor(4.0), atol=1e-4, rtol=0)
    assert expert_shares(n(9, 4), 2).sum() == 2


def batch():
    tokens = torch.randint(4, 11, (3, 7), generator=torch.Generator().manual_seed(0))
    targets = tokens.roll(-1, dims=1)
    targets[1, 4:] = IGNORE
    return tokens, targets


def test_the_balance_is_added_and_pads_do_not_count():
    torch.manual_seed(0)
    model = MixtureLanguageModel(CONFIG, n_experts=4)
    tokens, targets = batch()
    plain = batch_loss(model, (tokens, targets))
    with record_routing(model) as routing:
        model(tokens)
    assert [k for _, k in routing] == [2, 2]
    counted = [balance_loss(logits[targets != IGNORE], 2) for logits, _ in routing]
    want = plain + 0.5 * sum(counted) / 2
    assert_close(with_balance(batch_loss, 0.5)(model, (tokens, targets)), want)
    assert not any(part._forward_hooks for part in model.modules())


def test_a_recorder_is_gone_after_an_error():
    model = MixtureLanguageModel(CONFIG, n_experts=4)
    with pytest.raises(RuntimeError), record_routing(model):
        raise RuntimeError
    assert not any(part._forward_hooks for part in model.modules())


def test_training_balances_what_was_uneven():
    torch.manual_seed(0)
    model = MixtureLanguageModel(CONFIG, n_experts=4, top_k=1)
    for block in model.stack.blocks:
        block.norm_ff.bias.data.fill_(1)  # a constant that sends all tokens to one expert
        nn.init.zeros_(block.ff.router.weight)
        block.ff.router.weight.data[0] = 0.05
    tokens, targets = batch()

    def largest():
        with record_routing(model) as routing, torch.no_grad():
            model(tokens)
        return max(expert_shares(z.flatten(0, 1), k).max().item() for z, k in routing)

    assert largest() > 0.6
    plan = TrainingConfig(steps=60, lr=3e-2, muon_lr=None)
    rows = [(tokens, targets)]
    fit(model, rows, rows, plan, loss=with_balance(batch_loss, 3.0), device="cpu", progress=False)
    assert largest() < 0.6


def test_a_model_with_mixtures_is_saved_and_loaded(tmp_path):
    model = random_weights(MixtureLanguageModel(CONFIG, n_experts=3, top_k=1)).eval()
    save_model(tmp_path / "model", model, CharTokenizer("abcdefg"))
    again = load_model(tmp_path / "model").model
    tokens, _ = batch()
    assert isinstance(again, MixtureLanguageModel)
    assert_close(again(tokens), model(tokens))
    assert len(again.stack.blocks[1].ff.experts) == 3 and again.stack.blocks[0].ff.top_k == 1


def test_what_an_expert_writes_starts_as_small_as_in_a_dense_block():
    torch.manual_seed(0)
    config = TransformerConfig(11, 9, 64, 4, 2, d_ff=64)
    dense = LanguageModel.from_config(config).stack.blocks[0].ff
    for expert in MixtureLanguageModel(config).stack.blocks[0].ff.experts:
        assert_close(expert.w_out.weight.std(), dense.w_out.weight.std(), atol=0, rtol=0.1)
        assert_close(expert.w_in.weight.std(), dense.w_in.weight.std(), atol=0, rtol=0.1)
        assert not expert.w_in.bias.any()


# ---------------------------------------------------------------- bad input


TABLE = {
    "MixtureOfExperts": [
        *counts("d_ff", lambda d: MixtureOfExperts(12, d, 3)),
        *counts("n_experts", lambda e: MixtureOfExperts(12, 8, e, 1)),
        *counts("top_k", lambda k: MixtureOfExperts(12, 8, 3, k)),
        ("more chosen than there are", lambda: MixtureOfExperts(12, 8, 3, 4), ValueError, "top_k"),
        ("dropout of 1", lambda: MixtureOfExperts(12, 8, 3, dropout=1.0), ValueError, "dropout"),
        (
            "an activation that is none",
            lambda: MixtureOfExperts(12, 8, 3, activation="step"),
            ValueError,
            "activation",
        ),
        *words(MixtureOfExperts(12, 8, 3)),
    ],
    "expert_shares": [
        ("logits of rank 3", lambda: expert_shares(n(2, 3, 4), 1), ValueError, "logits"),
        ("more chosen than there are", lambda: expert_shares(n(3, 4), 5), ValueError, "top_k"),
    ],
    "balance_loss": [
        ("logits of rank 1", lambda: balance_loss(n(4), 1), ValueError, "logits"),
        ("no token", lambda: balance_loss(n(0, 4), 1), lambda loss: loss == 0),
        ("nothing chosen", lambda: balance_loss(n(3, 4), 0), ValueError, "top_k"),
    ],
    "record_routing": [
        (
            "a model without a mixture",
            lambda: record_routing(LanguageModel.from_config(CONFIG)).__enter__(),
            ValueError,
            "model",
        ),
    ],
    "with_balance": [
        ("no function", lambda: with_balance(3), TypeError, "loss"),
        ("a weight below 0", lambda: with_balance(batch_loss, -1), ValueError, "weight"),
    ],
    "MixtureLanguageModel": [
        *counts("n_experts", lambda e: MixtureLanguageModel(CONFIG, e, 1)),
        (
            "more chosen than there are",
            lambda: MixtureLanguageModel(CONFIG, 2, 3),
            ValueError,
            "top_k",
        ),
    ],
}


test_bad_input_gets_one_sentence = every_row(TABLE)
