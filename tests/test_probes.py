"""No alarm on healthy models of other authors, and what is said of broken ones.

`healthy_models.py` and `broken_models.py` were written by somebody who hadn't read the probes. Each
fault below is told by this name. Those of `broken_models.py` that aren't here aren't found.
"""

import pytest
import torch
from broken_models import BROKEN
from healthy_models import HEALTHY
from ladder_models import RUNGS, family
from test_your_attention import FAMILIES
from thorough import some

from former_nb import diagnose
from former_nb.data.batches import make_batches
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

SAID = {
    "the future leaks": """nano_not_causal nano_merge_without_transpose nano_split_without_transpose
        min_softmax_over_queries min_softmax_over_heads min_mask_after_softmax min_mask_small_number
        min_mask_transposed min_mask_diagonal_1 min_mask_diagonal_minus_1 min_softmax_twice
        min_norm_over_time min_norm_over_time_and_features window_on_wrong_side llama_rms_over_time
        x_mask_added_as_ones x_einsum_transposed encoder_lm_no_mask encoder_lm_bool_mask_inverted
        encoder_lm_float_ones_mask decoder_memory_is_itself decoder_no_tgt_mask seq2seq_no_tgt_mask
        seq2seq_src_tgt_exchanged own_decoder_not_causal own_cross_exchanged
        hf_gpt2_attention_mask_inverted hf_gpt2_not_causal hf_bert_lm_not_decoder
        hf_qwen2_mask_dropped""",
    "what came before has no effect": """nano_attends_over_heads nano_attention_dropped
        nano_head_on_embeddings rezero_alpha_not_parameter window_only_itself
        hf_llama_o_proj_frozen_zero""",
    "targets aren't shifted": """nano_targets_unshifted seq2seq_decoder_gets_targets
        hf_t5_decoder_gets_labels""",
    "targets are shifted twice": "nano_targets_shifted_twice hf_labels_shifted_twice",
    "targets are shifted the other way": "nano_targets_shifted_backwards",
    "not the same twice": """nano_positions_random nano_sdpa_dropout_in_eval
        nano_layer_made_in_forward nano_table_scaled_in_place cache_never_cleared""",
    "layers that the model doesn't know": "nano_blocks_in_list",
    "a part doesn't learn": """nano_blocks_read_embeddings nano_detached_between_blocks
        nano_embeddings_no_grad nano_init_zeros nano_final_norm_dropped nano_reentrant_checkpoint
        min_values_from_keys min_scores_no_grad min_argmax_attention llama_rounded_stream
        llama_step_gate moe_router_no_gradient lora_both_zero encoder_lm_encoder_no_grad
        decoder_memory_detached own_cross_attends_itself own_encoder_output_dropped
        own_encoder_detached own_cross_sees_first_only binary_softmax_of_one cls_before_encoder
        cls_dead_relu_head vit_head_on_bare_cls hf_llama_mlp_detached hf_neox_body_cut_off
        hf_bert_no_grad hf_bart_encoder_detached hf_vit_head_frozen_zero""",
    "probabilities in place of logits": "nano_softmax_before_cross_entropy binary_sigmoid_twice",
    "weight decay is enormous": "nano_weight_decay_enormous",
    "the learning rate is far too large": "nano_lr_enormous nano_loss_sum_huge_lr",
    "the optimizer doesn't hold all parameters": """nano_optimizer_of_a_copy
        nano_head_replaced_after_optimizer encoder_lm_optimizer_only_encoder
        hf_bert_optimizer_without_head""",
    "dropout drops nearly everything": "nano_dropout_keep_prob hf_gpt2_dropout_enormous",
    "dropout in evaluation mode": "nano_dropout_in_eval nano_train_in_forward",
    "the outputs begin far too large": "nano_init_std_2",
    "the units of a layer are all the same": "nano_init_constant",
    "nll_loss of what are no logarithms of probabilities": "nano_nll_without_log",
    "the loss compares the wrong axis": "nano_log_softmax_over_time",
    "the loss doesn't depend on the outputs": "nano_loss_rebuilt",
    "padding counts in the loss": """nano_pads_in_loss seq2seq_pads_in_loss tagger_pads_in_loss
        hf_gpt2_pads_in_labels hf_roberta_pads_in_labels hf_t5_pads_in_labels""",
    "a token is left out of the loss": "nano_ignores_real_token",
    "the loss has the wrong sign": "nano_loss_wrong_sign",
    "no target counts": "nano_all_targets_ignored",
    "a query may attend to nothing": "min_mask_inverted_nan",
    "rows of a batch mix": """min_heads_mixed_with_batch moe_order_not_restored
        moe_softmax_over_tokens encoder_lm_batch_first_forgotten encoder_lm_view_for_transpose
        seq2seq_batch_first_forgotten cls_first_sequence pool_over_batch""",
    "positions run along the batch": "nano_positions_along_batch",
    "the cache changes the text": """cache_position_off_by_one cache_position_restarts
        cache_mask_upper_left cache_key_appended_twice hf_llama_cache_off_by_one""",
    "padding has an effect": """cls_from_last_position mean_pool_over_pads
        cls_padding_mask_inverted cls_no_padding_mask tagger_keep_mask_not_inverted
        hf_bert_no_attention_mask hf_distilbert_mean_over_pads seq2seq_src_padding_inverted
        seq2seq_memory_not_masked seq2seq_no_padding_masks own_padding_inverted
        hf_marian_mask_inverted""",
    "different tokens are read as one": "nano_ids_clamped",
    "the order of words has no effect": """reverse_without_positions encoder_zero_position_table
        encoder_sinusoid_constant encoder_pe_along_batch""",
    "squashed numbers in place of logits": "cls_sigmoid_before_cross_entropy",
    "outputs and targets have different shapes": "regressor_mse_broadcast",
    "not even one batch is learned": "regressor_targets_unscaled",
    "embedding and head aren't tied": "hf_gpt2_head_not_tied",
    "the learning rate is 0": "hf_opt_layers_lr_zero",
    "every position is the same": "hf_bert_positions_zero",
}
FAULTS = [(fault, name) for name, faults in SAID.items() for fault in faults.split()]


