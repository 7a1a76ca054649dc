"""The logit lens: what would a model say if it were cut after each of its blocks?

What stands between the last block and the logits differs from family to family: a norm or none, a
projection, a head with a bias, a scale, a cap, and each under another name. We need none of it. The
model runs once, and the stream in front of each block and behind the last is kept. Then it runs
again for each of these streams. The last block gives that stream in place of its own, and what
follows is the model's. The deep dive on interpretability looks between the parts of a block, too.
"""

from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from ..base.core import eval_mode
from ..base.guards import check_that, check_type
from ..models.savable import Classifier, EncoderDecoder, LanguageModel

__all__ = [
    "logit_lens",
]


def find_blocks(
    model: nn.Module,
) -> nn.ModuleList:
    "The blocks whose stream becomes logits. Raises `ValueError` where no list holds them."
    if isinstance(model, nn.Module) and callable(getattr(model, "get_decoder", None)):
        stack: Any = model.base_model.get_decoder()  # the only one, where there is no encoder
    else:
        check_type("model", model, (LanguageModel, Classifier, EncoderDecoder))
        stack = model.decoder if isinstance(model, EncoderDecoder) else model.stack
    lists = [part for part in stack.modules() if isinstance(part, nn.ModuleList)]
    check_that(bool(lists), "model", "one with a list of blocks", type(model).__name__)
    return lists[0]


def _stream_in(output):
    "The stream (B, T, d_model) in what a block gives, which may be a tuple."
    return output if isinstance(output, torch.Tensor) else output[0]


def _equal(x, y):
    "Whether two streams are the same, NaN included."
    return torch.allclose(x, y.to(x), rtol=0, atol=0, equal_nan=True)


def _read_streams(model, blocks, inputs, named):
    "The stream in front of each block and behind the last."
    streams = []
    given = []
    ran = []

    def before(block, args, named):
        x = args[0] if args else named["hidden_states"]
        streams.append(x.clone())  # a block may write into it
        ran.append(block)

    def after(block, args, output):
        given.append(_stream_in(output).clone())

    with ExitStack() as hooks:
        for block in blocks:
            hooks.enter_context(block.register_forward_pre_hook(before, with_kwargs=True))
            hooks.enter_context(block.register_forward_hook(after))
        model(*inputs, **named)
    in_a_row = ran == list(blocks) and all(map(_equal, streams[1:], given))
    expected = "blocks that run once each, and read what the one before them gave"
    check_that(in_a_row, "model", expected, type(model).__name__)
    return [*streams, given[-1]]


@torch.no_grad()
def logit_lens(
    model: nn.Module,  # ours, or one of Hugging Face's Transformers with a head; left as it is
    *inputs: torch.Tensor,  # what the model takes
    **named: Any,  # what it takes by name, such as `attention_mask`
) -> dict[tuple[str, int], torch.Tensor]:  # ("embedding", 0) or ("block", n) -> logits
    "What the model would say if it were cut after each block. The last are its logits."
    blocks = find_blocks(model)
    logits = {}
    with eval_mode(model):
        for n, stream in enumerate(_read_streams(model, blocks, inputs, named)):

            def give(block, args, output, stream=stream):
                return stream if isinstance(output, torch.Tensor) else (stream, *output[1:])

            with blocks[-1].register_forward_hook(give):
                said = model(*inputs, **named)
            said = getattr(said, "logits", said)
            came = f"{type(model).__name__} without logits"
            check_that(isinstance(said, torch.Tensor), "model", "one with a head", came)
            logits["block" if n else "embedding", n] = said
    return logits
