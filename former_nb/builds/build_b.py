"""Build B: twelve tests of a decoder that a reader has written in one file, and that reads weights
of Hugging Face's.

Most tests write a small random Llama and change one number of its configuration, so that what is
wrong shows where it matters. If logits differ, we compute what each likely mistake gives, alone and
with each other one, and name what matches.
"""

import inspect
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import torch

from ..base.exercises import MistakeError, call_answer, exercise, explain_error
from ..base.files import find_model
from .process import Test, run_file, show_results
from .small_llama import (
    GENERATE_MISTAKES,
    MISTAKES,
    SIZES,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)

__all__ = [
    "EXAMPLE",
    "REFUSED",
    "TESTS",
]

EXAMPLE = "decoder.py"  # how the page calls the reader's file
REFUSED = ("former_nb", "transformers")  # what it may not import

SIGNATURES = {"load": "(folder)", "generate": "(model, tokens, n)"}
B = 2  # rows of most tests
T = 7  # tokens in a row

LATE = "positions begin with 1; the first is 0"
VALUES = "the values are turned, too; turn queries and keys alone"

# PyTorch's words for a mistake that raises, and the mistake.
_DTYPE = "the file has another type of numbers; make each tensor float32, with .float()"
_SHARED = (
    "there are fewer heads of keys and values than of queries, num_key_value_heads; repeat each "
    "with repeat_interleave(n, dim=1)"
)
_TIED = "with tie_word_embeddings there is no lm_head.weight; the head is model.embed_tokens.weight"
_HEAD_DIM = (
    "config.json may lack head_dim, or have null; then it's hidden_size // num_attention_heads"
)
_KEYS = "k_proj and v_proj give num_key_value_heads · head_dim numbers"
_WIDTH = "q_proj gives num_attention_heads · head_dim numbers, which need not be hidden_size"
ERRORS = {
    "mat1 and mat2 shapes cannot": "a weight is (out, in); compute x @ w.T, or F.linear(x, w)",
    "to have the same dtype": _DTYPE,
    "expected scalar type": _DTYPE,
    "should have the same dtype": _DTYPE,
    "Unexpected key(s)": "the file has a weight that your model lacks; the names are on the page",
    "'lm_head.weight'": _TIED,
    '"lm_head.weight"': _TIED,
    "'head_dim'": _HEAD_DIM,
    "size mismatch for": "a weight has another shape in the file than in your model; the sizes are "
    "hidden_size, intermediate_size and vocab_size of config.json",
    "Missing key(s)": "your model has a weight that the file doesn't; the names are on the page",
    "got 2 and 1": "argmax(dim=-1) gives (B,); with keepdim=True it's (B, 1), which cat can append",
    "tensors used as indices must be": "a token is a whole number; argmax gives it, max the logit",
    "for +: 'PosixPath' and 'str'": "the folder is a Path; write folder / 'config.json'",
    "for +: 'WindowsPath' and 'str'": "the folder is a Path; write folder / 'config.json'",
}


@contextmanager
def _checkpoint(**settings) -> Iterator[tuple[Path, Checkpoint]]:
    "A folder with a small random Llama, and what it gives."
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        yield path, write_checkpoint(path, **settings)


