"""The tables of what tools say of models, for QUALITY.md, from results/doctor/tools.json.

`CAUSES` says of each of DEFault++'s 45 root causes what a finding would have to be called to name
it, which of the tests' broken models have it, and why it can't be known from outside, where it
can't. What was noticed and named is read from the results.
"""

import re
import statistics
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("QUALITY.md")
TOOLS_HEAD = "| tool | healthy | alarms | broken | noticed | not by ours | named | seconds |\n"
CAUSES_HEAD = "| category | root cause | known | their operators | our models | why |\n"
TOTAL_HEAD = "| category | root causes | named | noticed | not from outside |\n"
LEAKS, PADDING = "the future leaks", "padding has an effect"
CACHE, TWICE = "the cache changes the text", "not the same twice"
NOTHING, BEFORE = "the inputs have no effect", "what came before has no effect"
ALIKE = "the units of a layer are all the same"
KINDS = {"torchtest2": {"torchtest2, failures": "FAIL", "torchtest2, with warnings": ""}}
CAUSES = {  # category/root cause -> names of findings that name it, broken models, why
    "masking/mask_application": ([LEAKS, PADDING], "nano_not_causal cls_no_padding_mask", ""),
    "masking/mask_generation": ([LEAKS, PADDING], "min_mask_transposed min_mask_diagonal_1", ""),
    "masking/dynamic_mask": ([LEAKS], "window_on_wrong_side", ""),
    "qkv/parameter_initialization": (
        [ALIKE], "", "queries or values that begin at 0 learn; some begin so on purpose",
    ),
    "qkv/head_interaction": ([ALIKE], "min_query_is_key", "heads that begin alike are seen"),
    "qkv/dynamic_parameter_registration": (
        ["layers that the model doesn't know", "a tensor that learns is no parameter"],
        "nano_blocks_in_list", "frozen weights are told in a note, as they may be meant",
    ),
    "qkv/dimension": (
        [LEAKS, "rows of a batch mix"],
        "nano_split_without_transpose min_heads_mixed_with_batch",
        "heads that are cut wrongly are seen; their number is a choice",
    ),
    "score/normalization": (
        ["attention begins closed"], "min_scale_multiplied hf_llama_scaling_multiplied",
        "another scale is a choice, as long as attention isn't closed by it",
    ),
    "score/implementation": (
        [LEAKS, "dropout in evaluation mode"], "min_softmax_over_queries min_no_softmax", "",
    ),
    "score/precision_handling": ([], "", "a rounder number format is a choice; NaN is told"),
    "positional/indexing": (
        ["positions run along the batch", "every position is the same"],
        "nano_positions_along_batch hf_bert_positions_zero", "",
    ),
    "positional/relative_position": (
        [], "alibi_wrong_sign llama_rotary_on_q_only", "another code of places is a choice",
    ),
    "positional/interpolation": (
        [], "encoder_positions_clamped", "far places that are alike are a choice, as in T5",
    ),
    "kernel/silent_fallback": ([], "", "it computes the same, only slower"),
    "kernel/feature_constraints": ([TWICE], "nano_sdpa_dropout_in_eval", ""),
    "kernel/hardware_incompatibility": ([], "", "it computes the same, only slower"),
    "kernel/numerical_precision": (
        [], "nano_pure_bf16_small_lr", "a rounder number format is a choice; NaN is told",
    ),
    "kernel/kernel_memory": ([], "", "attention in pieces computes the same"),
    "variant/variant_configuration": (
        [BEFORE, NOTHING], "nano_attention_dropped window_only_itself", "",
    ),
    "variant/dynamic_dispatch": ([], "tagger_causal", "an encoder may look back alone"),
    "kv_cache/cache_invalidation": ([CACHE, TWICE], "cache_never_cleared", ""),
    "kv_cache/update_synchronization": ([CACHE], "cache_key_appended_twice", ""),
    "kv_cache/cache_position": ([CACHE], "cache_position_off_by_one", ""),
    "kv_cache/memory_layout": ([CACHE], "cache_mask_upper_left", ""),
    "kv_cache/distributed_synchronization": ([TWICE], "", ""),
    "embedding/input_initialization": (
        ["the outputs begin far too large"], "nano_init_std_2 x_embedding_scale_enormous",
        "rows that begin at 0 learn",
    ),
    "embedding/input_type": ([], "", "exchanged rows of random numbers are random numbers"),
    "embedding/input_dimension": (
        ["different tokens are read as one"], "nano_ids_clamped", "columns of 0 learn",
    ),
    "ffn/weight_scaling": ([], "", "another size of weights is a choice"),
    "ffn/neuron_dropout": ([], "", "units that begin at 0 learn"),
    "ffn/activation_function": ([], "nano_no_activation", "another activation is a choice"),
    "ffn/regularization": (["weight decay is enormous"], "nano_weight_decay_enormous", ""),
    "ffn/weight_initialization": ([ALIKE], "nano_init_constant nano_init_zeros", ""),
    "layernorm/scale_parameter": (
        [NOTHING], "", "gains that begin elsewhere learn, and of zeros only some",
    ),
    "layernorm/bias_parameter": ([], "", "a bias that begins elsewhere learns"),
    "layernorm/stability_parameter": ([], "nano_norm_eps_1e6", "another epsilon is a choice"),
    "layernorm/regularization": ([], "", "decay of norms is a choice"),
    "residual/skip_connection": (
        [], "nano_no_residual nano_blocks_read_embeddings",
        "a model without a stream is a choice; what is cut off from learning is seen",
    ),
    "residual/residual_scaling": ([], "min_residual_doubled", "another scale is a choice"),
    "residual/residual_path": ([TWICE], "", ""),
    "residual/gradient_clipping": ([], "nano_hook_zeroes", "the training loop isn't given"),
    "residual/dropout_rate": (
        ["dropout drops nearly everything"], "nano_dropout_keep_prob hf_gpt2_dropout_enormous",
        "a share below .8 is a choice",
    ),
    "output/output_scaling": ([], "", "another scale of logits is a choice"),
    "output/output_dimension": (
        ["outputs and targets have different shapes"], "regressor_mse_broadcast",
        "exchanged logits are exchanged names",
    ),
    "output/output_type": (
        ["probabilities in place of logits", "squashed numbers in place of logits"],
        "nano_softmax_before_cross_entropy cls_sigmoid_before_cross_entropy",
        "other random weights are random weights",
    ),
}  # fmt: skip


