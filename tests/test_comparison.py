"""`same` on pairs that were broken on purpose, each with the part that it has to name, and on pairs
that compute the same."""

import copy
import os

import pytest
import torch
from model_tools import loud
from torch import nn
from torch.nn import functional as F

from former_nb import same
from former_nb.attention.fused import attention
from former_nb.decoding.caches import KVCache
from former_nb.decoding.fast_copy import Int8Product, fast_copy
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import EncoderDecoder, LanguageModel
from former_nb.saving.hugging_face import from_hugging_face

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
transformers = pytest.importorskip("transformers")

TOKENS = torch.randint(4, 30, (3, 9), generator=torch.Generator().manual_seed(0))
SIZES = dict(d_model=32, n_heads=4, n_layers=3, d_ff=48)
WIDTH = dict(vocab_size=30, hidden_size=32, num_hidden_layers=3, num_attention_heads=4)
WIDTH |= dict(intermediate_size=48, max_position_embeddings=40)
ENDS = dict(bos_token_id=1, eos_token_id=2)


def ours(**choices):
    return loud(LanguageModel.from_config(TransformerConfig(30, 60, **SIZES | choices)))


def gpt2(seed=0, **choices):
    sizes = dict(vocab_size=30, n_positions=40, n_embd=32, n_layer=3, n_head=4) | choices
    return loud(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ENDS)), seed)


def llama(seed=0, **choices):
    config = transformers.LlamaConfig(**WIDTH | choices, num_key_value_heads=2, **ENDS)
    return loud(transformers.LlamaForCausalLM(config), seed)


def bert(seed=0):
    config = transformers.BertConfig(**WIDTH, num_labels=3)
    return loud(transformers.BertForSequenceClassification(config), seed)


def changed(model, change):
    other = copy.deepcopy(model)
    with torch.no_grad():
        change(other)
    return other


def block(model, i=1):
    return model.stack.blocks[i]


def with_config(model, **changes):
    "The same weights in a model of another configuration."
    config = copy.deepcopy(model.config)
    for name, value in changes.items():
        setattr(config, name, value)
    other = type(model)(config).eval()
    other.load_state_dict(model.state_dict())
    return other


class OwnAttention(nn.Module):
    "Attention as a reader might write it, with or without a mistake."

    def __init__(self, layer, mistake=None):
        super().__init__()
        self.layer, self.mistake = layer, mistake

    def split(self, x):  # (B, T, d_model) -> (B, h, T, d_k)
        if self.mistake == "heads":
            return x.unflatten(-1, (self.layer.d_k, -1)).permute(0, 3, 1, 2)
        return x.unflatten(-1, (-1, self.layer.d_k)).transpose(1, 2)

    def forward(self, x, mask=None, is_causal=False, attend=attention, **others):
        layer, T = self.layer, x.shape[1]
        q, k, v = (self.split(w(x)) for w in (layer.w_q, layer.w_k, layer.w_v))
        if self.mistake == "no scale":
            q = q * layer.d_k**0.5
        diagonal = {"looks ahead": 1, "too strict": -1}.get(self.mistake, 0)
        allowed = torch.ones(T, T, dtype=torch.bool).tril(diagonal)
        if self.mistake == "too strict":
            allowed[0, 0] = True
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / layer.d_k**0.5
        weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bhid", weights, v)
        return layer.w_o(y.transpose(1, 2).flatten(2))


def own_attention(mistake=None):
    def change(model):
        block = model.stack.blocks[1]
        block.attention = OwnAttention(block.attention, mistake)

    return change


def transpose(layer):
    layer.weight.copy_(layer.weight.T.clone())


def interleave(model):
    "Rows of q and k in the layout of Meta's files: pairs side by side."
    for layer in model.model.layers:
        for w in (layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight):
            w.copy_(w.unflatten(0, (-1, 2, 4)).transpose(1, 2).reshape(w.shape).clone())


