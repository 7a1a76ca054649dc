"""Build A: twelve tests of an encoder that a reader has written in one file.

Each test compares with former_nb or with PyTorch's own layers on copied weights. If the numbers
differ, the likely mistakes are tried one after the other, each an edit of the right file, and the
first that gives the reader's numbers is named.
"""

import inspect
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.fused import attention, attention_weights
from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import MistakeError, call_answer, diagnose, exercise, explain_error
from .edits import edited_file, read_mistakes
from .process import Test, run_file, show_results

__all__ = [
    "EXAMPLE",
    "REFUSED",
    "SIGNATURES",
    "TESTS",
]

# All sizes of a test differ, so that no axis is taken for another.
B = 2  # rows
H = 3  # heads
T = 5  # queries
S = 7  # keys
D_K = 8  # whose root isn't its half
D_V = 6
D_MODEL = 24
D_FF = 32
VOCAB = 11
MAX_LEN = 9
N_LAYERS = 3

RIGHT_FILE = Path(__file__).with_name("right_encoder.py")
MISTAKES = read_mistakes("encoder_mistakes.toml")  # definition -> sentence -> edits

EXAMPLE = "encoder.py"  # how the page calls the reader's file
REFUSED = ("former_nb",)  # what it may not import

SIGNATURES = {  # what a file defines, and how it is called
    "attention_weights": "(q, k, mask=None, is_causal=False)",
    "attention": "(q, k, v, mask=None, is_causal=False)",
    "MultiHeadAttention": "(d_model, n_heads)",
    "Block": "(d_model, n_heads, d_ff, dropout=0.0)",
    "Stack": "(n_layers, d_model, n_heads, d_ff, dropout=0.0)",
    "Encoder": "(vocab_size, max_len, n_layers, d_model, n_heads, d_ff, dropout=0.0)",
}

# PyTorch's words for a mistake that raises, and the mistake.
_FLOAT_SIZE = "a size is a whole number, and / gives a float; write d_model // n_heads"
FLOAT_ERRORS = {
    "but got float": _FLOAT_SIZE,
    "found element of type float": _FLOAT_SIZE,
    "must be tuple of ints, not float": _FLOAT_SIZE,
    "must be int, not float": _FLOAT_SIZE,
    "'float' object cannot be interpreted as an integer": _FLOAT_SIZE,
}
_ALL_AXES = "k.T turns all four axes round; exchange the last two alone, k.mT"
TRANSPOSE_ERRORS = {
    f"tensor a ({H}) must match the size of tensor b ({S})": _ALL_AXES,
    "t() expects a tensor with <= 2 dimensions": _ALL_AXES,
}
_ALL_POSITIONS = "you add all rows of positions; take the first T rows, one for each token"
POSITION_ERRORS = {
    f"tensor a ({T}) must match the size of tensor b ({MAX_LEN})": _ALL_POSITIONS,
    f"tensor a ({MAX_LEN}) must match the size of tensor b ({T})": _ALL_POSITIONS,
}


# ---------------------------------------------------------------- what a file defines


def _find(module, name):
    "What the file calls `name`. Raises `MistakeError` if it has no such name."
    if not hasattr(module, name):
        raise MistakeError(f"your file defines no {name}{SIGNATURES[name]}")
    return getattr(module, name)


def _line(thing):
    "Where a function or class begins, in words."
    try:
        return f" (line {inspect.getsourcelines(thing)[1]})"
    except (OSError, TypeError):
        return ""


def _check_call(thing, name, signature, *args, **options):
    "Raise `MistakeError` unless `thing` can be called so."
    try:
        mine = inspect.signature(thing)
    except (TypeError, ValueError):
        return
    try:
        mine.bind(*args, **options)
    except TypeError:
        sentence = f"{name}: expected the arguments {signature}, yours has {mine}"
        raise MistakeError(sentence + _line(thing)) from None


