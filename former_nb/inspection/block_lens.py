"""The logit lens for models of Hugging Face's Transformers, which have many heads and many ends.

What stands between the last block and the logits differs from family to family: a norm or none, a
projection, a head with a bias, a scale, a cap, and each under another name. We need none of it.
`read_blocks` runs the model once and keeps the stream in front of each block and behind the last.
Then the model runs again for each of these streams. Its blocks compute nothing, the last gives the
stream, and what follows it is the model's own. So each row says what the model would say if it were
cut there, and the last row holds the model's logits.

That takes blocks in a row, each of which reads what the one before it gave. A decoder that reads an
encoder has such blocks, too, and the encoder is run as it is. Refused are a model without logits,
one that runs a block several times, and one that has no module for a block.
"""

from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from ..base.core import eval_mode
from ..base.guards import check_that

__all__ = [
    "is_of_transformers",
    "block_lens",
]


def is_of_transformers(
    model,
) -> bool:
    "Whether a model is one of Hugging Face's Transformers."
    return isinstance(model, nn.Module) and callable(getattr(model, "get_decoder", None))


def find_blocks(
    model: nn.Module,  # of Transformers
) -> nn.ModuleList:
    "The blocks whose stream becomes logits. Raises `ValueError` where no list holds them."
    came = type(model).__name__
    expected = "a model of Hugging Face's Transformers"
    check_that(is_of_transformers(model), "model", expected, came, TypeError)
    decoder: nn.Module = model.base_model.get_decoder()  # the only stack, where there is no encoder
    lists = [part for part in decoder.modules() if isinstance(part, nn.ModuleList)]
    check_that(bool(lists), "model", "one with a list of blocks", came)
    return lists[0]


def _stream_in(output):
    "The stream (B, T, d_model) in what a block gives, which may be a tuple."
    return output if isinstance(output, torch.Tensor) else output[0]


def _equal(x, y):
    "Whether two streams are the same, NaN included."
    if x is None or x.shape != y.shape:
        return False
    return torch.allclose(x, y.to(x), rtol=0, atol=0, equal_nan=True)


@torch.no_grad()
def read_blocks(
    model: nn.Module,  # of Transformers; left as it is
    *inputs: torch.Tensor,  # what the model takes
    **named,  # what it takes by name
) -> tuple[list[torch.Tensor], list]:  # streams (B, T, d_model), one more than outputs of blocks
    """The stream in front of each block and behind the last, and all that each block gives.

    Raises `ValueError` unless each block runs once, and reads what the one before it gave.
    """
    blocks = find_blocks(model)
    streams: list[torch.Tensor] = []
    outputs: list = []
    ran: list[nn.Module] = []
    chained: list[bool] = []

    def before(block, args, named):
        x = args[0] if args else named.get("hidden_states")
        is_stream = isinstance(x, torch.Tensor)
        chained.append(is_stream and (not outputs or _equal(x, _stream_in(outputs[-1]))))
        if is_stream:
            streams.append(x.clone())  # a block may write into it

    def after(block, args, output):
        ran.append(block)
        outputs.append(output)

    with ExitStack() as hooks:
        for block in blocks:
            hooks.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(after).remove)
        with eval_mode(model):
            model(*inputs, **named)
    expected = "blocks that run once each, and read what the one before them gave"
    check_that(ran == list(blocks) and all(chained), "model", expected, type(model).__name__)
    return [*streams, _stream_in(outputs[-1]).clone()], outputs


@contextmanager
def _idle(block, output):
    "Within `with`, a block computes nothing and gives this output."
    held = vars(block)
    own = held.get("forward")  # where another library has put one
    held["forward"] = lambda *args, **named: output
    try:
        yield
    finally:  # also after an error
        del held["forward"]
        if own is not None:
            held["forward"] = own


@torch.no_grad()
def block_lens(
    model: nn.Module,  # of Transformers, with a head; left as it is
    *inputs: torch.Tensor,  # what the model takes
    **named,  # what it takes by name, such as `attention_mask`
) -> dict[tuple[str, int], torch.Tensor]:  # ("embedding", 0) or ("block", n) -> logits
    "What the model would say if it were cut after each block. The last are its logits."
    named = {**named, "return_dict": True}
    blocks = find_blocks(model)
    streams, outputs = read_blocks(model, *inputs, **named)
    last = []  # the stream that the last block gives

    def give(block, args, output):  # behind the hooks of others, which have done their part
        return last[0] if isinstance(output, torch.Tensor) else (last[0], *output[1:])

    logits = {}
    with eval_mode(model), ExitStack() as changes:
        for block, output in zip(blocks, outputs):
            changes.enter_context(_idle(block, output))
        changes.callback(blocks[-1].register_forward_hook(give).remove)
        for n, stream in enumerate(streams):
            last[:] = [stream]
            said = model(*inputs, **named)
            came = f"{type(model).__name__} without logits"
            check_that(hasattr(said, "logits"), "model", "one with a head", came)
            logits["block" if n else "embedding", n] = said.logits
    return logits
