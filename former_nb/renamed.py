"""What earlier versions called otherwise, or had and no longer have: one table.

Whoever imports or asks for such a name is told what to write today, where Python alone would only
say that there is none. Add a line here whenever a public name or a module goes;
`tests/test_renamed.py` compares each line with the package as it is.
"""

import sys
from dis import opname
from importlib.abc import MetaPathFinder

# A module as it was called -> as it is called today, both without "former_nb.".
MODULES = {
    "attention_maps": "inspection.recording",
    "baselines": "models.baselines",
    "batches": "data.batches",
    "beam_search": "decoding.beam_search",
    "block": "models.layers",
    "caches": "decoding.caches",
    "checkpoints": "saving.saving",
    "classifier": "models.classifier",
    "config": "models.config",
    "core": "base.core",
    "data_sets": "data.data_sets",
    "data.kept_tokens": "data.long_text_data",
    "decoding.decode_step": "decoding.fast_copy",
    "decoding.known_parts": "decoding.fast_copy",
    "encoder_decoder": "models.encoder_decoder",
    "files": "base.files",
    "generator": "models.language_model",
    "guards": "base.guards",
    "labels": "decoding.classification",
    "leaks": "inspection.leaks",
    "long_texts": "data.long_texts",
    "mask_patterns": "attention.mask_patterns",
    "masked_language": "models.masked_language",
    "masks": "attention.masks",
    "multi_head": "attention.multi_head",
    "noise": "inspection.leaks",
    "number_words": "decoding.number_words",
    "optimization": "training.optimization",
    "positions": "attention.positions",
    "recipes": "tasks",
    "relative_positions": "attention.relative_positions",
    "reports": "tasks",
    "resuming": "training.resuming",
    "runs": "training.runs",
    "sampling": "decoding.sampling",
    "scaling": "training.costs",
    "scores": "inspection.scores",
    "self_attention": "attention.self_attention",
    "settings": "tasks",
    "stack": "models.post_norm",
    "subwords": "data.subwords",
    "text": "data.text",
    "tokenization": "data.tokenization",
    "toy_data": "data.toy_data",
    "translating": "decoding.translating",
    "translation": "inspection.translation",
    "two_stacks": "models.parts",
    # from 0.2 to 0.3
    "attention.grouped_query": "models.layers",
    "data.subword_dropout": "data.subwords",
    "inspection.attention_maps": "inspection.recording",
    "inspection.noise": "inspection.leaks",
    "models.second_edition": "models.pretrained",
    # from 0.3 to 0.4
    "attention.kernels": "attention.fused",
    "base.exercises": "grading.check",
    "base.traffic": "base.flops",
    "inspection.alignments": "inspection.recording",
    "inspection.block_lens": "inspection.lens",
    "builds": "grading",
    "checks": "grading.check",
    "decoding.labels": "decoding.classification",
    "models.block": "models.layers",
    "models.generator": "models.language_model",
    "models.hub_config": "models.config",
    "models.stack": "models.post_norm",
    "models.two_stacks": "models.parts",
    "training.scaling": "training.costs",
}

# A module or a name that only a page has today -> the page, which defines it.
PAGES = {
    "equivalent_forms": "deeper/03_attention_variants",
    "mask_formats": "deeper/04_mask_patterns",
    "attention.additive": "deeper/03_attention_variants",
    "attention.equivalent_forms": "deeper/03_attention_variants",
    "attention.mask_formats": "deeper/04_mask_patterns",
    "attention.since_llama": "deeper/12_since_llama",
    "attention.AdditiveAttention": "deeper/03_attention_variants",
    "attention.GatedAttention": "deeper/12_since_llama",
    "attention.LatentAttention": "deeper/12_since_llama",
    "attention.QKNorm": "deeper/12_since_llama",
    "attention.Sink": "deeper/12_since_llama",
    "decoding.sampling.RepetitionPenalty": "deeper/11_sampling",
    "decoding.sampling.apply_repetition_penalty": "deeper/11_sampling",
    "models.mixture_of_experts": "deeper/12_mixture_of_experts",
    "models.fine_tuning": "deeper/16_pretrained",
    "models.add_low_rank": "deeper/16_pretrained",
    "models.merge_low_rank": "deeper/16_pretrained",
    "models.baselines.BagOfEmbeddings": "deeper/09_baselines",
    "models.packed": "deeper/07_batches",
    "models.packing": "deeper/07_batches",
    "models.MixtureLanguageModel": "deeper/12_mixture_of_experts",
    "models.MixtureOfExperts": "deeper/12_mixture_of_experts",
    "models.with_balance": "deeper/12_mixture_of_experts",
}

