"""What the words of a configuration stand for: positions, activations and norms, a line for each.

Everything that asks what a word means reads these tables: the checks of a configuration, the
command line and its help, what builds a model, and the loops that write. So a kind of positions of
your own is a class and one line,

    POSITIONS["mine"] = Scheme("attention", "always", MyBias, "n_heads")

and then `TransformerConfig(..., positions="mine")` trains, is saved, is loaded and writes.

Nothing here needs PyTorch, so that help does not wait: a part that is given by its address is
imported when it is built.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ..base.ranges import ONE_OR_MORE, SHARE

__all__ = ["Scheme", "POSITIONS", "Activation", "ACTIVATIONS", "NORMS", "MODEL", "find_part"]

Part = str | Callable  # a class or a function, or its address


def find_part(
    part: Part,  # such as "torch.nn.LayerNorm"
) -> Any:  # the class or the function
    "What an address leads to; a class or a function as it is."
    if not isinstance(part, str):
        return part
    module, _, name = part.rpartition(".")
    return getattr(import_module(module), name)


class Scheme(NamedTuple):
    "A kind of positions: where they act, how far a model reads with them, and their module."

    where: str  # 'input': added to the embeddings; 'attention': inside every layer of it
    beyond: str  # 'never'; 'window', where no layer sees more than `max_len` tokens; or 'always'
    part: Part  # what makes the module, which is called as `LearnedPositions` or as `Rotary`
    settings: str  # of a configuration, with which it is made
    pairs: bool = False  # whether it pairs the features of a head, whose width then is even

    def build(
        self,
        config,  # a `TransformerConfig`
    ) -> Any:  # a module
        "The module for a model of this configuration."
        return find_part(self.part)(*[getattr(config, name) for name in self.settings.split()])


class Activation(NamedTuple):
    "What is between the layers of a feed-forward network, or a network of its own with a gate."

    part: Part  # a function of numbers; with a gate a class that is made as `SwiGLU`
    gated: bool = False  # whether the network has three matrices


POSITIONS = {
    "learned": Scheme(
        "input", "never", "former_nb.attention.positions.LearnedPositions", "max_len d_model"
    ),
    "sinusoidal": Scheme(
        "input", "never", "former_nb.attention.positions.SinusoidalPositions", "max_len d_model"
    ),
    "rotary": Scheme(
        "attention",
        "window",
        "former_nb.models.rope_scaling.make_rotary",
        "head_width rope_base rope_scaling",
        pairs=True,
    ),
    "alibi": Scheme(
        "attention", "always", "former_nb.attention.relative_positions.ALiBi", "n_heads"
    ),
    "relative": Scheme(
        "attention", "always", "former_nb.attention.relative_positions.RelativeBias", "n_heads"
    ),
}
ACTIVATIONS = {
    "relu": Activation("torch.nn.functional.relu"),
    "gelu": Activation("torch.nn.functional.gelu"),
    "gelu_tanh": Activation("former_nb.models.parts.gelu_tanh"),  # GPT-2's
    "silu": Activation("torch.nn.functional.silu"),
    "swiglu": Activation("former_nb.models.modern_decoder.SwiGLU", gated=True),
}
NORMS: dict[str, Part] = {  # made with the width and what is added under the root
    "layer": "torch.nn.LayerNorm",
    "rms": "former_nb.models.parts.FusedRMSNorm",
}
MODEL = {  # setting of a model -> which numbers it may be, or which words
    "vocab_size": ONE_OR_MORE,
    "max_len": ONE_OR_MORE,
    "d_model": ONE_OR_MORE,
    "n_heads": ONE_OR_MORE,
    "n_layers": ONE_OR_MORE,
    "d_ff": ONE_OR_MORE,
    "dropout": SHARE,
    "positions": POSITIONS,
    "n_kv_heads": ONE_OR_MORE,
    "activation": ACTIVATIONS,
    "norm": NORMS,
    "norm_first": (True, False),
    "d_k": ONE_OR_MORE,
}