def swap_gate(model):
    mlp = model.model.layers[1].mlp
    mlp.gate_proj, mlp.up_proj = mlp.up_proj, mlp.gate_proj


def add_bias(layer):
    layer.bias = nn.Parameter(torch.ones(layer.weight.shape[0]))


OURS = {  # what was broken in a model of ours -> change, part, words of the reason
    "w_q without bias": (
        lambda m: setattr(block(m).attention.w_q, "bias", None),
        *("q, k, v of attention 2", "a bias"),
    ),
    "w_v with another bias": (
        lambda m: block(m).attention.w_v.bias.add_(0.1),
        *("q, k, v of attention 2", "a bias"),
    ),
    "w_out without bias": (
        lambda m: setattr(block(m, 2).ff.w_out, "bias", None),
        *("the second product of network 3", "a bias"),
    ),
    "w_in without bias": (
        lambda m: setattr(block(m, 0).ff.w_in, "bias", None),
        *("the first product of network 1", "a bias"),
    ),
    "w_o transposed": (
        lambda m: transpose(block(m, 0).attention.w_o),
        *("the output of attention 1", "w_o is transposed"),
    ),
    "w_k transposed": (
        lambda m: transpose(block(m).attention.w_k),
        *("q, k, v of attention 2", "w_k is transposed"),
    ),
    "the weight of w_k in w_q": (
        lambda m: block(m).attention.w_q.weight.copy_(block(m).attention.w_k.weight),
        *("q, k, v of attention 2", "32 of 32 features of stack.blocks.1.attention.w_q"),
    ),
    "one weight of w_v": (
        lambda m: block(m).attention.w_v.weight[3, 4].add_(0.01),
        *("q, k, v of attention 2", "1 of 32 features of stack.blocks.1.attention.w_v"),
    ),
    "w_in halved": (
        lambda m: (block(m).ff.w_in.weight.mul_(0.5), block(m).ff.w_in.bias.mul_(0.5)),
        *("the first product of network 2", "0.5 times as large"),
    ),
    "eps": (
        lambda m: setattr(block(m).norm_ff, "eps", 1e-3),
        *("what enters network 2", "another eps of the norm: 1e-05 in the model, 0.001"),
    ),
    "a weight of the last norm": (
        lambda m: m.stack.norm.weight[3].mul_(1.1),
        *("what enters the head", "the weight of a norm"),
    ),
    "bias of a norm": (
        lambda m: block(m).norm_attention.bias.add_(0.1),
        *("what enters attention 2", "a bias"),
    ),
    "ReLU for GELU": (
        lambda m: setattr(block(m, 0).ff, "activation", F.relu),
        *("the activation of network 1", "GELU in the model, ReLU in the other"),
    ),
    "GELU by tanh": (
        lambda m: setattr(block(m, 2).ff, "activation", nn.GELU("tanh")),
        *("the activation of network 3", "GELU in the model, GELU by tanh in the other"),
    ),
    "the last block left out": (
        lambda m: m.stack.blocks.__delitem__(2),
        *("what enters the head", "a part without a partner"),
    ),
    "two blocks exchanged": (
        lambda m: m.stack.blocks.insert(0, m.stack.blocks.pop(1)),
        *("what enters attention 1", "norm"),
    ),
    "the vector of a token": (
        lambda m: m.embed.tokens.weight[TOKENS[0, 3], 5].add_(0.1),
        *("the embedding", f"the vector of token {TOKENS[0, 3].item()}"),
    ),
    "heads interleaved": (
        own_attention("heads"),
        *("what attention 2 computes from q, k, v", "how heads are split"),
    ),
    "a mask that looks ahead": (
        own_attention("looks ahead"),
        *("what attention 2 computes from q, k, v", "a mask: the last position agrees"),
    ),
    "a mask that hides the token itself": (
        own_attention("too strict"),
        *("what attention 2 computes from q, k, v", "or a mask: the first position agrees"),
    ),
    "no scale": (
        own_attention("no scale"),
        *("what attention 2 computes from q, k, v", "scale"),
    ),
}
THEIRS = {  # in a model of Hugging Face, against ours with its weights
    "GPT-2, bias of c_attn's v": (
        *(gpt2, lambda m: m.transformer.h[1].attn.c_attn.bias[64:].zero_()),
        *("q, k, v of attention 2", "32 of 32 features of stack.blocks.1.attention.w_v"),
    ),
    "GPT-2, c_proj transposed": (
        *(gpt2, lambda m: transpose(m.transformer.h[0].attn.c_proj)),
        *("the output of attention 1", "is transposed"),
    ),
    "GPT-2, eps": (
        *(gpt2, lambda m: setattr(m.transformer.h[1].ln_2, "eps", 1e-3)),
        *("what enters network 2", "0.001 in the other"),
    ),
    "GPT-2, one token": (
        *(gpt2, lambda m: m.transformer.wte.weight[TOKENS[0, 3], 5].add_(0.1)),
        *("the embedding", "the vector of token"),
    ),
    "GPT-2, weight of ln_f": (
        *(gpt2, lambda m: m.transformer.ln_f.weight[3].mul_(1.1)),
        *("what enters the head", "the weight of a norm"),
    ),
    "Llama, q and k in Meta's layout": (
        *(llama, interleave, "q, k, v of attention 1", "in another order"),
    ),
    "Llama, gate and up exchanged": (
        *(llama, swap_gate, "the first product of network 2", "in another order"),
    ),
    "Llama, one weight of up_proj": (
        *(llama, lambda m: m.model.layers[1].mlp.up_proj.weight[5, 7].add_(0.01)),
        *("the first product of network 2", "1 of 48 features of stack.blocks.1.ff.w_in"),
    ),
    "Llama, a bias more": (
        *(llama, lambda m: add_bias(m.model.layers[0].self_attn.o_proj)),
        *("the output of attention 1", "a bias"),
    ),
    "BERT, bias of the query": (
        *(bert, lambda m: m.bert.encoder.layer[1].attention.self.query.bias.zero_()),
        *("q, k, v of attention 2", "a bias"),
    ),
    "BERT, bias of a norm": (
        *(bert, lambda m: m.bert.encoder.layer[1].attention.output.LayerNorm.bias[3].add_(0.1)),
        *("what enters network 2", "a bias"),
    ),
}
SETTINGS = {  # of Llama -> what is changed, part, words of the reason
    "the base of the angles": (
        dict(rope_parameters=dict(rope_type="default", rope_theta=50000.0)),
        *("what attention 1 computes from q, k, v", "positions"),
    ),
    "eps of all norms": (
        dict(rms_norm_eps=1e-3),
        *("what enters attention 1", "another eps of the norm: 1e-06 in the model, 0.001"),
    ),
}