def _run(function, *inputs, sentences=None):
    "Call a reader's code. An error whose words we know becomes the mistake behind it."
    mistakes = dict(FLOAT_ERRORS)
    mistakes.update(sentences or {})
    try:
        return function(*inputs)
    except (TypeError, RuntimeError) as error:
        raise MistakeError(explain_error(error, mistakes)) from error


def _call(module, name, *tensors, sentences=None, **options):
    "Call a function of the file on copies of `tensors`."
    function = _find(module, name)
    _check_call(function, name, SIGNATURES[name], *tensors, **options)
    return _run(call_answer, partial(function, **options), *tensors, sentences=sentences)


def _forward(layer, name, first, *tensors, sentences=None, **options):
    "Call a layer of the file on copies of `tensors`."
    if not isinstance(layer, nn.Module):
        raise MistakeError(f"{name} is no nn.Module; write `class {name}(nn.Module)`")
    signature = f"({first}, mask=None, is_causal=False)"
    if name == "Encoder":
        signature = f"({first}, is_causal=False)"
    _check_call(layer.forward, f"{name}.forward", signature, *tensors, **options)
    return _run(call_answer, partial(layer, **options), *tensors, sentences=sentences)


def _make(module, name, *sizes, seed=0):
    "A layer of the file whose weights are large enough to tell mistakes apart."
    cls = _find(module, name)
    _check_call(cls, name, SIGNATURES[name], *sizes)
    torch.manual_seed(seed)
    layer = _run(cls, *sizes)
    if not isinstance(layer, nn.Module):
        raise MistakeError(f"{name} is no nn.Module; write `class {name}(nn.Module)`{_line(cls)}")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.5)
    return layer


def _part(layer, name, part):
    "A part of a layer. Raises `MistakeError` if the layer has no part of that name."
    if not hasattr(layer, part):
        parts = [key for key, _ in [*layer.named_children(), *layer.named_parameters()]]
        names = ", ".join(key for key in parts if "." not in key) or "no part at all"
        raise MistakeError(f"{name} has no part called {part}; it has {names}{_line(type(layer))}")
    return getattr(layer, part)


def _check_shared(layer, parts):
    "Raise `MistakeError` if two parts of a layer, name -> part, have a weight in common."
    owner = {}
    for name, part in parts.items():
        weights = part.parameters() if isinstance(part, nn.Module) else [part]
        for weight in weights:
            other = owner.setdefault(id(weight), name)
            if other != name:
                raise MistakeError(
                    f"{other} and {name} have the same weights; each needs its own"
                    f"{_line(type(layer))}"
                )


def _check_weights(part, what, shape):
    "Raise `MistakeError` unless a linear layer or norm has weights of this shape, and a bias."
    weight = getattr(part, "weight", None)
    if not isinstance(weight, torch.Tensor) or tuple(weight.shape) != shape:
        got = tuple(weight.shape) if isinstance(weight, torch.Tensor) else type(part).__name__
        raise MistakeError(f"{what}: expected weights of shape {shape}, got {got}")
    if getattr(part, "bias", None) is None:
        raise MistakeError(f"{what} has no bias; leave out bias=False")


def _copy(to, part, what):
    "Copy weight and bias of a reader's linear layer or norm into ours."
    _check_weights(part, what, tuple(to.weight.shape))
    with torch.no_grad():
        to.weight.copy_(part.weight)
        to.bias.copy_(part.bias)


def _filled(layer, weights):
    "A layer of the right file, or of an edited one, with these weights by name."
    layer.load_state_dict(weights)
    return layer.eval().requires_grad_(False)


def _weights_of(parts):
    "The weights of linear layers and norms, name -> part, as a state dict."
    weights = {}
    for name, part in parts.items():
        weights[f"{name}.weight"] = part.weight.detach()
        weights[f"{name}.bias"] = part.bias.detach()
    return weights


