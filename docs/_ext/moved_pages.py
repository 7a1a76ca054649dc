"""Pages that are a part of another now. The site keeps a page at each old address that leads on."""

MOVED = {  # old page -> the page it became a part of, which may have moved, too
    "api/attention/additive": "deeper/03_attention_variants",
    "api/attention/equivalent_forms": "deeper/03_attention_variants",
    "api/attention/mask_formats": "deeper/04_mask_patterns",
    "api/attention/since_llama": "deeper/12_since_llama",
    "api/inspection/alignments": "api/inspection/recording",
    "api/inspection/block_lens": "api/inspection/lens",
    "api/inspection/noise": "api/inspection/leaks",
    "api/models/mixture_of_experts": "deeper/12_mixture_of_experts",
    "deeper/02_additive": "deeper/03_attention_variants",
    "deeper/03_equivalent_forms": "deeper/03_attention_variants",
    "deeper/04_leaks": "deeper/04_mask_patterns",
    "deeper/04_mask_formats": "deeper/04_mask_patterns",
    "deeper/04_noise": "deeper/04_leaks",
    "deeper/05_positions_measured": "deeper/05_relative_positions",
    "deeper/06_norms": "deeper/06_stack",
    "deeper/06_stack": "deeper/06_depth",
    "deeper/07_data_sets": "deeper/07_batches",
    "deeper/07_packing": "deeper/07_batches",
    "deeper/08_checkpoints": "deeper/08_long_runs",
    "deeper/08_losses": "deeper/08_optimization",
    "deeper/08_resuming": "deeper/08_checkpoints",
    "deeper/08_runs": "deeper/08_checkpoints",
    "deeper/08_scaling": "deeper/08_long_runs",
    "deeper/08_speed": "deeper/08_long_runs",
    "deeper/09_playground": "deeper/09_baselines",
    "deeper/11_what_a_token_costs": "deeper/11_caches",
    "deeper/12_what_each_change_is_worth": "deeper/12_since_llama",
    "deeper/14_lens": "deeper/16_interpretability",
    "deeper/16_alignments": "deeper/16_attention_maps",
    "deeper/16_attention_maps": "deeper/16_interpretability",
    "deeper/16_fine_tuning": "deeper/16_pretrained",
    "deeper/16_translation_ablations": "deeper/08_claims",
    "solutions/02_additive": "solutions/03_attention_variants",
    "solutions/03_equivalent_forms": "solutions/03_attention_variants",
    "solutions/04_leaks": "solutions/04_mask_patterns",
    "solutions/04_mask_formats": "solutions/04_mask_patterns",
    "solutions/04_noise": "solutions/04_leaks",
    "solutions/05_positions_measured": "solutions/05_relative_positions",
    "solutions/06_norms": "solutions/06_stack",
    "solutions/06_stack": "solutions/06_depth",
    "solutions/07_data_sets": "solutions/07_batches",
    "solutions/07_packing": "solutions/07_batches",
    "solutions/08_checkpoints": "solutions/08_long_runs",
    "solutions/08_resuming": "solutions/08_checkpoints",
    "solutions/08_scaling": "solutions/08_long_runs",
    "solutions/08_speed": "solutions/08_long_runs",
    "solutions/09_playground": "solutions/09_baselines",
    "solutions/11_what_a_token_costs": "solutions/11_caches",
    "solutions/14_lens": "solutions/16_interpretability",
    "solutions/16_alignments": "solutions/16_attention_maps",
    "solutions/16_attention_maps": "solutions/16_interpretability",
    "solutions/16_fine_tuning": "solutions/16_pretrained",
    "solutions/16_translation_ablations": "solutions/08_claims",
}


def where_now(
    page: str,  # an address of today or of before, such as 'deeper/06_norms'
) -> str:
    "The page that has its text today."
    while page in MOVED:
        page = MOVED[page]
    return page