def assert_named(found, place, reason, name):
    print(f"\n-- {name}\n{found}")
    assert not found
    assert found.place == place and reason in found.reason
    assert found.error_there > 10 * found.rounding_there


@pytest.mark.parametrize("name", OURS)
def test_a_broken_model_of_ours(name):
    change, place, reason = OURS[name]
    model = ours()
    assert_named(same(model, changed(model, change), TOKENS), place, reason, name)


@pytest.mark.parametrize("name", THEIRS)
def test_a_broken_model_of_theirs(name):
    make, change, place, reason = THEIRS[name]
    theirs = make()
    found = same(from_hugging_face(theirs), changed(theirs, change), TOKENS)
    assert_named(found, place, reason, name)


@pytest.mark.parametrize("name", SETTINGS)
def test_another_setting(name):
    settings, place, reason = SETTINGS[name]
    theirs = llama()
    found = same(from_hugging_face(theirs), with_config(theirs, **settings), TOKENS)
    assert_named(found, place, reason, name)


def test_a_mistake_is_not_hidden_by_bfloat16():
    model = ours()
    other = changed(model.bfloat16(), lambda m: setattr(block(m).attention.w_q, "bias", None))
    assert_named(same(ours(), other, TOKENS), "q, k, v of attention 2", "a bias", "bfloat16")


