"""The weights that a stack starts with."""

from torch import nn

__all__ = ["init_weights"]


def init_weights(
    model: nn.Module,  # changed in place
    n_layers: int,  # blocks in the stack
) -> None:
    """Normal(0, 0.02), zeros for biases; layers that write to the stream smaller (GPT-2).

    They start smaller by 1 / √n, where n is their number in the whole stack, so that the stream
    starts with the same size at any depth. The deep dive on deep stacks derives the factor and
    measures what it is worth.
    """
    names = [name for name, _ in model.named_modules()]
    writes = 2  # layers of a block that write to the stream
    if any(name.endswith("cross.w_o") for name in names):
        writes = 3
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            std = 0.02
            if name.endswith(("w_o", "ff.w_out")):
                std = 0.02 / (writes * n_layers) ** 0.5
            nn.init.normal_(module.weight, std=std)
            start = getattr(module, "bias", None)
            if start is not None:
                nn.init.zeros_(start)