def _name(answer, right, definition, ask):
    """None if the answer is right, the sentence of the mistake that gives it, or how it differs.

    `ask` gives what a file answers. The mistakes are those of the definition and of what it calls.
    """
    if isinstance(answer, torch.Tensor) and answer.shape == right.shape:
        if torch.allclose(answer, right, rtol=1e-4, atol=1e-5):
            return None
    tables = list(MISTAKES)
    for table in tables[tables.index(definition) :]:
        for sentence, edits in MISTAKES[table].items():
            try:
                wrong = ask(edited_file(RIGHT_FILE, edits))
            except Exception:  # noqa: BLE001, a mistake that can't be made with these inputs
                continue
            if diagnose(answer, wrong) is None:
                return sentence
    return diagnose(answer, right)


def _first(*problems):
    "The first problem that is one. Each is a function, so that the next is computed if needed."
    for problem in problems:
        sentence = problem()
        if sentence is not None:
            return sentence
    return None


# ---------------------------------------------------------------- attention


def _random(*shape):
    return torch.randn(shape)


def _queries_keys():
    torch.manual_seed(1)
    return _random(B, H, T, D_K), _random(B, H, S, D_K)


def _some_mask():  # (B, 1, T, S), with True and False in each row
    torch.manual_seed(2)
    mask = torch.rand(B, 1, T, S) < 0.6
    mask[..., 1] = True
    mask[..., 2] = False
    return mask


def _padding():  # (B, 1, 1, S), the first row ends in three pads
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[0, ..., 4:] = False
    return mask


def _without_nan(given):
    "Zeros in place of NaN: rows without a key are another test's."
    return given.nan_to_num(0.0) if isinstance(given, torch.Tensor) else given


def _compare_weights(module, q, k, sentences=None, **options):
    "Name what is wrong with `attention_weights`."
    given = _call(module, "attention_weights", q, k, sentences=sentences, **options)
    if isinstance(given, torch.Tensor) and given.dim() > q.dim():
        return (
            f"your mask gets one axis too many; it comes with {options['mask'].dim()} axes, which "
            "broadcast to (B, h, T, S) as they are"
        )
    right = attention_weights(q, k, **options)

    def ask(file):
        return _without_nan(file.attention_weights(q, k, **options))

    return _name(_without_nan(given), right, "attention_weights", ask)


def judge_weights(module):
    "Scores, their scale, and the axis of the softmax."
    return _compare_weights(module, *_queries_keys(), sentences=TRANSPOSE_ERRORS)


def judge_mask(module):
    "A boolean mask, True = may attend."
    q, k = _queries_keys()

    def wide():
        sentence = _compare_weights(module, q, k, mask=_padding())
        return sentence and f"with a mask (B, 1, 1, S): {sentence}"

    return _first(lambda: _compare_weights(module, q, k, mask=_some_mask()), wide)


def judge_causal(module):
    "`is_causal`, with more keys than queries, and beside a mask."
    q, k = _queries_keys()
    return _first(
        lambda: _compare_weights(module, q, k, is_causal=True),
        lambda: _compare_weights(module, q, k, mask=_some_mask(), is_causal=True),
    )


def judge_empty(module):
    "A query that may attend to nothing: weights of 0, and no NaN in the gradient."
    q, k = _queries_keys()
    mask = _some_mask()
    mask[1, :, 3] = False
    if _call(module, "attention_weights", q, k, mask=mask).isnan().any():
        return (
            "a query that may attend to nothing gets NaN: a softmax over -inf alone is 0/0; "
            "its weights are 0"
        )
    sentence = _compare_weights(module, q, k, mask=mask)
    if sentence is not None:
        return sentence
    torch.manual_seed(3)
    learning = q.clone().requires_grad_()
    weights = _find(module, "attention_weights")(learning, k, mask=mask)
    if not weights.requires_grad:
        return "no gradient passes through your weights; leave out detach, .data and no_grad"
    (weights * torch.randn_like(weights)).sum().backward()
    if learning.grad.isnan().any():
        return (
            "the weights are right, yet the gradient is NaN: the softmax has seen a row of -inf; "
            "fill that row with 0 before the softmax and the weights with 0 after it"
        )
    return None


