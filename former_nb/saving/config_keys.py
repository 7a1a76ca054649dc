"""Which keys of another program's config.json we use, which are harmless, and which are refused.

A key that nobody reads can be a model that computes something else than ours. A key is *used*,
where a family names it (families.toml). Of the others, one that is null, false, empty, 0, 1 or
private (`_commit_hash`) says nothing about the model. If the name of a key has a word of what
models compute, such as *attention* or *scale*, it is refused, unless it is known to be *harmless*
because Transformers computes the same with it and without it. Whoever knows that of another one
deletes it from the file. All other keys are notes of training scripts.
"""

import re
from typing import Any

from ..base.guards import check_that
from .families import Family

__all__ = ["TOKENS", "refuse_unknown", "refuse_windows", "generation_notes"]

HARMLESS = {  # no value of these keys changes a number, although their names have such a word
    *"initializer_factor chunk_size_feed_forward num_logits_to_keep output_hidden_states".split(),
    *"attn_implementation use_flash_attn use_flash_attention use_flash_attention_2".split(),
    *"reorder_and_upcast_attn summary_activation mask_token_id".split(),
    # other words for sizes, which the shapes of the tensors prove
    *"hidden_size embedding_size num_hidden_layers n_layer num_layers".split(),
    *"num_attention_heads n_head max_position_embeddings n_positions decoder_vocab_size".split(),
    # a window, which `refuse_windows` looks at
    *"sliding_window use_sliding_window max_window_layers layer_types".split(),
}
TOKENS = {  # keys that say which tokens begin and end a text, and which are never written
    *"bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_bos_token_id".split(),
    *"suppress_tokens bad_words_ids".split(),
}
NOT_APPLIED: dict[str, Any] = {  # keys of a text that our loops don't know -> what changes nothing
    "repetition_penalty": 1,
    "encoder_repetition_penalty": 1,
    "length_penalty": 1,
    "guidance_scale": 1,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "diversity_penalty": 0,
    "begin_suppress_tokens": None,
    "forced_decoder_ids": None,
    "exponential_decay_length_penalty": None,
    "sequence_bias": None,
    "token_healing": None,
    "watermarking_config": None,
    "stop_strings": None,
    "constraints": None,
    "force_words_ids": None,
    "penalty_alpha": None,
    "dola_layers": None,
}
WORDS = """attention attn qk qkv kv query key value head heads mask causal bidirectional window
sliding bias norm layernorm rope rotary mrope alibi position positions positional embedding
embeddings embd emb scale scaling multiplier factor softcap softcapping cap clip logit logits
residual parallel layer layers mlp ffn act activation gate hidden dim width expert experts moe
router conv ssm mamba linear recurrent lora adapter adapters quant quantization compression sparse
chunk shared share tie tied decoder""".split()  # in the name of a key: it may say what the model
# computes
SLIDING = "sliding_attention"  # as `layer_types` calls a layer with a window


def _used_by(family):
    "The keys of config.json that a family names, or that every family has."
    names = {*family.fields.values(), *family.arguments.values(), *family.defaults}
    names |= {*family.fixed, *family.written, *family.written_as}
    names |= {*family.same, *family.same.values(), *family.harmless}
    names |= {"architectures", "model_type", "tie_word_embeddings", "id2label", "label2id"}
    names |= TOKENS | {"num_labels", "problem_type", "is_causal", "is_encoder_decoder"}
    if family.shape.get("positions") == "rotary":
        names |= {"rope_theta", "rope_scaling", "rope_parameters"}
        names.add("original_max_position_embeddings")
    if "bias" not in family.shape:
        names |= {"attention_bias", "mlp_bias"}
    return names


def refuse_unknown(
    saved: dict,  # what config.json holds
    family: Family,
) -> None:
    "Raise `ValueError` for a key that may change numbers and that nothing reads."
    known = {*HARMLESS, *NOT_APPLIED, *_used_by(family)}
    for key, value in saved.items():
        training = re.search(r"(dropout|pdrop|layerdrop|dropout_prob|_drop)$", key)
        off = value is not True and value in (None, False, 0, 1, "", [], {})
        if key in known or training or key.startswith("_") or off:
            continue
        speaks = any(word in WORDS for word in re.split(r"[_.\-]", key.lower()))
        expected = "no such key: it is unknown here and speaks of what a model computes"
        check_that(not speaks, key, expected, value)


def refuse_windows(
    saved: dict,  # what config.json holds
    family: Family,
) -> None:
    """Raise `ValueError` for a window that hides something: one shorter than the context.

    In some families each layer has a window or none. Then it is in force where `use_sliding_window`
    says so, and in the layers that `layer_types` names or that follow the first
    `max_window_layers`.
    """
    theirs = {**family.defaults, **saved}
    length = theirs.get(family.fields.get("max_len"))
    n_layers = theirs.get(family.fields.get("n_layers"))
    kinds = theirs.get("layer_types") or []
    known = isinstance(kinds, list) and {*map(str, kinds)} <= {"full_attention", SLIDING}
    check_that(known, "layer_types", f"'full_attention' or {SLIDING!r} for each layer", kinds)
    window = theirs.get("sliding_window")
    if window is None or _at_least(window, length):
        return
    if not family.windowed:
        first = theirs.get("max_window_layers")
        without = SLIDING not in kinds if kinds else _at_least(first, n_layers)
        if without or theirs.get("use_sliding_window") is False:
            return
    check_that(False, "sliding_window", f"None, or the context's {length} tokens or more", window)


def _at_least(number, least):
    return isinstance(number, int) and isinstance(least, int) and number >= least


def generation_notes(
    saved: dict,  # what generation_config.json holds, or config.json where there is none
) -> list[str]:  # such as 'min_length = 56'
    "The settings of a file that our decoding loops don't follow."
    notes = []
    for key, value in saved.items():
        if key in NOT_APPLIED and value is not None and value != NOT_APPLIED[key]:
            notes.append(f"{key} = {value!r:.40}")
    return notes
