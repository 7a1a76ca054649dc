"""What published config.json files say besides sizes: of each kind of file the keys that it has.

Sizes are those of small models, since a test has no network. Everything else is as it was
published, also what old programs left behind.
"""

TEXT = {"text-generation": {"do_sample": True, "max_length": 50}}
SUMMARY = dict(
    summary_type="cls_index",
    summary_use_proj=True,
    summary_activation=None,
    summary_proj_to_labels=True,
    summary_first_dropout=0.1,
)
POOLER = dict(
    directionality="bidi",
    pooler_fc_size=768,
    pooler_num_attention_heads=12,
    pooler_num_fc_layers=3,
    pooler_size_per_head=128,
    pooler_type="first_token_transform",
)
OLD_BART = dict(
    _num_labels=3,
    add_bias_logits=False,
    add_final_layer_norm=False,
    classif_dropout=0.0,
    classifier_dropout=0.0,
    decoder_layerdrop=0.0,
    encoder_layerdrop=0.0,
    gradient_checkpointing=False,
    init_std=0.02,
    is_encoder_decoder=True,
    normalize_before=False,
    output_past=True,
    prefix=" ",
    save_step=58,
    id2label={"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    label2id={"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2},
)
QWEN = dict(
    hidden_act="silu",
    initializer_range=0.02,
    max_window_layers=21,
    rope_theta=1e6,
    torch_dtype="bfloat16",
    use_cache=True,
)
PUBLISHED = {  # name -> kind of the small model, and the keys
    "gpt2": ("gpt2", {**SUMMARY, "n_ctx": 64, "task_specific_params": TEXT}),
    "gpt2-medium": (
        "gpt2",
        {**SUMMARY, "n_ctx": 64, "n_special": 0, "predict_special_tokens": True},
    ),
    "distilgpt2": (
        "gpt2",
        {
            **SUMMARY,
            "_num_labels": 1,
            "n_ctx": 64,
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "task_specific_params": TEXT,
        },
    ),
    "DialoGPT": (
        "gpt2",
        {**SUMMARY, "n_ctx": 64, "task_specific_params": {"conversational": {"max_length": 9}}},
    ),
    "a GPT-2 with other words for its sizes": (
        "gpt2",
        dict(
            hidden_size=24, num_hidden_layers=2, num_attention_heads=4, gradient_checkpointing=True
        ),
    ),
    "cerebras-gpt": ("gpt2", dict(reorder_and_upcast_attn=False, use_cache=True)),
    "llama-1": ("llama", dict(max_sequence_length=2048, pad_token_id=0, torch_dtype="float16")),
    "llama-2": (
        "llama",
        dict(_name_or_path="meta-llama/Llama-2-7b-hf", pretraining_tp=1, rope_scaling=None),
    ),
    "llama-3.2": (
        "llama",
        dict(
            rope_scaling=dict(
                factor=32.0,
                high_freq_factor=4.0,
                low_freq_factor=1.0,
                original_max_position_embeddings=16,
                rope_type="llama3",
            ),
            rope_theta=500000.0,
            mlp_bias=False,
            attention_bias=False,
            _commit_hash="4e20de36",
            eos_token_id=[5, 6, 7],
        ),
    ),
    "SmolLM2": (
        "llama",
        {
            "is_llama_config": True,
            "rope_interleaved": False,
            "rope_scaling": None,
            "rope_theta": 100000,
            "transformers.js_config": {"dtype": "q4", "kv_cache_dtype": {"q4f16": "float16"}},
        },
    ),
    "deepseek-coder": ("llama", dict(rope_scaling={"factor": 4.0, "type": "linear"})),
    "a Llama by unsloth": (
        "llama",
        dict(unsloth_version="2024.9", unsloth_fixed=True, attn_implementation="sdpa"),
    ),
    "a Qwen rewritten as Llama": (
        "llama",
        dict(sliding_window=16, use_sliding_window=False, max_window_layers=28),
    ),
    "Mistral-v0.3": ("mistral", dict(sliding_window=None, rope_theta=1e6)),
    "a Mistral cut to its window": ("mistral", dict(sliding_window=4096)),
    "Qwen2-0.5B": ("qwen2", {**QWEN, "sliding_window": 32, "use_sliding_window": False}),
    "DeepSeek-R1-Distill-Qwen": (
        "qwen2",
        {**QWEN, "sliding_window": 16, "use_sliding_window": False, "use_mrope": False},
    ),
    "bert-base-uncased": (
        "masked",
        dict(
            gradient_checkpointing=False,
            initializer_range=0.02,
            position_embedding_type="absolute",
            transformers_version="4.6.0.dev0",
            use_cache=True,
        ),
    ),
    "bert-base-multilingual": ("masked", POOLER),
    "a sentiment BERT": (
        "classifier",
        {
            **POOLER,
            "_num_labels": 3,
            "output_past": True,
            "finetuning_task": "sentiment",
            "problem_type": "single_label_classification",
            "language": "english",
            "name": "Bert",
        },
    ),
    "bart-large-cnn": (
        "bart",
        {
            **OLD_BART,
            "force_bos_token_to_be_generated": True,
            "forced_bos_token_id": 0,
            "forced_eos_token_id": 2,
            "num_hidden_layers": 2,
            "early_stopping": True,
            "length_penalty": 2.0,
            "max_length": 142,
            "min_length": 56,
            "no_repeat_ngram_size": 3,
            "num_beams": 4,
            "task_specific_params": {"summarization": {"min_length": 56}},
        },
    ),
    "bart-base": (
        "bart",
        {**OLD_BART, "normalize_embedding": True, "extra_pos_embeddings": 2, "num_beams": 4},
    ),
    "opus-mt": (
        "marian",
        {
            **OLD_BART,
            "add_bias_logits": False,
            "bad_words_ids": [[36]],
            "extra_pos_embeddings": 37,
            "max_length": 512,
            "normalize_embedding": False,
            "num_beams": 6,
            "num_hidden_layers": 2,
            "static_position_embeddings": True,
            "decoder_vocab_size": 37,
            "share_encoder_decoder_embeddings": True,
            "forced_eos_token_id": 0,
        },
    ),
}