def judge_attention(module):
    "Weights times values, with every option passed on."
    q, k = _queries_keys()
    v = _random(B, H, S, D_V)
    empty = _some_mask()
    empty[1, :, 3] = False

    def compare(**options):
        given = _call(module, "attention", q, k, v, **options)
        if options.get("mask") is empty and given.isnan().any():
            return "a query that may attend to nothing gets NaN; its output is 0"
        right = attention(q, k, v, **options)
        return _name(given, right, "attention", lambda file: file.attention(q, k, v, **options))

    return _first(
        compare,
        lambda: compare(mask=_some_mask()),
        lambda: compare(is_causal=True),
        lambda: compare(mask=empty),
    )


# ---------------------------------------------------------------- many heads


HEADS = ["w_q", "w_k", "w_v", "w_o"]


def _our_heads(layer):
    "Our layer with the weights of a reader's."
    ours = MultiHeadAttention(D_MODEL, H)
    parts = {}
    for name in HEADS:
        parts[name] = _part(layer, "MultiHeadAttention", name)
        _copy(getattr(ours, name), parts[name], f"MultiHeadAttention.{name}")
    _check_shared(layer, parts)
    return ours.requires_grad_(False)


def _heads_again(layer):
    "What makes a reader's layer again of a file, with the same weights."
    weights = _weights_of({name: getattr(layer, name) for name in HEADS})
    return lambda file: _filled(file.MultiHeadAttention(D_MODEL, H), weights)


def judge_heads(module):
    "Split, attend, merge, mix."
    layer = _make(module, "MultiHeadAttention", D_MODEL, H)
    ours = _our_heads(layer)
    again = _heads_again(layer)
    x = _random(B, T, D_MODEL)
    given = _forward(layer, "MultiHeadAttention", "x", x)
    return _name(given, ours(x), "MultiHeadAttention", lambda file: again(file)(x))


def _row_padding():  # (B, 1, 1, T), the first row ends in two pads
    mask = torch.ones(B, 1, 1, T, dtype=torch.bool)
    mask[0, ..., 3:] = False
    return mask


def _judge_options(layer, name, right, again):
    "Do a mask and is_causal arrive? `right(x, **options)` is what they should give."
    x = _random(B, T, D_MODEL)
    mask = _row_padding()

    def compare(**options):
        given = _forward(layer, name, "x", x, **options)
        return _name(given, right(x, **options), name, lambda file: again(file)(x, **options))

    return _first(
        lambda: compare(mask=mask),
        lambda: compare(is_causal=True),
        lambda: compare(mask=mask, is_causal=True),
    )


def judge_heads_options(module):
    "The layer passes mask and is_causal on."
    layer = _make(module, "MultiHeadAttention", D_MODEL, H)
    right = _our_heads(layer)
    return _judge_options(layer, "MultiHeadAttention", right, _heads_again(layer))


# ---------------------------------------------------------------- the block


def _two_linears(ff):
    "The two linear layers of a reader's feed-forward network, the wide one first."
    linears = [part for part in ff.modules() if isinstance(part, nn.Linear)]
    shapes = sorted(tuple(part.weight.shape) for part in linears)
    if shapes != [(D_MODEL, D_FF), (D_FF, D_MODEL)]:
        pairs = [f"{part.in_features} to {part.out_features}" for part in linears]
        raise MistakeError(
            "Block.ff: expected nn.Linear(d_model, d_ff) and nn.Linear(d_ff, d_model), with "
            f"d_model = {D_MODEL}, d_ff = {D_FF} yours are {', '.join(pairs) or 'none'}"
        )
    if len(linears[0].weight) == D_MODEL:
        linears.reverse()
    return linears