def _tokens(llama, rows=B, length=T, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(llama.config["vocab_size"], (rows, length), generator=generator)


# ---------------------------------------------------------------- a reader's code


def _run(function, *inputs, more=None):
    "Call a reader's code on copies. An error whose words we know becomes the mistake behind it."
    sentences = dict(ERRORS)
    sentences.update(more or {})
    try:
        with torch.no_grad():
            return call_answer(function, *inputs)
    except (LookupError, TypeError, RuntimeError) as error:
        raise MistakeError(explain_error(error, sentences)) from error


def _find(module, name, n):
    "What the file calls `name`, a function of n arguments."
    if not hasattr(module, name):
        raise MistakeError(f"your file defines no {name}{SIGNATURES[name]}")
    function = getattr(module, name)
    try:
        inspect.signature(function).bind(*range(n))
    except TypeError:
        came = inspect.signature(function) if callable(function) else type(function).__name__
        sentence = f"{name}: expected the arguments {SIGNATURES[name]}, yours has {came}"
        raise MistakeError(sentence) from None
    return function


def _load(module, folder, more=None):
    "The reader's model of a folder."
    model = _run(_find(module, "load", 1), folder, more=more)
    if model is None:
        raise MistakeError("load returned nothing; end it with `return` and the model")
    if not callable(model):
        came = type(model).__name__
        raise MistakeError(f"load returned a {came}, which model(tokens) cannot call")
    return model


def _logits(model, tokens, vocab_size, more=None):
    "The reader's logits. Raises `MistakeError` unless they are of the right shape and type."
    y = _run(model, tokens, more=more)
    if y is None:
        raise MistakeError("model(tokens) returned nothing; end it with `return` and the logits")
    if not isinstance(y, torch.Tensor):
        came = type(y).__name__
        raise MistakeError(f"model(tokens): expected a tensor of logits, got {came}")
    shape = (*tokens.shape, vocab_size)
    if y.shape != shape:
        came = tuple(y.shape)
        raise MistakeError(f"model(tokens): expected logits of shape {shape}, got {came}")
    if y.dtype in (torch.float16, torch.bfloat16):
        raise MistakeError(f"the logits are {y.dtype}; make each tensor float32, with .float()")
    if not y.is_floating_point():
        raise MistakeError(f"model(tokens): expected floats, got {y.dtype}")
    if not y.isfinite().all():
        raise MistakeError("the logits hold NaN or infinity; is there a row without any key?")
    return y.float()


# ---------------------------------------------------------------- naming


def _far(a, b):
    "The largest difference, as a share of the spread of the right logits."
    return ((a - b).abs().max() / b.std()).item()


EXACT = 2e-4  # of the spread: more than float32 loses in twelve layers
ROUGH = 0.1  # of the spread: what two or three digits lose


def _name(given, llama, tokens, candidates=None):
    """None if logits are right, the sentence of the mistakes that give them, or how far they are.

    Two mistakes at once are looked for among `candidates`.
    """
    right = llama(tokens)
    if _far(given, right) < EXACT:
        return None

    def is_it(*mistakes):
        try:
            wrong = llama(tokens, *mistakes)
        except Exception:  # noqa: BLE001, sizes that don't allow it, or two edits that make no sense
            return False
        return bool(wrong.isfinite().all()) and _far(given, wrong) < EXACT

    for mistake in MISTAKES:
        if is_it(mistake):
            return mistake
    if _far(given, right.softmax(-1)) < EXACT or _far(given, right.log_softmax(-1)) < EXACT:
        return "those are probabilities; return the logits, without softmax"
    far = _far(given, right)
    if far < ROUGH:
        return (
            f"the logits are right to {far:.1g} of their spread, no more; compute in float32, the "
            "norms and the softmax, too"
        )
    for first, second in combinations(candidates or (), 2):
        if is_it(first, second):
            return f"two mistakes: {first}. And {second}"
    return (
        f"the logits differ by up to {(given - right).abs().max():.3g}, and none of the likely "
        "mistakes gives yours"
    )


def _visible(llama, tokens):
    "The mistakes that change these logits."
    right = llama(tokens)
    names = []
    for mistake in MISTAKES:
        try:
            wrong = llama(tokens, mistake)
        except RuntimeError:  # not at these sizes
            continue
        if not _far(wrong, right) < EXACT:
            names.append(mistake)
    return names


def _compare(module, folder, llama, tokens, more=None, candidates=None):
    "Load a folder by the reader's code and name what is wrong with its logits."
    model = _load(module, folder, more)
    given = _logits(model, tokens, llama.config["vocab_size"], more)
    return _name(given, llama, tokens, candidates)


# ---------------------------------------------------------------- the tests


def _wrong_axis():
    "PyTorch's words where the angles of T tokens meet the axis of heads, and the mistake."
    heads = SIZES["num_attention_heads"]
    sentence = f"the angles of {T} tokens meet {heads} heads; turn (B, h, T, head_dim)"
    return {
        f"tensor a ({heads}) must match the size of tensor b ({T})": sentence,
        f"tensor a ({T}) must match the size of tensor b ({heads})": sentence,
    }


def judge_load(module):
    "load returns what gives logits, and the same ones each time, from the file."
    sizes = _wrong_axis()
    with _checkpoint() as (folder, llama), _checkpoint(seed=5) as (other, _):
        tokens = _tokens(llama)
        vocab_size = llama.config["vocab_size"]
        given = _logits(_load(module, folder), tokens, vocab_size, sizes)
        again = _logits(_load(module, folder), tokens, vocab_size, sizes)
        if not torch.equal(given, again):
            return (
                "two calls of load give different logits, so some weights are random; all of them "
                "are in model.safetensors"
            )
        if torch.equal(given, _logits(_load(module, other), tokens, vocab_size)):
            return "another model.safetensors gives the same logits; read the weights from it"
    return None


def judge_one_token(module):
    "A row of one token attends to itself, so positions and masks do not matter."
    with _checkpoint() as (folder, llama):
        tokens = _tokens(llama, length=1)
        candidates = _visible(llama, tokens)
        candidates += [LATE, VALUES]  # which show only together
        return _compare(module, folder, llama, tokens, candidates=candidates)


def judge_several(module):
    "Positions, the causal mask and the scale."
    sizes = _wrong_axis()
    with _checkpoint() as (folder, llama):
        tokens = _tokens(llama)
        excluded = _visible(llama, tokens[:, :1])  # the test before this one has
        candidates = [mistake for mistake in MISTAKES if mistake not in excluded]
        return _compare(module, folder, llama, tokens, sizes, candidates)


def judge_base(module):
    "Another rope_theta, and more than ten layers."
    with _checkpoint(rope_theta=300.0, num_hidden_layers=12, size=2.0) as (folder, llama):
        return _compare(module, folder, llama, _tokens(llama))


def judge_eps(module):
    "An eps that matters. The embeddings are so small that constants differ from each other, too."
    with _checkpoint(rms_norm_eps=2e-5, size=3e-4) as (folder, llama):
        return _compare(module, folder, llama, _tokens(llama))


def judge_shared(module):
    "Heads that share keys and values: two of them, and one."
    for n_kv_heads in (2, 1):
        with _checkpoint(num_key_value_heads=n_kv_heads) as (folder, llama):
            sizes = {
                f"tensor a (6) must match the size of tensor b ({n_kv_heads})": _SHARED,
                f"must match the size of tensor a (6), size of tensor b ({n_kv_heads})": _SHARED,
                "shape '[": _KEYS,
                "multiply up to": _KEYS,
                "size mismatch for": _KEYS,
            }
            problem = _compare(module, folder, llama, _tokens(llama), sizes)
            if problem is not None:
                return f"with {n_kv_heads} of 6 heads: {problem}"
    return None


def judge_head_dim(module):
    "Heads of a width of their own."
    sizes = {
        "mat1 and mat2 shapes cannot": _WIDTH,
        "shape '[": _WIDTH,
        "size mismatch for": _WIDTH,
        "must match the size of tensor": _WIDTH,
        "multiply up to": _WIDTH,
    }
    for head_dim in (8, None):
        with _checkpoint(head_dim=head_dim, num_key_value_heads=3) as (folder, llama):
            problem = _compare(module, folder, llama, _tokens(llama), sizes)
            if problem is not None:
                return f"with head_dim {head_dim}: {problem}"
    return None


def judge_tied(module):
    "A file without a head."
    with _checkpoint(tie_word_embeddings=True) as (folder, llama):
        tokens = _tokens(llama)
        vocab_size = llama.config["vocab_size"]
        given = _logits(_load(module, folder), tokens, vocab_size)
        again = _logits(_load(module, folder), tokens, vocab_size)
        if not torch.equal(given, again):
            return f"the head is random; {_TIED}"
        return _name(given, llama, tokens)


def judge_precision(module):
    "Files of half the size, computed in float32."
    for dtype in (torch.bfloat16, torch.float16):
        with _checkpoint(dtype=dtype, num_hidden_layers=3) as (folder, llama):
            problem = _compare(module, folder, llama, _tokens(llama))
            if problem is not None:
                return f"with a file of {dtype}: {problem}"
    return None


def _shipped():
    "The folder of the model that ships, and its numbers."
    folder = find_model("shakespeare")
    return folder, read_checkpoint(folder)


def judge_shipped(module):
    "Trained weights."
    folder, llama = _shipped()
    return _compare(module, folder, llama, _tokens(llama, length=12))


def judge_rows(module):
    "Rows, lengths and calls do not touch each other."
    with _checkpoint(num_key_value_heads=2) as (folder, llama):
        model = _load(module, folder)
        vocab_size = llama.config["vocab_size"]
        longest = llama.config["max_position_embeddings"]
        tokens = _tokens(llama, rows=3, length=longest)

        sentence = f"{longest} tokens, max_position_embeddings, are too many; is a table too short?"
        sizes = {f"({longest})": sentence, "out of range": sentence}

        def logits(tokens):
            return _logits(model, tokens, vocab_size, sizes)

        whole = logits(tokens)
        right = llama(tokens)
        if _far(logits(tokens), whole) > EXACT:
            return "a second call with the same tokens gives other logits; keep nothing in model"
        if _far(logits(tokens[1:2]), whole[1:2]) > EXACT:
            return "a row alone gets other logits than in a batch"
        if _far(logits(tokens[:, :4]), whole[:, :4]) > EXACT:
            return "the logits of the first tokens depend on how many follow"
        changed = tokens.clone()
        changed[:, 9] = (tokens[:, 9] + 1) % vocab_size
        if _far(logits(changed)[:, :9], whole[:, :9]) > EXACT:
            return "a later token changes the logits of earlier ones"
        other = tokens.flip(0, 1)
        given = logits(other)
        if _far(given, whole) <= EXACT:
            return "another text of the same shape gets the logits of the first; keep none of them"
        if _far(whole, right) > EXACT:
            return f"with {longest} tokens: {_name(whole, llama, tokens)}"
        if _far(given, llama(other)) > EXACT:
            return "the logits of one text depend on the texts before it; keep nothing in model"
    return None


NEW = 9  # tokens that generate appends; some of its mistakes say so


def _judge_generated(generate, model, llama, tokens):
    "None, or what is wrong with the tokens that a reader's `generate` appends."
    given = _run(generate, model, tokens, NEW)
    if given is None:
        return "generate returned nothing; end it with `return` and the tokens"
    if isinstance(given, list):
        given = torch.tensor(given)
    if not isinstance(given, torch.Tensor):
        return f"generate: expected tokens (B, T + n), got {type(given).__name__}"
    if given.is_floating_point():
        return "generate: expected whole numbers, got floats; argmax, not max"
    right = llama.generate(tokens, NEW)
    if given.shape == right.shape and torch.equal(given, right):
        return None
    for mistake in GENERATE_MISTAKES:
        try:
            wrong = llama.generate(tokens, NEW, mistake)
        except IndexError:  # a prompt of one token has none before it
            continue
        if given.shape == wrong.shape and torch.equal(given, wrong):
            return mistake
    if given.shape != right.shape:
        shape = tuple(given.shape)
        return f"generate: expected tokens of shape {tuple(right.shape)}, got {shape}"
    if not torch.equal(given[:, : tokens.shape[1]], tokens):
        return "generate: the prompt comes first, as it was"
    again = _run(generate, model, tokens, NEW)
    if not torch.equal(torch.as_tensor(again), given):
        return "two calls give different tokens; take the likeliest with argmax, draw nothing"
    n = (given == right).all(0).long().cumprod(0).sum().item() - tokens.shape[1]
    return f"{n} of {NEW} new tokens are right, then another one is appended"


def judge_generate(module):
    "The likeliest token, n times."
    generate = _find(module, "generate", 3)
    with _checkpoint(seed=3, num_key_value_heads=2, rope_theta=50.0) as (folder, llama):
        model = _load(module, folder)
        for rows, length in ((3, 6), (1, 1)):
            tokens = _tokens(llama, rows, length, seed=4)
            problem = _judge_generated(generate, model, llama, tokens)
            if problem is not None:
                return f"with a prompt {(rows, length)}: {problem}"
    folder, llama = _shipped()
    tokens = _tokens(llama, 2, 5, seed=2)
    problem = _judge_generated(generate, _load(module, folder), llama, tokens)
    return problem and f"with the model that ships: {problem}"


TESTS = [
    Test("load, and model(tokens)", judge_load),
    Test("logits, one token", judge_one_token, (1,)),
    Test("logits, several tokens", judge_several, (2,)),
    Test("another rope_theta, twelve layers", judge_base, (3,)),
    Test("another rms_norm_eps", judge_eps, (3,)),
    Test("fewer heads of keys and values", judge_shared, (3,)),
    Test("head_dim in config.json", judge_head_dim, (6,)),
    Test("a tied head", judge_tied, (3,)),
    Test("files in bfloat16 and float16", judge_precision, (3,)),
    Test("the model that ships", judge_shipped, (4, 5, 6, 8, 9)),
    Test("rows, lengths, calls", judge_rows, (6,)),
    Test("generate", judge_generate, (10, 11)),
]


@exercise(
    "B",
    "Begin with the first test that doesn't pass. The ones below wait for it.",
    "A row of one token needs no positions and no mask, so test 2 shows whether norms, network and "
    "head are right. Only then look at the attention.",
    "The page has a table of the names and a list of the conventions. Most of what goes wrong is "
    "on that list.",
    "The solutions page has a whole file.",
)
def judge_b(answer):
    "Judge a file that loads a Llama."
    return show_results(TESTS, run_file(answer, __name__))