GENERATE = "from former_nb import generate; "
GENERATE_TEXT = GENERATE + 'generate(model, ["Jo"] * 8, pick=sampling, tokenizer=tokenizer)'
GENERATE_ROWS = GENERATE + "generate(model, rows, max_new_tokens, pick)"
STREAM = "from former_nb import stream; "
STREAM_TEXT = STREAM + 'stream(model, "Jo", pick=sampling, tokenizer=tokenizer)'
STREAM_ROWS = STREAM + "stream(model, rows, max_new_tokens, pick)"
NOISE = "from former_nb.inspection.leaks import noise_leak"
VIEW = "from former_nb import view; "
BLOCK = "from former_nb.models.build import build_block; build_block(config)"
KERNELS = "from former_nb.attention.fused import "
ROTARY = "from former_nb.attention.angle_tables import "
TRAINING = "from former_nb.training import "
TORCH = "from former_nb.attention.torch_layers import "
MODELS = "from former_nb.models import "
ONNX = "import torch; torch.onnx.export  # as the page deeper/16_pretrained shows"
CHOICES = "from former_nb.models.choices import "
MODERN = MODELS + "modern_decoder; "
MODERN += "modern_decoder(vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff)"

# A name as it was, without "former_nb." -> what to write today; empty where nothing replaces it.
NAMES = {
    "generate_text": GENERATE_TEXT,
    "decoding.generate_text": GENERATE_TEXT,
    "decoding.caches.generate_text": GENERATE_TEXT,
    "decoding.generate_rows": GENERATE_ROWS,
    "decoding.caches.generate_rows": GENERATE_ROWS,
    "decoding.stream_text": STREAM_TEXT,
    "decoding.caches.stream_text": STREAM_TEXT,
    "decoding.caches.stream_rows": STREAM_ROWS,
    "decoding.decoding.next_tokens": "from former_nb.decoding.caches import next_tokens",
    "decoding.caches.KVBuffer": "from former_nb.decoding.caches import LayerCache",
    "decoding.prompts.lengths_to_read": "",
    "decoding.prompts.prompt_rows": "",
    "decoding.translating.greedy_decode": "from former_nb.decoding.number_words import "
    "greedy_decode",
    "decoding.sampling.Sampler": "from former_nb import Sampling; Sampling(temperature=0.8)",
    "decoding.sampling.sample_next": "from former_nb import Sampling; Sampling(temperature=0.8)",
    "decoding.sampling.filter_logits": "from former_nb import Sampling; Sampling(top_k=5)",
    "attention.GroupedQueryAttention": MODELS + "GroupedQueryAttention",
    "attention.AttentionHead": "from former_nb.attention.dot_product import AttentionHead",
    "attention.attention_loops": "from former_nb.attention.dot_product import attention_loops",
    "attention.masked_softmax": KERNELS + "masked_softmax",
    "attention.multi_head.record_attention": "from former_nb import record_attention",
    "attention.multi_head.SeparateHeads": "from former_nb import MultiHeadAttention",
    "attention.multi_head.WideMultiHeadAttention": MODELS
    + "GroupedQueryAttention; GroupedQueryAttention(d_model, n_heads, n_heads, d_k)",
    "attention.multi_head.mha_from_torch": TORCH + "mha_from_torch",
    "attention.multi_head.mha_to_torch": TORCH + "mha_to_torch",
    "attention.dot_product.masked_softmax": KERNELS + "masked_softmax",
    "attention.positions.Positions": "from former_nb.attention import LearnedPositions",
    "attention.positions.rotary_frequencies": ROTARY + "rotary_frequencies",
    "attention.positions.rotary_table": ROTARY + "rotary_table",
    "attention.positions.positions_of": "model(tokens, positions=cache.positions(T))",
    "attention.relative_positions.InterleavedRotary": "from former_nb.attention import Rotary",
    "attention.relative_positions.rotary_layout": "",
    "base.check": "from former_nb import check",
    "base.hint": "from former_nb import hint",
    "base.core.FixedTable": "",
    "base.checkpoints.read_tensor": "from safetensors import safe_open",
    "base.files.open_regular": "from former_nb.base.files import read_bytes",
    "base.files.text_blocks": "from former_nb.base.files import read_text",
    "base.source.parse_source": "from former_nb.base.source import read_source",
    "base.guards.goes_beyond": "",
    "base.guards.full_mask": KERNELS + "full_mask",
    "base.guards.masked_kernels": KERNELS + "masked_kernels",
    "base.guards.merge_masks": KERNELS + "merge_masks",
    "base.guards.repeat_kv": "from former_nb.attention.dot_product import repeat_kv",
    "base.ranges.MODEL": CHOICES + "MODEL",
    "models.build.FUNCTIONS": CHOICES + "ACTIVATIONS",
    "models.config.Scheme": CHOICES + "Scheme",
    "exercises.check": "from former_nb import check",
    "exercises.hint": "from former_nb import hint",
    "data.long_text_data.encode_bytes": "",
    "data.long_texts.perplexity": "import math; math.exp(loss)",
    "data.subwords.bleu_counts": "from former_nb.inspection.translation import bleu_counts",
    "data.subwords.bleu_from_counts": "from former_nb.inspection.translation import "
    "bleu_from_counts",
    "models.ModernBlock": BLOCK,
    "models.ModernDecoder": MODERN,
    "models.modern_decoder.ModernBlock": BLOCK,
    "models.modern_decoder.ModernDecoder": MODERN,
    "models.encoder_decoder.make_model": "from former_nb.models.savable import make_model",
    "models.config.init_weights": "from former_nb.models.initialization import init_weights",
    "models.config.NORMS": "",
    "models.config.HubConfig": "from former_nb import TransformerConfig",
    "models.config.gelu_tanh": "from former_nb.models.parts import gelu_tanh",
    "models.config.EmbedNorm": "from former_nb.models.parts import EmbedNorm",
    "models.config.make_rotary": "from former_nb.models.rope_scaling import make_rotary",
    "models.config.as_hub_config": "",
    "models.config.make_config": "",
    "models.config.swiglu": MODELS + "SwiGLU",
    "inspection.assert_no_noise_leak": NOISE,
    "inspection.attribute_logits": "",
    "inspection.edit_stream": "",
    "inspection.ablation.rank_heads": "",
    "inspection.describe.draw": "",
    "inspection.leaks.assert_no_noise_leak": NOISE,
    "inspection.lens.attribute_logits": "",
    "inspection.lens.edit_stream": "",
    "inspection.lens.record_stream": "",
    "inspection.recording.attention_table": "",
    "inspection.viewer.plot_lines": "",
    "inspection.recording.view_translation": VIEW + 'view(model, ("zwei", "two"), tokenizer)',
    "saving.config_keys.list_keys": "",
    "saving.hugging_face.list_tensors": "",
    "saving.to_onnx": ONNX,
    "saving.saving.to_onnx": ONNX,
    "training.ForTrainer": "",
    "training.TensorBoard": "",
    "training.by_name": "",
    "training.plot_history": "",
    "training.callbacks.TensorBoard": "",
    "training.callbacks.plot_history": "",
    "training.costs.activation_bytes": "",
    "training.costs.cache_bytes": "",
    "training.optimization.evaluate": TRAINING + "evaluate",
    "training.optimization.exact_match": TRAINING + "exact_match",
    "training.optimization.token_loss": TRAINING + "token_loss",
    "training.optimization.train_step": TRAINING + "train_step",
    "training.resuming.SaveBest": TRAINING + "SaveBest",
    "training.resuming.TensorBoard": "",
    "training.runs.Callback": TRAINING + "Callback",
    "training.runs.ProgressBar": TRAINING + "ProgressBar",
    "training.runs.Run": "from former_nb.training.training_run import Run",
    "training.runs.TrainingConfig": "from former_nb import TrainingConfig",
    "training.runs.plot_history": "",
    "training.speed.EnergyMeter": "",
    "training.training.TrainingConfig": "from former_nb import TrainingConfig",
    "training.training.exact_match": TRAINING + "exact_match",
    "training.training.token_loss": TRAINING + "token_loss",
    "training.speed.StopAt": "",
    "training.speed.Traffic": "from former_nb.base.flops import Traffic",
}
HOMES = {name.rpartition(".")[0] for name in NAMES | PAGES}  # the modules that had them