def test_angles_in_bfloat16_are_found_though_the_outputs_are_within_its_rounding():
    model = from_hugging_face(llama())
    other = llama().bfloat16()  # rounds the table of angles as well
    found = same(model, other, TOKENS)
    assert_named(found, "what attention 1 computes from q, k, v", "positions", "bfloat16")
    assert found.error < 10 * found.rounding and found.in_float32[0] > 10 * found.in_float32[1]


def test_a_translator_with_a_bias_less_in_its_decoder():
    model = translator()
    other = changed(model, lambda m: m.decoder.blocks[1].cross.w_o.bias.zero_())
    found = same(model, other, (TOKENS, TOKENS[:, :6]))
    print(found)
    assert not found and "a bias" in found.reason
    assert found.names == ("decoder.blocks.1.cross.w_o",) * 2


def test_outputs_of_other_shapes():
    small = LanguageModel.from_config(TransformerConfig(25, 60, **SIZES))
    found = same(ours(), small, TOKENS % 25)
    assert not found and found.place == "the output"
    assert found.reason == "outputs of other shapes, (27, 30) and (27, 25)"


# ---- pairs that compute the same


def translator():
    return loud(EncoderDecoder.from_config(TransformerConfig(30, 40, **SIZES)))


def permuted(model):
    "The units of each network in another order: the second product adds in another order."
    for layer in model.stack.blocks:
        order = torch.randperm(48, generator=torch.Generator().manual_seed(1))
        layer.ff.w_in.weight.copy_(layer.ff.w_in.weight[order])
        layer.ff.w_in.bias.copy_(layer.ff.w_in.bias[order])
        layer.ff.w_out.weight.copy_(layer.ff.w_out.weight[:, order])