def said_in_tests():
    "The right name of each fault that is found."
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from test_probes import FAULTS

    return dict(FAULTS)


def tools_table(results, right):
    "A row for each tool: models that it took, alarms, what it noticed, and the seconds."
    lines = [TOOLS_HEAD, "|---|---|---|---|---|---|---|---|\n"]
    models = results["models"]
    for who in dict.fromkeys(who for row in models.values() for who in row["tools"]):
        took = [
            (name, row["healthy"], row["tools"][who])
            for name, row in models.items()
            if "not taken" not in row["tools"].get(who, {"not taken": "not asked"})
        ]
        seconds = statistics.median(one["seconds"] for *_, one in took if "seconds" in one)
        for words, begins in KINDS.get(who, {who: ""}).items():
            cells = [words]
            for healthy in (True, False):
                said = {
                    name: [words for words in one.get("said", []) if words.startswith(begins)]
                    for name, kind, one in took
                    if kind == healthy
                }
                cells += [len(said), sum(map(bool, said.values()))]
            named = sum(right.get(name) in found for name, found in said.items())
            alone = [n for n in said if said[n] and not models[n]["tools"]["ours"].get("said")]
            cells += [len(alone)]
            cells += [named if who == "ours" else "–", f"{seconds:.1f}"]
            lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


def operator_words(results, cause):
    "The operators of a root cause: in how many families it changes something and is noticed."
    found, words = {}, []
    for row in results["operators"]:
        if row["operator"] and f"{row['category']}/{row['root cause']}" == cause:
            families = found.setdefault(row["operator"], {})
            kinds = families.setdefault(row["family"], [False, False])
            kinds[0] |= bool(row["changes"])
            kinds[1] |= bool(row.get("said"))
    for operator, families in found.items():
        changed = sum(kinds[0] for kinds in families.values())
        noticed = sum(kinds[1] for kinds in families.values())
        words.append(f"{operator} {noticed} of {changed}" if changed else f"{operator} no change")
    return ", ".join(words)


def verdict(results, cause):
    "'named', 'noticed' or 'not from outside', by the operators and by the broken models."
    names, broken, _ = CAUSES[cause]
    said = [
        row["said"]
        for row in results["operators"]
        if row.get("said") and f"{row.get('category')}/{row.get('root cause')}" == cause
    ]
    said += [results["models"][n]["tools"]["ours"].get("said", []) for n in broken.split()]
    if any(set(names) & set(one) for one in said):
        return "named"
    return "noticed" if any(said) else "not from outside"


def causes_table(results, _):
    "A row for each root cause."
    lines = [CAUSES_HEAD, "|---|---|---|---|---|---|\n"]
    for cause, (_, broken, why) in CAUSES.items():
        category, root = cause.split("/")
        seen = [bool(results["models"][n]["tools"]["ours"].get("said")) for n in broken.split()]
        shown = f"{sum(seen)} of {len(seen)}" if seen else "–"
        cells = [category, root.replace("_", " "), verdict(results, cause)]
        cells += [operator_words(results, cause), shown, why]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def totals_table(results, _):
    "A row for each category, and all."
    lines = [TOTAL_HEAD, "|---|---|---|---|---|\n"]
    kinds = "named", "noticed", "not from outside"
    found = {cause: verdict(results, cause) for cause in CAUSES}
    for category in [*dict.fromkeys(cause.split("/")[0] for cause in CAUSES), ""]:
        mine = [kind for cause, kind in found.items() if cause.startswith(category)]
        cells = [category or "all", len(mine), *(mine.count(kind) for kind in kinds)]
        lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


TABLES = {TOOLS_HEAD: tools_table, TOTAL_HEAD: totals_table, CAUSES_HEAD: causes_table}


def write(results, page=PAGE):
    "Put the tables in the place of those that the page has."
    text, right = page.read_text(encoding="utf-8"), said_in_tests()
    for head, table in TABLES.items():
        found = table(results, right)
        text = re.sub(re.escape(head) + r"(?:\|.*\n)+", lambda _, found=found: found, text)
    page.write_text(text, encoding="utf-8", newline="\n")