def _their_block(block):
    "PyTorch's layer, norm first, with the weights of a reader's block."
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, H, D_FF, 0.0, "gelu", batch_first=True, norm_first=True
    )
    heads = _our_heads(_part(block, "Block", "attention"))
    rows = [heads.w_q, heads.w_k, heads.w_v]
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(torch.cat([layer.weight for layer in rows]))
        theirs.self_attn.in_proj_bias.copy_(torch.cat([layer.bias for layer in rows]))
    _copy(theirs.self_attn.out_proj, heads.w_o, "MultiHeadAttention.w_o")
    wide, narrow = _two_linears(_part(block, "Block", "ff"))
    _copy(theirs.linear1, wide, "the first linear layer of Block.ff")
    _copy(theirs.linear2, narrow, "the second linear layer of Block.ff")
    _copy(theirs.norm1, _part(block, "Block", "norm_attention"), "Block.norm_attention")
    _copy(theirs.norm2, _part(block, "Block", "norm_ff"), "Block.norm_ff")
    names = ["attention", "norm_attention", "ff", "norm_ff"]
    _check_shared(block, {name: getattr(block, name) for name in names})
    return theirs.requires_grad_(False)


def _block_weights(block):
    "The weights of a reader's block, under the names of the right file."
    wide, narrow = _two_linears(block.ff)
    parts = {f"attention.{name}": getattr(block.attention, name) for name in HEADS}
    parts["ff.0"] = wide
    parts["ff.2"] = narrow
    parts["norm_attention"] = block.norm_attention
    parts["norm_ff"] = block.norm_ff
    return _weights_of(parts)


def judge_block(module):
    "Pre-norm, as PyTorch's own layer has it with norm_first=True."
    block = _make(module, "Block", D_MODEL, H, D_FF, 0.0)
    theirs = _their_block(block)
    weights = _block_weights(block)
    x = _random(B, T, D_MODEL)
    later = torch.ones(T, T, dtype=torch.bool).triu(1)

    def right(x, mask=None, is_causal=False):
        pads = None if mask is None else ~mask[:, 0, 0]
        hidden = later if is_causal else None
        return theirs(x, src_mask=hidden, src_key_padding_mask=pads)

    def again(file):
        return _filled(file.Block(D_MODEL, H, D_FF), weights)

    def plain():
        given = _forward(block.eval(), "Block", "x", x)
        return _name(given, right(x), "Block", lambda file: again(file)(x))

    def training():
        if torch.allclose(block.train()(x), right(x), rtol=1e-4, atol=1e-5):
            return None
        return "with dropout=0.0 something is dropped in training; pass dropout on to nn.Dropout"

    return _first(plain, training, lambda: _judge_options(block, "Block", right, again))


def _judge_all_dropped(module, exact, x):
    "With dropout=1.0 both parts give 0 in training, and x is left."
    theirs = _their_block(exact)
    attended = _our_heads(exact.attention)(theirs.norm1(x))
    fed = theirs.linear2(F.gelu(theirs.linear1(theirs.norm2(x))))
    mistakes = [
        ("what the network gives is not dropped; drop it before it's added", x + fed),
        ("what attention gives is not dropped; drop it before it's added", x + attended),
        (
            "you drop numbers of the stream; drop what a part gives, before it's added",
            torch.zeros_like(x),
        ),
    ]
    y = _make(module, "Block", D_MODEL, H, D_FF, 1.0).train()(x)
    for sentence, wrong in [(None, x), *mistakes]:
        if torch.allclose(y, wrong, rtol=1e-4, atol=1e-5):
            return sentence
    return (
        "with dropout=1.0 a block gives x in training, and yours gives something else; drop all "
        "that a part gives, before it's added"
    )


def _silence(linear):
    "Let a linear layer give 0."
    linear.weight.zero_()
    linear.bias.zero_()