def of_pytorch(layer):
    "PyTorch's layer with the weights of a block of ours."
    theirs = nn.TransformerEncoderLayer(32, 4, 48, 0.0, F.gelu, batch_first=True, norm_first=True)
    own = layer.attention
    with torch.no_grad():
        pieces = (own.w_q, own.w_k, own.w_v)
        theirs.self_attn.in_proj_weight.copy_(torch.cat([piece.weight for piece in pieces]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([piece.bias for piece in pieces]))
    pairs = [(theirs.self_attn.out_proj, own.w_o), (theirs.linear1, layer.ff.w_in)]
    pairs += [(theirs.linear2, layer.ff.w_out), (theirs.norm1, layer.norm_attention)]
    for to, of in [*pairs, (theirs.norm2, layer.norm_ff)]:
        to.load_state_dict(of.state_dict())
    return theirs.eval()


def token_by_token(step):
    "The logits of each token, written out with a cache."

    def read(tokens):
        cache = KVCache(3)
        pieces = [
            step(piece, cache, torch.tensor([i])) for i, piece in enumerate(tokens.split(1, dim=1))
        ]
        return torch.cat(pieces, dim=1)

    return read


def with_weights_in(model, dtype=torch.bfloat16):
    "As a folder of that type is loaded: the table of rotary angles stays in float32."
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    return model


def eager(model):
    other = copy.deepcopy(model)
    other.set_attn_implementation("eager")
    return other


EQUAL = {
    "itself": lambda seed: (ours(), ours()),
    "GPT-2": lambda seed: (from_hugging_face(gpt2(seed)), gpt2(seed)),
    "GPT-2, the other way": lambda seed: (gpt2(seed), from_hugging_face(gpt2(seed))),
    "GPT-2, one wide layer": lambda seed: (
        from_hugging_face(gpt2(seed, n_layer=1, n_embd=96)),
        gpt2(seed, n_layer=1, n_embd=96),
    ),
    "GPT-2, bfloat16": lambda seed: (from_hugging_face(gpt2(seed)), gpt2(seed).bfloat16()),
    "GPT-2, float16": lambda seed: (from_hugging_face(gpt2(seed)), gpt2(seed).half()),
    "GPT-2, float64": lambda seed: (from_hugging_face(gpt2(seed)).double(), gpt2(seed).double()),
    "Llama": lambda seed: (from_hugging_face(llama(seed)), llama(seed)),
    "Llama, eager": lambda seed: (from_hugging_face(llama(seed)), eager(llama(seed))),
    "Llama, five layers": lambda seed: (
        from_hugging_face(llama(seed, num_hidden_layers=5)),
        llama(seed, num_hidden_layers=5),
    ),
    "Llama, bfloat16": lambda seed: (from_hugging_face(llama(seed)), with_weights_in(llama(seed))),
    "BERT": lambda seed: (from_hugging_face(bert(seed)), bert(seed)),
    "BERT, bfloat16": lambda seed: (from_hugging_face(bert(seed)), bert(seed).bfloat16()),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", EQUAL)
def test_pairs_that_compute_the_same(name, seed):
    tokens = torch.randint(4, 30, (2 + seed, 11), generator=torch.Generator().manual_seed(seed))
    found = same(*EQUAL[name](seed), tokens)
    print(f" {found.error / max(found.rounding, 1e-7):.2f} times the rounding")
    assert found and not found.place, found


def test_the_same_in_other_forms():
    model = ours()
    pairs = {
        "einsum for the fused kernel": changed(model, own_attention()),
        "another order of sums": changed(model, permuted),
        "compiled": torch.compile(model, backend="aot_eager"),
        "bfloat16": copy.deepcopy(model).bfloat16(),
        "a function": lambda tokens: model(tokens),
        "a fast copy": token_by_token(fast_copy(model)),
    }
    for name, other in pairs.items():
        found = same(model, other, TOKENS)
        print(f"\n-- {name}\n{found}")
        assert found and not found.place, name
    assert same(translator(), translator(), (TOKENS, TOKENS[:, :6]))
    assert same(model, model, dict(tokens=TOKENS))


def test_pytorchs_layer():
    model = block(ours())
    x = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
    theirs = of_pytorch(model)
    found = same(model, theirs, x)
    assert found and not found.place and "4 parts of 4 and 4" in found.compared
    with torch.no_grad():
        theirs.self_attn.in_proj_bias[:32] = 0
    assert_named(same(model, theirs, x), "q, k, v of attention 1", "a bias", "PyTorch's layer")


def test_a_part_without_effect_is_said():
    model = ours()
    other = changed(model, lambda m: block(m).attention.w_k.bias.zero_())  # softmax cancels it
    found = same(model, other, TOKENS)
    assert found and found.place == "q, k, v of attention 2" and "without effect" in str(found)


def test_eight_bits():
    model = ours()
    step = token_by_token(fast_copy(model, Int8Product))
    found, allowed = same(model, step, TOKENS), same(model, step, TOKENS, bits=8)
    print(f"\n{found}\n{allowed}")
    assert not found and allowed
    assert found.error == allowed.error and allowed.rounding > 100 * found.rounding
    wrong = changed(model, lambda m: setattr(block(m).attention.w_v, "bias", None))
    assert not same(model, token_by_token(fast_copy(wrong, Int8Product)), TOKENS, bits=8)


def test_what_is_given_stays_as_it_was():
    model, other = ours().train(), ours().bfloat16()
    before = copy.deepcopy(model.state_dict())
    same(model, other, TOKENS)
    assert model.training and next(other.parameters()).dtype == torch.bfloat16
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("gpt2", len, TOKENS), "model: expected Module, got str"),
        ((nn.Identity(), 3, TOKENS), "other: expected a module or a function, got 'int'"),
        ((nn.Identity(), len, "text"), "inputs: expected a tensor, or a tuple or dict"),
        ((nn.Identity(), len, TOKENS, None, 1), "bits: expected"),
    ],
)
def test_what_is_refused(arguments, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        same(*arguments)
