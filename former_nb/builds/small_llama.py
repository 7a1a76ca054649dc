"""Small random checkpoints of a Llama, as Hugging Face's library writes them, and what they give.

The right file of build B gives it, or what an edit makes of that file.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from ..base.files import read_json
from .edits import edited_file, read_mistakes

__all__ = [
    "MISTAKES",
    "GENERATE_MISTAKES",
    "Checkpoint",
    "SIZES",
    "write_checkpoint",
    "read_checkpoint",
]

RIGHT_FILE = Path(__file__).with_name("right_decoder.py")
TABLES = read_mistakes("decoder_mistakes.toml")
MISTAKES = TABLES["logits"]  # sentence -> edits
GENERATE_MISTAKES = TABLES["generate"]


@dataclass(frozen=True)
class Checkpoint:
    "What a checkpoint gives, with mistakes or without."

    config: dict  # what config.json holds
    weights: dict[str, torch.Tensor]  # in float32

    def __call__(
        self,
        tokens: torch.Tensor,  # (B, T)
        *mistakes: str,  # keys of MISTAKES
    ) -> torch.Tensor:  # (B, T, vocab_size)
        "Logits. Raises `ValueError` for mistakes that don't go together."
        edits = []
        for mistake in mistakes:
            edits += MISTAKES[mistake]
        decoder = edited_file(RIGHT_FILE, tuple(edits)).Decoder(self.config, self.weights)
        return decoder(tokens)

    def generate(
        self,
        tokens: torch.Tensor,  # (B, T)
        n: int,  # tokens to append
        mistake: str | None = None,  # a key of GENERATE_MISTAKES
    ) -> torch.Tensor:  # (B, T + n)
        "The likeliest token, n times."
        file = edited_file(RIGHT_FILE, GENERATE_MISTAKES[mistake] if mistake else ())
        file.prompt = tokens.shape[1]  # type: ignore[attr-defined]
        return file.generate(file.Decoder(self.config, self.weights), tokens, n)


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
) -> Checkpoint:
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
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return Checkpoint(config, {name: t.float() for name, t in weights.items()})


def read_checkpoint(
    folder: Path,  # with config.json and model.safetensors
) -> Checkpoint:
    "What a folder holds."
    weights = load_file(folder / "model.safetensors")
    config = read_json("config.json", folder / "config.json")
    return Checkpoint(config, {name: t.float() for name, t in weights.items()})
