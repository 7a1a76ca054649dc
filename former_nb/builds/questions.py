"""Questions that several steps of a reader's file are asked."""

import torch
from torch import nn

from .steps import same_weights, unchanged

__all__ = [
    "D",
    "H",
    "D_FF",
    "V",
    "LONGEST",
    "gradients",
    "see_less",
    "ask_layer",
    "NO_DROPOUT_ON_THE_NETWORK",
    "ask_dropout",
    "what_counts",
    "made",
    "dropped",
    "dropouts",
    "parts_of_block",
    "small_blocks",
]

D, H, D_FF, V, LONGEST = 8, 2, 12, 11, 16  # sizes of most questions


def gradients(y, *leaves):
    "The slopes of the sum of squares of y, all in one row: what is 0 but for rounding stays small."
    slopes = torch.autograd.grad(y.square().sum(), leaves, allow_unused=True)
    pairs = zip(slopes, leaves)
    return torch.cat([(torch.zeros_like(x) if g is None else g).flatten() for g, x in pairs])


def see_less(q, k, v, mask=None, is_causal=False):
    "An `attend` that shows that it was called: it answers something else than attention."
    weights = (q @ k.mT).sigmoid()
    if is_causal:
        weights = weights.tril(k.shape[-2] - q.shape[-2])
    if mask is not None:
        weights = weights * mask
    return weights @ v


def ask_layer(layer, x, mask, attend):
    "Questions for a layer that is called as every layer; `attend` is the right attention."
    yield "x", lambda: unchanged(layer, x)
    yield "is_causal=True", lambda: unchanged(layer, x, is_causal=True, attend=attend)
    yield "a mask", lambda: unchanged(layer, x, mask=mask, attend=attend)
    both = dict(mask=mask, is_causal=True)  # by name, as the pages show them
    yield "a mask and is_causal", lambda: unchanged(layer, x, **both, attend=attend)
    yield "another attend", lambda: unchanged(layer, x, attend=see_less)
    yield "another attend, mask, is_causal", lambda: unchanged(layer, x, **both, attend=see_less)
    yield "one row alone", lambda: layer(x[:1])

    def slopes():
        leaf = x.clone().requires_grad_()
        weights = [p for _, p in sorted(layer.named_parameters())]
        return gradients(layer(leaf, is_causal=True, attend=attend), leaf, *weights)

    yield "the gradients", slopes


def what_counts(batch):
    "A batch, its target's inputs as PAD where nothing is asked for: an EOS there counts no less."
    try:
        inputs, targets = batch
        *before, last = inputs
        asked = targets != 0
        return (*before, last.masked_fill(~asked, 0)), targets
    except Exception:  # noqa: BLE001, a wrong answer has any form
        return batch


def made(answer, like, *args, **options):
    "A module of the answer's class with the weights that the names give."
    return same_weights(answer(*args, **options), like(*args, **options))


def dropped(part, *inputs):
    "Whether a part drops in training only, and how much of what comes out it drops."
    torch.manual_seed(0)
    part.train()
    outs = torch.stack([part(*inputs).detach() for _ in range(40)])
    share = (outs == 0).float().mean().item()
    changes = bool((outs != outs[0]).any())
    part.eval()
    still = bool(part(*inputs).equal(part(*inputs)))
    return [changes, still, round(share, 1)]


NO_DROPOUT_ON_THE_NETWORK = (  # mistakes of a block, as `step` takes them
    (
        "return x + self.dropout(self.ff(self.norm_ff(x)))",
        "return x + self.ff(self.norm_ff(x))",
        "dropout on what the network writes is missing",
    ),
    (
        "return x + self.dropout(self.ff(self.norm_ff(x)))",
        "return self.dropout(x + self.ff(self.norm_ff(x)))",
        "dropout falls on what a part writes, never on the stream",
    ),
)


class Writes(nn.Module):
    "A part of a block that writes the same number everywhere."

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x, *further, **options):
        return torch.full_like(x, self.number)


def ask_dropout(
    answer,  # the class of a block: its parts, as many norms, and dropout
    parts,  # in words
    *memory,  # what is read besides x
):
    "Does dropout fall on what each part writes, and never on the stream?"

    def drops(numbers, stream):
        written = [Writes(number) for number in numbers]
        norms = [nn.Identity() for _ in parts]
        x = torch.full((4, 50, D), stream)
        return dropped(answer(*written, *norms, 0.5), x, *memory)

    for part in parts:
        numbers = [float(other == part) for other in parts]
        yield f"dropout on {part}", lambda: drops(numbers, 0.0)
    yield "no dropout on the stream", lambda: drops([0.0] * len(parts), 1.0)


def dropouts(model, *inputs):
    "With which probabilities a model drops numbers while it trains, call by call."
    found = []
    plain = nn.functional.dropout

    def watch(x, p=0.5, training=True, inplace=False):
        found.extend([p] * (training and p > 0))
        return plain(x, p, training, inplace)

    places = [nn.functional, torch] if "dropout" in vars(torch) else [nn.functional]
    before = [place.dropout for place in places]
    for place in places:
        place.dropout = watch
    try:
        model.train()(*inputs)
    finally:
        for place, function in zip(places, before):
            place.dropout = function
    return found


def parts_of_block(right, d_model=D, cross=False):
    parts = [right.MultiHeadAttention(d_model, H), right.FeedForward(d_model, D_FF)]
    if cross:
        parts.insert(1, right.CrossAttention(d_model, H))
    return parts + [nn.LayerNorm(d_model) for _ in parts]


def small_blocks(right, n=3):
    blocks = [right.Block(*parts_of_block(right)) for _ in range(n)]
    for number, block in enumerate(blocks):
        same_weights(block, block, number)  # no two blocks are alike
    return blocks