def _judge_one_dropout(module, part):
    "With one part alone, dropout=0.5 gives 0 or twice the number, and nothing in between."
    layers = []
    for dropout in [0.0, 0.5]:
        block = _make(module, "Block", D_MODEL, H, D_FF, dropout)
        _, narrow = _two_linears(block.ff)
        _silence(narrow if part == "attention" else block.attention.w_o)
        layers.append(block)
    exact, dropping = layers
    x = _random(B, T, D_MODEL)
    branch = exact.eval()(x) - x
    dropped = dropping.train()(x) - x

    def is_close(factor):
        return torch.isclose(dropped, factor * branch, rtol=1e-3, atol=1e-4)

    if (is_close(0) | is_close(2)).all():
        return None
    if (is_close(0) | is_close(4)).all():
        return f"what {part} gives is dropped twice; once is enough"
    if (is_close(0) | is_close(1)).all():
        return "divide what isn't dropped by 1 - dropout, as nn.Dropout does"
    return f"you drop inside {part}, too; drop only what it gives, before it's added"


@torch.no_grad()
def judge_dropout(module):
    "Dropout: in training alone, and only on what each part gives."
    block = _make(module, "Block", D_MODEL, H, D_FF, 0.5).eval()
    exact = _make(module, "Block", D_MODEL, H, D_FF, 0.0).eval()
    x = _random(B, T, D_MODEL)
    if not torch.allclose(block(x), block(x)):
        return (
            "you drop while evaluating; nn.Dropout stops there by itself, F.dropout needs "
            "training=self.training"
        )
    if not torch.allclose(block(x), exact(x), rtol=1e-4, atol=1e-5):
        return "while evaluating, dropout=0.5 gives other numbers than dropout=0.0"
    block.train()
    if torch.allclose(block(x), block(x)):
        return "dropout=0.5 drops nothing in training"
    return _first(
        lambda: _judge_all_dropped(module, exact, x),
        lambda: _judge_one_dropout(module, "attention"),
        lambda: _judge_one_dropout(module, "the network"),
    )


# ---------------------------------------------------------------- a stack, an encoder


def _their_stack(stack, blocks):
    "PyTorch's encoder with the weights of a reader's stack, as a function."
    norm = nn.LayerNorm(D_MODEL)
    _copy(norm, _part(stack, "Stack", "norm"), "Stack.norm")
    first = _their_block(blocks[0])
    theirs = nn.TransformerEncoder(first, N_LAYERS, norm, enable_nested_tensor=False)
    theirs.layers = nn.ModuleList(_their_block(block) for block in blocks)
    theirs.requires_grad_(False)
    later = torch.ones(T, T, dtype=torch.bool).triu(1)

    def right(x, mask=None, is_causal=False):
        pads = None if mask is None else ~mask[:, 0, 0]
        return theirs(x, mask=later if is_causal else None, src_key_padding_mask=pads)

    return right, norm


def _check_blocks(stack):
    "The blocks of a reader's stack. Raises `MistakeError` unless there are three, all its own."
    blocks = list(_part(stack, "Stack", "blocks"))
    if len(blocks) != N_LAYERS:
        raise MistakeError(
            f"Stack.blocks: expected n_layers = {N_LAYERS} blocks, got {len(blocks)}"
        )
    if len({id(block) for block in blocks}) < N_LAYERS:
        raise MistakeError("all blocks are one and the same; each has weights of its own")
    registered = {id(parameter) for parameter in stack.parameters()}
    for block in blocks:
        if any(id(parameter) not in registered for parameter in block.parameters()):
            raise MistakeError(
                "the stack doesn't know the weights of its blocks; put them in an nn.ModuleList"
            )
    parts = {f"blocks[{i}]": block for i, block in enumerate(blocks)}
    parts["norm"] = _part(stack, "Stack", "norm")
    _check_shared(stack, parts)
    return blocks


def _stack_weights(stack):
    "The weights of a reader's stack, under the names of the right file."
    weights = _weights_of({"norm": stack.norm})
    for i, block in enumerate(stack.blocks):
        for name, weight in _block_weights(block).items():
            weights[f"blocks.{i}.{name}"] = weight
    return weights


