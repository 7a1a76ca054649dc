"""Which keys of another program's config.json we use, which are harmless, and which are refused.

A key that nobody reads can be a model that computes something else than ours. So each key is one of
three. It is *used*, where a family names it (families.toml). It is *harmless*, at any value or at
those that are listed here, because Transformers computes the same with it and without it. Anything
else is refused by its name.

What about keys that nobody knows? Training scripts leave their own notes in many published files,
so a rule that refused them all would refuse models whose numbers are right. A key that is null,
empty or private (`_commit_hash`) says nothing about the model. If its name has a word of what
models compute, such as *attention* or *scale*, and it isn't switched off, it is refused. Whoever
knows that it changes nothing deletes it from the file. All others are listed in one warning.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from ..base.guards import check_that
from .families import FAMILIES, Family

__all__ = ["TOKENS", "list_keys", "refuse_unknown", "refuse_windows", "generation_notes"]

HARMLESS = {  # why no value of these keys changes a number -> the keys
    "says where the file comes from": "name name_or_path model_name author license language "
    "finetuning_task task_specific_params unsloth_version unsloth_fixed transformers.js_config "
    "is_llama_config trust_remote_code",
    "says how numbers are stored, as the weights do": "dtype torch_dtype use_bfloat16",
    "acts in training alone": "initializer_range initializer_factor init_std "
    "gradient_checkpointing use_gradient_checkpointing save_step label_smoothing "
    "neftune_noise_alpha",
    "says how to compute, with the same result": "use_cache chunk_size_feed_forward "
    "attn_implementation use_flash_attn use_flash_attention use_flash_attention_2 "
    "reorder_and_upcast_attn torchscript",
    "says what else a call returns": "output_attentions output_hidden_states output_past "
    "num_logits_to_keep return_dict use_return_dict",
    "is an older word for the length of a text": "n_ctx seq_length max_seq_len max_seq_length "
    "max_sequence_length model_max_length",
    "is of the tokenizer": "tokenizer_class prefix sep_token_id cls_token_id mask_token_id "
    "unk_token_id bos_token eos_token pad_token chat_template padding_side",
    "is of TensorFlow": "tf_legacy_loss xla_device",
    "belongs to parts that no model of ours has": "summary_type summary_use_proj "
    "summary_activation summary_proj_to_labels",
}
TOKENS = {  # keys that say which tokens begin and end a text, and which are never written
    *"bos_token_id eos_token_id pad_token_id decoder_start_token_id forced_bos_token_id".split(),
    *"suppress_tokens bad_words_ids".split(),
}
GENERATION = {  # keys of generation_config.json that `generate` has as arguments, or in caches
    *"forced_eos_token_id force_bos_token_to_be_generated max_length max_new_tokens".split(),
    *"max_time do_sample num_beams num_beam_groups".split(),
    *"early_stopping temperature top_k top_p min_p top_h typical_p epsilon_cutoff".split(),
    *"eta_cutoff num_return_sequences renormalize_logits remove_invalid_values".split(),
    *"use_cache cache_implementation cache_config max_cache_len return_legacy_cache".split(),
    *"output_attentions output_hidden_states output_scores output_logits".split(),
    *"return_dict_in_generate is_assistant num_assistant_tokens".split(),
    *"num_assistant_tokens_schedule assistant_confidence_threshold".split(),
    *"prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit".split(),
    *"assistant_lookbehind target_lookbehind assistant_ensemble_weight".split(),
    *"speculation_type use_mtp compile_config disable_compile prefill_chunk_size".split(),
    *"continuous_batching_config low_memory transformers_version trust_remote_code".split(),
}
NOT_APPLIED: dict[str, Any] = {  # keys that our loops don't know -> what changes no text
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
ONLY: dict[str, tuple] = {  # key -> the values at which it changes nothing, besides null
    "pruned_heads": ({},),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (),
    "tie_encoder_decoder": (False,),
    "attention_chunk_size": (),
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "partial_rotary_factor": (1,),
    "rope_interleaved": (False,),
    "rotary_pct": (1,),
    "use_mrope": (False,),
    "output_router_logits": (False,),
    "pretraining_tp": (1,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "qk_norm": (False,),
    "use_qk_norm": (False,),
    "qk_layernorm": (False,),
    "qkv_bias": (False,),
    "parallel_attn": (False,),
    "use_parallel_residual": (False,),
    "multi_query": (False,),
    "alibi": (False,),
    "embedding_multiplier": (1,),
    "residual_multiplier": (1,),
    "logits_scaling": (1,),
    "logit_scale": (1,),
}
PACKED = ("quantization_config", "quantization", "compression_config")  # no plain numbers
ALIKE = {  # field of `TransformerConfig` -> other words for it, which may repeat its value
    "d_model": "hidden_size n_embd d_model embedding_size",
    "n_layers": "num_hidden_layers n_layer num_layers",
    "n_heads": "num_attention_heads n_head",
    "vocab_size": "vocab_size decoder_vocab_size",
    "max_len": "max_position_embeddings n_positions",
}
WORDS = """attention attn qk qkv kv query key value head heads mask causal bidirectional window
sliding bias norm layernorm rope rotary mrope alibi position positions positional embedding
embeddings embd emb scale scaling multiplier factor softcap softcapping cap clip logit logits
residual parallel layer layers mlp ffn act activation gate hidden dim width expert experts moe
router conv ssm mamba linear recurrent lora adapter adapters quant quantization sparse chunk shared
share tie tied""".split()  # in the name of a key: it may say what the model computes
WINDOWS = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
SLIDING = "sliding_attention"  # as `layer_types` calls a layer with a window


class Rule(NamedTuple):
    "When a key changes no number that we compute."

    words: str
    fits: Callable[[Any], bool]


def _always(words):
    return Rule(words, lambda value: True)


def _one_of(values):
    "That a key has one of these values. True is not 1, though Python takes them for equal."
    texts = ["null", *map(repr, values)]

    def fits(value):
        return value is None or any(
            value == known and isinstance(value, bool) == isinstance(known, bool)
            for known in values
        )

    return Rule(f"harmless: {' or '.join(texts)}", fits)


def _used_by(family):
    "The keys of config.json that a family names, or that every family has."
    names = {*family.fields.values(), *family.arguments.values(), *family.defaults}
    names |= {*family.fixed, *family.covered, *family.null, *family.written, *family.written_as}
    names |= {*family.same, *family.same.values()}
    names |= {"architectures", "model_type", "tie_word_embeddings", "id2label", "label2id"}
    names |= TOKENS | {"num_labels", "problem_type", "is_causal", "is_encoder_decoder"}
    if family.shape.get("positions") == "rotary":
        names |= {"rope_theta", "rope_scaling", "rope_parameters"}
        names.add("original_max_position_embeddings")
    if "bias" not in family.shape:
        names |= {"attention_bias", "mlp_bias"}
    return names


def _rules(family, sizes):
    "Key -> its rule, for a family and the values of its `fields`; the last that is named counts."
    rules = {}
    for key in {*GENERATION, *NOT_APPLIED}:
        rules[key] = _always("harmless: says how a text is written")
    for reason, keys in HARMLESS.items():
        for key in keys.split():
            rules[key] = _always(f"harmless: {reason}")
    for key, values in ONLY.items():
        rules[key] = _one_of(values)
    for key in PACKED:
        rules[key] = Rule(
            "harmless: null (weights in 16 bits or more)", lambda value: value is None
        )
    for field, keys in ALIKE.items():
        for key in keys.split():
            rules[key] = _one_of([sizes.get(field)])
    for key in family.harmless:
        rules[key] = _always("harmless")
    for key in _used_by(family):
        rules[key] = _always("used")
    for key in WINDOWS:
        rules[key] = _always("harmless: a window that hides nothing")
    return rules


def list_keys(
    model_type: str,  # a key of `FAMILIES`
) -> dict[str, str]:  # key of config.json -> 'used', or when it is harmless
    "The keys that are known of a family. Others are refused or told, as the module says."
    check_that(model_type in FAMILIES, "model_type", f"one of {', '.join(FAMILIES)}", model_type)
    family = FAMILIES[model_type]
    rules = _rules(family, {field: f"as {key}" for field, key in family.fields.items()})
    return {key: rules[key].words for key in sorted(rules)}


def _is_off(value):
    return value is None or value is False or value in (0, "", [], {})


def refuse_unknown(
    saved: dict,  # what config.json holds
    family: Family,
) -> None:
    "Raise `ValueError` for a key that may change numbers and that nothing reads; warn of others."
    rules = _rules(family, {field: saved.get(key) for field, key in family.fields.items()})
    unknown = []
    for key, value in saved.items():
        if key in rules:
            expected = rules[key].words.removeprefix("harmless: ")
            check_that(rules[key].fits(value), key, expected, value)
            continue
        training = re.search(r"(dropout|pdrop|layerdrop|dropout_prob|_drop)$", key)
        if training or key.startswith("_") or value in (None, "", [], {}):
            continue
        speaks = any(word in WORDS for word in re.split(r"[_.\-]", key.lower()))
        expected = "no such key: it is unknown here and speaks of what a model computes"
        check_that(not speaks or _is_off(value), key, expected, value)
        unknown.append(f"{key} = {value!r:.40}")
    if unknown:
        warnings.warn(
            f"config.json has keys that this library doesn't know: {', '.join(unknown)}; where one "
            "of them changes what the model computes, ours computes something else",
            stacklevel=2,
        )


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
    known: Family | None = None,  # whose keys `saved` has besides
) -> list[str]:  # such as 'min_length = 56'
    "The settings of a file that our decoding loops don't follow."
    notes = []
    for key, value in saved.items():
        if key in NOT_APPLIED:
            applied = value is None or value == NOT_APPLIED[key]
        else:
            applied = known is not None or key in TOKENS | GENERATION or key.startswith("_")
            applied = applied or value in (None, "", [], {})
        if not applied:
            notes.append(f"{key} = {value!r:.40}")
    return notes