def instead(
    old: str,  # a module or a name of one, with its whole path
) -> str | None:  # one sentence; None for what no version has had
    "What to write in place of something that an earlier version of the package had."
    path = old.partition(".")[2]
    if path in MODULES:
        return f"{old}: expected its name of today, got an old one; write former_nb.{MODULES[path]}"
    if path in PAGES:
        return (
            f"{old}: expected a name of today, got what only a page has; copy it from {PAGES[path]}"
        )
    if path not in NAMES:
        return None
    name = old.rpartition(".")[2]
    if not NAMES[path]:
        return f"{name}: expected a name of today, got one that is gone, and nothing replaces it"
    return f"{name}: expected what replaced it, got an old name; write {NAMES[path]}"


def lost_names(
    module: str,  # its `__name__`
) -> bool:
    "Whether a module had names that it no longer has."
    return module.partition(".")[2] in HOMES


def missing(
    module: str,  # the one that was asked
    name: str,  # what it doesn't have
) -> Exception | None:  # `ImportError` to `from … import …`, `AttributeError` to all else
    "The error for a name that a module had once. None where it never had it."
    sentence = instead(f"{module}.{name}")
    if sentence is None:
        return None
    caller = sys._getframe(2)  # 1 is the `__getattr__` that calls this
    imports = opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM"
    return (ImportError if imports else AttributeError)(sentence, name=name)


class OldModules(MetaPathFinder):
    "The last finder that Python asks for a module. It knows today's names of old modules."

    def find_spec(self, fullname, path=None, target=None):
        "No module is ever found here: `ModuleNotFoundError` for an old one, None for all others."
        package, _, module = fullname.partition(".")
        if package == __package__ and module in MODULES | PAGES:
            raise ModuleNotFoundError(instead(fullname), name=fullname)


def listen():
    "From now on the import of an old module says what to write."
    if not any(isinstance(finder, OldModules) for finder in sys.meta_path):
        sys.meta_path.append(OldModules())
