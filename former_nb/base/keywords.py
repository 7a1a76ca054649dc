"""A keyword that a function doesn't have is answered by the one that it has."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

__all__ = ["explain_keywords"]

P = ParamSpec("P")
R = TypeVar("R")

OTHER_NAMES = {  # what other libraries and older versions call it -> what to write
    "beam_size": "num_beams",
    "beam_width": "num_beams",
    "beams": "num_beams",
    "n_beams": "num_beams",
    "eos_token_id": "eos_token_ids",
    "pad_token_id": "suppress_tokens",
    "bad_words_ids": "suppress_tokens",
    "input_ids": "prompts",
    "inputs": "prompts",
    "idx": "prompts",
    "text": "prompts",
    "prompt": "prompts",
    "tokens": "prompts",
    "lines": "sentences",
    "sentences": "lines",
    "sources": "sentences",
    "texts": "sentences",
    "names": "labels",
    "classes": "labels",
    "class_names": "labels",
    "max_length": "max_new_tokens",
    "max_new_token": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "num_tokens": "max_new_tokens",
    "n_return_sequences": "num_return_sequences",
    "past_key_values": "cache",
    "kv_cache": "cache",
    "do_sample": "pick=Sampling()",
    "min_p": "pick=Sampling(min_p=…)",
    "repetition_penalty": "pick",
    "sampling": "pick",
    "seed": "pick=Sampling(seed=…)",
    "temperature": "pick=Sampling(temperature=…)",
    "top_k": "pick=Sampling(top_k=…)",
    "top_p": "pick=Sampling(top_p=…)",
}


def explain_keywords(
    function: Callable[P, R],
) -> Callable[P, R]:  # the same
    "Decorate a function: a keyword that it doesn't have is a `TypeError` that names the right one."
    known = signature(function).parameters

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in kwargs.items():
            if name not in known:
                raise TypeError(explain(name, value, function.__name__, list(known)))
        return function(*args, **kwargs)

    return call


def explain(name, value, function, known):
    "One sentence: what to write in the place of a keyword that a function doesn't have."
    other = OTHER_NAMES.get(name, "")
    if other.partition("=")[0] not in known:
        other = "".join(get_close_matches(name, known, 1))
    wanted = f"{other}, as `{function}` calls it" if other else f"one of {', '.join(known)}"
    return f"{name}: expected {wanted}, got {value!r:.60}"