def judge_stack(module):
    "Blocks in a row and a last norm, as PyTorch's nn.TransformerEncoder has them."
    stack = _make(module, "Stack", N_LAYERS, D_MODEL, H, D_FF, 0.0).eval()
    blocks = _check_blocks(stack)
    right, norm = _their_stack(stack, blocks)
    weights = _stack_weights(stack)
    x = _random(B, T, D_MODEL)

    def again(file):
        return _filled(file.Stack(N_LAYERS, D_MODEL, H, D_FF), weights)

    def plain():
        given = _forward(stack, "Stack", "x", x)
        return _name(given, right(x), "Stack", lambda file: again(file)(x))

    @torch.no_grad()
    def dropped():
        half = _make(module, "Stack", N_LAYERS, D_MODEL, H, D_FF, 0.5).train()
        if torch.allclose(half(x), half(x)):
            return "dropout=0.5 drops nothing in training; hand dropout on to each Block"
        whole = _make(module, "Stack", N_LAYERS, D_MODEL, H, D_FF, 1.0).train()
        if torch.allclose(whole(x), norm(x), rtol=1e-4, atol=1e-5):
            return None
        return (
            "with dropout=1.0 a stack gives norm(x) in training; hand dropout on to each Block, "
            "and drop nothing else"
        )

    return _first(plain, lambda: _judge_options(stack, "Stack", right, again), dropped)


def _tokens():  # (B, T), the first row ends in two pads
    return torch.tensor([[3, 9, 4, 0, 0], [7, 1, 2, 10, 5]])


def _position_table(encoder):
    "The table of positions, (max_len, d_model)."
    positions = _part(encoder, "Encoder", "positions")
    if isinstance(positions, nn.Embedding):
        positions = positions.weight
    if isinstance(positions, torch.Tensor) and not isinstance(positions, nn.Parameter):
        raise MistakeError(
            "Encoder.positions is a plain tensor, which nobody trains or saves; make it an "
            "nn.Parameter"
        )
    if not isinstance(positions, nn.Parameter) or tuple(positions.shape) != (MAX_LEN, D_MODEL):
        got = getattr(positions, "shape", None)
        got = type(positions).__name__ if got is None else tuple(got)
        raise MistakeError(
            f"Encoder.positions: expected an nn.Parameter (max_len, d_model), got {got}"
        )
    return positions.detach()


def _make_encoder(module, dropout=0.0):
    sizes = (VOCAB, MAX_LEN, N_LAYERS, D_MODEL, H, D_FF, dropout)
    return _make(module, "Encoder", *sizes)


def _run_encoder(encoder, tokens, **options):
    "Call a reader's encoder, and name a mask that its stack cannot use."
    shapes = []

    def note_shape(stack, args, options):
        mask = args[1] if len(args) > 1 else options.get("mask")
        if isinstance(mask, torch.Tensor):
            shapes.append(tuple(mask.shape))

    hook = encoder.stack.register_forward_pre_hook(note_shape, with_kwargs=True)
    try:
        return _forward(encoder, "Encoder", "tokens", tokens, sentences=POSITION_ERRORS, **options)
    except RuntimeError as error:
        words = {(B, T): "(B, T)", (B, 1, T): "(B, 1, T)"}
        if shapes and shapes[0] in words:
            sentence = f"your mask is {words[shapes[0]]}; it needs (B, 1, 1, T)"
            raise MistakeError(sentence) from error
        raise
    finally:
        hook.remove()