@pytest.fixture(autouse=True)
def quiet():
    "Hugging Face says on making what it would say of a download."
    pytest.importorskip("transformers").logging.set_verbosity_error()


@pytest.mark.parametrize("name", some(HEALTHY, 2))
def test_a_healthy_model_gets_no_alarm(name):
    found = diagnose(*HEALTHY[name]())
    assert not found.findings, str(found)


@pytest.mark.parametrize("key", RUNGS)
def test_a_rung_of_the_ladder_gets_no_alarm(key):
    found = diagnose(*RUNGS[key]())
    assert not found.findings, str(found)


@pytest.mark.parametrize("name", some(FAMILIES, 3))
def test_a_family_of_hugging_face_gets_no_alarm(name):
    found = diagnose(*family(name))
    assert not found.findings, str(found)


def test_a_head_that_begins_at_zero_is_no_fault():
    model, *rest = HEALTHY["classifier_cls"]()
    torch.nn.init.zeros_(model.fc.weight)
    found = diagnose(model, *rest)
    assert not found.findings, str(found)


def test_a_model_that_ignores_its_inputs_is_told():
    model, *rest = HEALTHY["nanogpt"]()
    model.ln_f.register_forward_hook(lambda module, given, out: 0 * out)
    names = [finding.name for finding in diagnose(model, *rest).findings]
    assert names[0] == "the inputs have no effect", names


def test_weights_that_begin_at_one_are_units_that_are_the_same():
    model, *rest = HEALTHY["nanogpt"]()
    for block in model.h:
        for layer in block.mlp.children():
            torch.nn.init.ones_(layer.weight) if isinstance(layer, torch.nn.Linear) else None
    names = [finding.name for finding in diagnose(model, *rest).findings]
    assert "the units of a layer are all the same" in names


@pytest.mark.parametrize(("fault", "name"), some(FAULTS, 3))
def test_a_broken_one_is_told_what_is_wrong(fault, name):
    make, _ = BROKEN[fault]
    found = diagnose(*make())
    assert name in [finding.name for finding in found.findings], str(found)


def test_a_batch_whose_rows_are_filled_up_is_read_as_what_comes_next():
    "The last target of a row is its end, which the inputs don't hold."
    torch.manual_seed(0)
    sizes = dict(d_model=16, n_heads=2, n_layers=2, d_ff=32, dropout=0.0)
    model = LanguageModel.from_config(TransformerConfig(12, 16, **sizes))
    rows = [[1, *range(3, 3 + n), 2] for n in (4, 5, 6, 3, 7, 4)]
    (batch,) = make_batches(rows, 6)
    said = diagnose(model, batch)
    assert said.findings == [] and "says what comes next" in said.asked
