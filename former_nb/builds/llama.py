"""The numbers of a Llama-shaped checkpoint, and what the likely mistakes make of them.

It is written to be right and to be wrong on purpose: each mistake is a name, and `MISTAKES` has a
sentence for it. Small random checkpoints are written here, too, as Hugging Face's library does.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import torch as safetensors

from ..base.files import read_json

__all__ = ["MISTAKES", "Llama", "greedy", "SIZES", "write_checkpoint", "read_checkpoint"]

# ---------------------------------------------------------------- the likely mistakes

MISTAKES = {  # name -> what to say about it; the first that fits is said
    # embeddings, head, layers
    "embeddings scaled": "the embeddings are multiplied by √hidden_size; Llama takes them as they "
    "are",
    "head is embedding": "the head is the embedding, but tie_word_embeddings is false here; take "
    "lm_head.weight",
    "first layer again": "each layer has the weights of layer 0; N in model.layers.N counts",
    "last layer left out": "the last layer is missing; there are num_hidden_layers",
    "three layers": "three layers are computed, as many as the shipped model has; take "
    "num_hidden_layers",
    "layers as strings": "the layers are sorted as text, and 'layers.10' comes before 'layers.2'; "
    "count with range(num_hidden_layers)",
    "layers backwards": "the layers run from the last to the first",
    # norms
    "no last norm": "the last norm, model.norm.weight, is missing",
    "mean subtracted": "the mean is subtracted, as in LayerNorm; RMSNorm only divides",
    "no eps": "rms_norm_eps is not added",
    "eps outside": "eps is added outside of the root; add it to the mean of the squares, then take "
    "the root",
    "eps 1e-5": "eps is 1e-5, whatever config.json says; take rms_norm_eps",
    "eps 1e-6": "eps is 1e-6, whatever config.json says; take rms_norm_eps",
    "eps 1e-8": "eps is 1e-8, whatever config.json says; take rms_norm_eps",
    "eps of PyTorch": "eps is that of nn.RMSNorm if you name none; take rms_norm_eps",
    "squares summed": "the squares are summed; take their mean",
    "no root": "the root is missing in the norm",
    "norm without weight": "the weights of the norms are not used",
    "weight plus 1": "1 is added to the weights of the norms; that is Gemma's, not Llama's",
    "norm over tokens": "the norm runs over the tokens; it's one position's hidden_size numbers",
    "norms after sums": "the norms come after the sums; norm what goes into a part, and add what "
    "it gives to the stream",
    "norms on outputs": "you norm what a part gives; norm what goes into it",
    "stream normed": "the stream itself is normed; norm only what goes into the part",
    "attention added to norm": "what the attention gives is added to the normed stream; add it to "
    "the stream itself",
    "network added to norm": "what the network gives is added to the normed stream; add it to the "
    "stream itself",
    "norms exchanged": "the two norms of a layer are exchanged; input_layernorm is before the "
    "attention, post_attention_layernorm before the network",
    "first norm twice": "both parts read input_layernorm; the network has post_attention_layernorm",
    "second norm twice": "both parts read post_attention_layernorm; the attention has "
    "input_layernorm",
    "attention without norm": "the attention lacks its norm, input_layernorm",
    "network without norm": "the network lacks its norm, post_attention_layernorm",
    # sums
    "attention not added": "what the attention gives is not added to the stream",
    "network not added": "what the network gives is not added to the stream",
    "both read x": "both parts read x; the network reads the stream after the attention",
    "sum from the old x": "the second sum starts from the old x; add to the stream that the "
    "attention has changed",
    # network
    "gate and up exchanged": "gate_proj and up_proj are exchanged; SiLU is taken of gate_proj",
    "gelu": "the activation is GELU; Llama's is SiLU",
    "gelu by tanh": "the activation is GELU by tanh; Llama's is SiLU",
    "relu": "the activation is ReLU; Llama's is SiLU",
    "sigmoid": "the gate is a sigmoid; SiLU is x · sigmoid(x)",
    "no activation": "the activation is missing; SiLU is taken of gate_proj",
    "silu of the product": "SiLU is taken of the product; take it of gate_proj, then multiply",
    "no up": "up_proj is not used; the network is down_proj(SiLU(gate_proj(x)) · up_proj(x))",
    "no gate": "gate_proj is not used; the network is down_proj(SiLU(gate_proj(x)) · up_proj(x))",
    "gate added": "gate and up are added; multiply them",
    # positions
    "neighbours turned": "the rotary pairs are neighbours, 0 and 1, 2 and 3; here number i goes "
    "with number i + head_dim / 2",
    "angles of neighbours": "cos and sin are ordered for neighbours, and the pairs are halves; "
    "repeat the angles with cat, not repeat_interleave",
    "angles of halves": "cos and sin are ordered for halves, and the pairs are neighbours; here "
    "number i goes with number i + head_dim / 2",
    "not turned": "queries and keys are not turned; there are no positions",
    "only queries turned": "only the queries are turned; turn the keys as well",
    "only keys turned": "only the keys are turned; turn the queries as well",
    "values turned": "the values are turned, too; turn queries and keys alone",
    "base 10000": "the base of the angles is 10,000, whatever config.json says; take rope_theta",
    "positions from 1": "positions begin with 1; the first is 0",
    "first sign": "the first half becomes a · cos - b · sin; its sign is wrong",
    "second sign": "the second half becomes b · cos + a · sin; its sign is wrong",
    "turned back": "queries and keys are turned the other way round; the first half becomes "
    "a · cos - b · sin, the second b · cos + a · sin",
    "exponents halved": "the exponents of the base are i / head_dim; pair i has 2i / head_dim",
    "exponents doubled": "the exponents of the base are 4i / head_dim; pair i has 2i / head_dim",
    "exponents by width": "the exponents of the base are divided by hidden_size; it's head_dim",
    "turned before the split": "queries and keys are turned before they are cut into heads; each "
    "head is turned by itself",
    # attention
    "no scale": "the scores are not divided by √head_dim",
    "divided by d_k": "you divide by head_dim; it's the root",
    "divided by the width": "you divide by √hidden_size; a dot product has head_dim terms",
    "divided by a share": "you divide by √(hidden_size / num_attention_heads); config.json names "
    "head_dim",
    "multiplied": "you multiply by √head_dim; divide",
    "no causal mask": "no causal mask: a token attends to later ones",
    "mask turned": "the mask is turned round: a token attends to itself and to later ones",
    "mask after softmax": "the future is hidden after the softmax, so that rows no longer sum to "
    "1; hide the scores",
    "future scores 0": "a hidden score becomes 0, and e^0 is 1; fill it with -inf",
    "one token too many": "a token attends to the next one, too; the diagonal is the last",
    "softmax over queries": "the softmax runs over the queries; the keys are the last axis",
    "heads repeated": "the heads of keys and values are repeated as a row, 0 1 0 1 0 1; heads 0, 1 "
    "and 2 of the queries share head 0 (repeat_interleave, not repeat)",
    "first head for all": "all heads of the queries share the first head of keys and values",
    "heads not transposed": "the heads are cut without a transpose: view(B, T, h, head_dim), then "
    "transpose(1, 2)",
    "every h-th number": "a head has every h-th number; it has head_dim of them in a row",
    "joined without transpose": "the heads are joined without a transpose; transpose(1, 2) first",
    "no o_proj": "o_proj is missing",
    "queries and keys exchanged": "q_proj and k_proj are exchanged",
    "keys as values": "the values are made by k_proj",
    "keys and values exchanged": "k_proj and v_proj are exchanged",
    "all transposed": "the square weights are transposed; a weight is (out, in), and F.linear "
    "takes it so",
    "q_proj transposed": "q_proj is transposed; a weight is (out, in), and F.linear takes it so",
    "k_proj transposed": "k_proj is transposed; a weight is (out, in), and F.linear takes it so",
    "v_proj transposed": "v_proj is transposed; a weight is (out, in), and F.linear takes it so",
    "o_proj transposed": "o_proj is transposed; a weight is (out, in), and F.linear takes it so",
}

# ---------------------------------------------------------------- the right numbers, and wrong ones


@dataclass(frozen=True)
class Llama:
    "What a checkpoint gives, with mistakes or without."

    config: dict  # what config.json holds
    weights: dict  # name -> tensor

    @property
    def d_k(self) -> int:
        "The width of a head."
        return self.config.get("head_dim") or (
            self.config["hidden_size"] // self.config["num_attention_heads"]
        )

    def linear(self, x, name, wrong):
        "A linear layer without a bias."
        weight = self.weights[f"{name}.weight"].float()
        part = name.rpartition(".")[2]
        if wrong & {"all transposed", f"{part} transposed"} and "layers" in name:
            if weight.shape[0] == weight.shape[1]:
                weight = weight.T
        return F.linear(x, weight)

    def norm(self, x, name, wrong):
        "RMSNorm over the last axis."
        weight = self.weights[f"{name}.weight"].float()
        eps = self.config["rms_norm_eps"]
        fixed = {
            "no eps": 0.0,
            "eps 1e-5": 1e-5,
            "eps 1e-6": 1e-6,
            "eps 1e-8": 1e-8,
            "eps of PyTorch": torch.finfo(torch.float32).eps,
        }
        for mistake, value in fixed.items():
            if mistake in wrong:
                eps = value
        if "mean subtracted" in wrong:
            x = x - x.mean(-1, keepdim=True)
        axis = 1 if "norm over tokens" in wrong and x.dim() == 3 else -1
        size = x.square().mean(axis, keepdim=True)
        if "squares summed" in wrong:
            size = x.square().sum(axis, keepdim=True)
        if "eps outside" in wrong:
            divisor = size.sqrt() + eps
        elif "no root" in wrong:
            divisor = size + eps
        else:
            divisor = (size + eps).sqrt()
        if "norm without weight" in wrong:
            return x / divisor
        if "weight plus 1" in wrong:
            weight = weight + 1
        return x / divisor * weight

    def frequencies(self, width, wrong):
        "The angle per position of each pair, (width / 2,)."
        base = self.config["rope_theta"]
        if "base 10000" in wrong:
            base = 10_000.0
        exponents = torch.arange(0, width, 2) / width
        if "exponents halved" in wrong:
            exponents = exponents / 2
        if "exponents doubled" in wrong:
            exponents = exponents * 2
        if "exponents by width" in wrong:
            exponents = torch.arange(0, width, 2) / self.config["hidden_size"]
        return base**-exponents

    def turn(self, x, positions, wrong):
        "Turn (B, h, T, d_k) by the angles of its positions."
        width = x.shape[-1]
        if "positions from 1" in wrong:
            positions = positions + 1
        angles = positions[:, None] * self.frequencies(width, wrong)  # (T, d_k / 2)
        if "turned back" in wrong:
            angles = -angles
        mixed = wrong & {"neighbours turned", "angles of neighbours"}
        if mixed:
            angles = angles.repeat_interleave(2, dim=-1)
        else:
            angles = torch.cat([angles, angles], dim=-1)
        if wrong & {"neighbours turned", "angles of halves"}:
            pairs = x.unflatten(-1, (-1, 2))
            other = torch.stack([-pairs[..., 1], pairs[..., 0]], dim=-1).flatten(-2)
        else:
            first, second = x.chunk(2, dim=-1)
            if "first sign" in wrong:
                second = -second
            if "second sign" in wrong:
                first = -first
            other = torch.cat([-second, first], dim=-1)
        return x * angles.cos() + other * angles.sin()

    def split(self, x, h, wrong):
        "Cut (B, T, h · d_k) into heads, (B, h, T, d_k)."
        B, T, width = x.shape
        if "heads not transposed" in wrong:
            return x.reshape(B, h, T, width // h)
        if "every h-th number" in wrong:
            return x.reshape(B, T, width // h, h).permute(0, 3, 1, 2)
        return x.reshape(B, T, h, width // h).transpose(1, 2)

    def divisor(self, wrong):
        "What the scores are divided by."
        n_heads = self.config["num_attention_heads"]
        d_model = self.config["hidden_size"]
        divisors = {
            "no scale": 1.0,
            "divided by d_k": self.d_k,
            "divided by the width": d_model**0.5,
            "divided by a share": (d_model / n_heads) ** 0.5,
            "multiplied": self.d_k**-0.5,
        }
        for mistake, value in divisors.items():
            if mistake in wrong:
                return value
        return self.d_k**0.5

    def weigh(self, scores, allowed, wrong):
        "The weights of scores (B, h, T, T), where each token attends to what is allowed."
        T = scores.shape[-1]
        axis = -2 if "softmax over queries" in wrong else -1
        if "no causal mask" in wrong:
            allowed = torch.ones(T, T, dtype=torch.bool)
        if "mask turned" in wrong:
            allowed = torch.ones(T, T, dtype=torch.bool).triu()
        if "one token too many" in wrong:
            allowed = torch.ones(T, T, dtype=torch.bool).tril(1)
        if "mask after softmax" in wrong:
            return scores.softmax(axis) * allowed
        hidden = 0.0 if "future scores 0" in wrong else float("-inf")
        return scores.masked_fill(~allowed, hidden).softmax(axis)

    def attention(self, x, layer, positions, allowed, wrong):
        "What the attention of a layer gives, (B, T, d_model)."
        n_heads = self.config["num_attention_heads"]
        n_kv_heads = self.config["num_key_value_heads"]
        names = {part: f"{layer}.self_attn.{part}_proj" for part in "qkvo"}
        if "queries and keys exchanged" in wrong:
            names["q"], names["k"] = names["k"], names["q"]
        if "keys and values exchanged" in wrong:
            names["k"], names["v"] = names["v"], names["k"]
        if "keys as values" in wrong:
            names["v"] = names["k"]
        q = self.linear(x, names["q"], wrong)
        k = self.linear(x, names["k"], wrong)
        v = self.linear(x, names["v"], wrong)
        whole = "turned before the split" in wrong
        if whole:
            q = self.turn(q[:, None], positions, wrong)[:, 0]
            k = self.turn(k[:, None], positions, wrong)[:, 0]
        q = self.split(q, n_heads, wrong)
        k = self.split(k, n_kv_heads, wrong)
        v = self.split(v, n_kv_heads, wrong)
        turned = "not turned" not in wrong and not whole
        if turned and "only keys turned" not in wrong:
            q = self.turn(q, positions, wrong)
        if turned and "only queries turned" not in wrong:
            k = self.turn(k, positions, wrong)
        if "values turned" in wrong:
            v = self.turn(v, positions, wrong)
        k = self.share(k, wrong)
        v = self.share(v, wrong)
        weights = self.weigh(q @ k.mT / self.divisor(wrong), allowed, wrong)
        y = weights @ v  # (B, h, T, d_k)
        if "joined without transpose" not in wrong:
            y = y.transpose(1, 2)
        y = y.reshape(*x.shape[:2], -1)
        return y if "no o_proj" in wrong else self.linear(y, names["o"], wrong)

    def share(self, t, wrong):
        "Keys or values for each head of the queries."
        n = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        if "heads repeated" in wrong:
            return t.repeat(1, n, 1, 1)
        if "first head for all" in wrong:
            return t[:, :1].expand(-1, n * t.shape[1], -1, -1)
        return t.repeat_interleave(n, dim=1)

    def network(self, x, layer, wrong):
        "What the feed-forward network of a layer gives, (B, T, d_model)."
        gate = self.linear(x, f"{layer}.mlp.gate_proj", wrong)
        up = self.linear(x, f"{layer}.mlp.up_proj", wrong)
        if "gate and up exchanged" in wrong:
            gate, up = up, gate
        activations = {
            "gelu": F.gelu,
            "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
            "relu": F.relu,
            "sigmoid": torch.sigmoid,
            "no activation": lambda x: x,
        }
        activation = F.silu
        for mistake, function in activations.items():
            if mistake in wrong:
                activation = function
        y = activation(gate) * up
        if "silu of the product" in wrong:
            y = F.silu(gate * up)
        if "no up" in wrong:
            y = activation(gate)
        if "no gate" in wrong:
            y = activation(up)
        if "gate added" in wrong:
            y = activation(gate) + up
        return self.linear(y, f"{layer}.mlp.down_proj", wrong)

    def layer(self, x, layer, positions, allowed, wrong):
        "One layer of the stack, (B, T, d_model)."
        first = f"{layer}.input_layernorm"
        second = f"{layer}.post_attention_layernorm"
        if "norms exchanged" in wrong:
            first, second = second, first
        if "first norm twice" in wrong:
            second = first
        if "second norm twice" in wrong:
            first = second

        def attend(x):
            return self.attention(x, layer, positions, allowed, wrong)

        def think(x):
            return self.network(x, layer, wrong)

        def norm(x, name):
            return self.norm(x, name, wrong)

        if "norms after sums" in wrong:
            x = norm(x + attend(x), first)
            return norm(x + think(x), second)
        if "norms on outputs" in wrong:
            x = x + norm(attend(x), first)
            return x + norm(think(x), second)
        if "stream normed" in wrong:
            x = norm(x, first)
            x = x + attend(x)
            x = norm(x, second)
            return x + think(x)
        y = attend(x if "attention without norm" in wrong else norm(x, first))
        z = y if "attention not added" in wrong else x + y
        if "attention added to norm" in wrong:
            z = norm(x, first) + y
        read = x if "both read x" in wrong else z
        y = think(read if "network without norm" in wrong else norm(read, second))
        if "network not added" in wrong:
            return y
        if "network added to norm" in wrong:
            return norm(z, second) + y
        return (x if "sum from the old x" in wrong else z) + y

    def layers(self, wrong):
        "The names of the layers in their order."
        numbers = list(range(self.config["num_hidden_layers"]))
        if "first layer again" in wrong:
            numbers = [0] * len(numbers)
        if "last layer left out" in wrong:
            numbers.pop()
        if "three layers" in wrong:
            numbers = numbers[:3]
        if "layers as strings" in wrong:
            numbers.sort(key=str)
        if "layers backwards" in wrong:
            numbers.reverse()
        return [f"model.layers.{number}" for number in numbers]

    def __call__(
        self,
        tokens: torch.Tensor,  # (B, T)
        *mistakes: str,  # keys of MISTAKES
        positions: torch.Tensor | None = None,  # (T,); None counts from 0
        allowed: torch.Tensor | None = None,  # (T, T), True = may attend; None is causal
    ) -> torch.Tensor:  # (B, T, vocab_size)
        "Logits."
        wrong = set(mistakes)
        T = tokens.shape[1]
        if positions is None:
            positions = torch.arange(T)
        if allowed is None:
            allowed = torch.ones(T, T, dtype=torch.bool).tril()
        embedding = self.weights["model.embed_tokens.weight"].float()
        x = embedding[tokens]  # (B, T, d_model)
        if "embeddings scaled" in wrong:
            x = x * self.config["hidden_size"] ** 0.5
        for name in self.layers(wrong):
            x = self.layer(x, name, positions, allowed, wrong)
        if "no last norm" not in wrong:
            x = self.norm(x, "model.norm", wrong)
        if self.config["tie_word_embeddings"] or "head is embedding" in wrong:
            return x @ embedding.T
        return self.linear(x, "lm_head", wrong)


def greedy(
    logits: Callable,  # tokens (B, T) -> (B, T, vocab_size)
    tokens: torch.Tensor,  # (B, T)
    n: int,  # tokens to append
) -> torch.Tensor:  # (B, T + n)
    "Append the likeliest token n times."
    for _ in range(n):
        best = logits(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, best], dim=1)
    return tokens


# ---------------------------------------------------------------- checkpoints

# All sizes differ, so that no axis is taken for another. d_model = heads * d_k, unless a test says.
SIZES = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "vocab_size": 37,
    "max_position_embeddings": 32,
    "hidden_size": 24,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "num_hidden_layers": 3,
    "intermediate_size": 40,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": False,
}


def write_checkpoint(
    folder: Path,  # there already
    seed: int = 0,
    dtype: torch.dtype = torch.float32,  # of the numbers in the file
    size: float = 1.0,  # standard deviation of the embeddings
    **changes,  # of SIZES; head_dim may be given, too
) -> Llama:
    "A small random Llama, as Hugging Face's library writes one. Every part of it matters."
    config = {**SIZES, **changes}
    generator = torch.Generator().manual_seed(seed)
    d_model = config["hidden_size"]
    d_ff = config["intermediate_size"]
    d_k = config.get("head_dim") or d_model // config["num_attention_heads"]
    queries = config["num_attention_heads"] * d_k
    keys = config["num_key_value_heads"] * d_k
    shapes = {"model.embed_tokens": (config["vocab_size"], d_model)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes[f"{layer}.input_layernorm"] = (d_model,)
        shapes[f"{layer}.self_attn.q_proj"] = (queries, d_model)
        shapes[f"{layer}.self_attn.k_proj"] = (keys, d_model)
        shapes[f"{layer}.self_attn.v_proj"] = (keys, d_model)
        shapes[f"{layer}.self_attn.o_proj"] = (d_model, queries)
        shapes[f"{layer}.post_attention_layernorm"] = (d_model,)
        shapes[f"{layer}.mlp.gate_proj"] = (d_ff, d_model)
        shapes[f"{layer}.mlp.up_proj"] = (d_ff, d_model)
        shapes[f"{layer}.mlp.down_proj"] = (d_model, d_ff)
    shapes["model.norm"] = (d_model,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head"] = (config["vocab_size"], d_model)
    weights = {}
    for name, shape in shapes.items():
        t = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            t = 1 + 0.3 * t
        elif name == "model.embed_tokens":
            t = size * t
        else:
            t = 1.2 * t / shape[1] ** 0.5
        weights[f"{name}.weight"] = t.to(dtype)
    safetensors.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return Llama(config, weights)


def read_checkpoint(
    folder: Path,  # with config.json and model.safetensors
) -> Llama:
    "What a folder holds, as numbers."
    weights = safetensors.load_file(folder / "model.safetensors")
    return Llama(read_json("config.json", folder / "config.json"), weights)