def judge_encoder(module):
    "Vectors, positions, and pads that nobody attends to."
    encoder = _make_encoder(module).eval()
    table = _position_table(encoder)
    embedding = _part(encoder, "Encoder", "tokens")
    if not isinstance(embedding, nn.Embedding) or embedding.weight.shape != (VOCAB, D_MODEL):
        raise MistakeError("Encoder.tokens: expected an nn.Embedding(vocab_size, d_model)")
    stack = _part(encoder, "Encoder", "stack")
    if not isinstance(stack, nn.Module):
        raise MistakeError(f"Encoder.stack: expected a Stack, got {type(stack).__name__}")
    parts = {"tokens": embedding, "positions": encoder.positions, "stack": stack}
    _check_shared(encoder, parts)
    tokens = _tokens()
    real = (tokens != 0)[:, None, None]  # (B, 1, 1, T)
    x = embedding.weight.detach()[tokens] + table[:T]  # (B, T, d_model)
    weights = {"tokens.weight": embedding.weight.detach(), "positions": table}
    for name, weight in _stack_weights(stack).items():
        weights[f"stack.{name}"] = weight

    def again(file):
        return _filled(file.Encoder(VOCAB, MAX_LEN, N_LAYERS, D_MODEL, H, D_FF), weights)

    @torch.no_grad()
    def compare(**options):
        given = _run_encoder(encoder, tokens, **options)
        right = stack(x, mask=real, **options)
        return _name(given, right, "Encoder", lambda file: again(file)(tokens, **options))

    @torch.no_grad()
    def dropped():
        half = _make_encoder(module, 0.5).train()
        if torch.allclose(half(tokens), half(tokens)):
            return "dropout=0.5 drops nothing in training; hand dropout on to the Stack"
        y = _make_encoder(module, 1.0).train()(tokens)
        if torch.allclose(y, stack.norm(x), rtol=1e-4, atol=1e-5):
            return None
        return (
            "with dropout=1.0 an encoder gives stack.norm(x) in training, where x are the vectors "
            "of tokens and positions; hand dropout on to the Stack, and drop nothing else"
        )

    return _first(compare, lambda: compare(is_causal=True), dropped)


def judge_learning(module):
    "Each weight gets a gradient, a text is the same alone and in company, and no future leaks."
    encoder = _make_encoder(module).eval()
    tokens = _tokens()
    y = encoder(tokens)
    if not y.requires_grad:
        return "nothing learns: no gradient leaves the output; leave out detach, .data and no_grad"
    (y * torch.randn_like(y)).sum().backward()
    unused = [name for name, weight in encoder.named_parameters() if weight.grad is None]
    if unused:
        return (
            f"{unused[0]} gets no gradient: the output doesn't depend on it, or detach, .data or "
            "no_grad cuts the way"
        )
    with torch.no_grad():
        alone = encoder(tokens[:1, :3])
        if not torch.allclose(alone, y[:1, :3], rtol=1e-4, atol=1e-5):
            return "a text alone gets other vectors than in a batch with pads"
        before = encoder(tokens, is_causal=True)
        changed = tokens.clone()
        changed[1, 3] = 6
        after = encoder(changed, is_causal=True)
        if not torch.allclose(before[1, :3], after[1, :3], rtol=1e-4, atol=1e-5):
            return "with is_causal a later token changes the vectors of earlier ones"
        if torch.allclose(before[1, 3:], after[1, 3:]):
            return "with is_causal a token doesn't change its own vector"
    return None


TESTS = [
    Test("attention_weights", judge_weights),
    Test("attention_weights, mask", judge_mask, (1,)),
    Test("attention_weights, is_causal", judge_causal, (1, 2)),
    Test("attention_weights, a row with nothing", judge_empty, (1, 2)),
    Test("attention", judge_attention, (1, 2, 3, 4)),
    Test("MultiHeadAttention", judge_heads, (1,)),
    Test("MultiHeadAttention, mask and is_causal", judge_heads_options, (5, 6)),
    Test("Block, beside PyTorch's", judge_block, (7,)),
    Test("Block, dropout", judge_dropout, (8,)),
    Test("Stack, beside PyTorch's", judge_stack, (9,)),
    Test("Encoder", judge_encoder, (10,)),
    Test("Encoder, what learns and what leaks", judge_learning, (11,)),
]


@exercise(
    "A",
    "Begin with the first test that doesn't pass. The ones below wait for it.",
    "Lessons 02 and 04 have attention, 03 the heads, 05 the positions, 06 the block and the stack. "
    "Look, close the page, and write from memory.",
    "The solutions page has a whole file.",
)
def judge_a(answer):
    "Judge a file that holds an encoder."
    return show_results(TESTS, run_file(answer, __name__))
