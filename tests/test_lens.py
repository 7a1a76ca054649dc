"""The lens on anybody's model: each row is the model cut there, and the last its logits."""

from copy import deepcopy

import pytest
import torch
from recording_tools import PADDED, hooks, ours
from refusals import refuses
from test_your_attention import (
    BOTH,
    FAMILIES,
    GPT2,
    GROUPED,
    LM,
    MASKED,
    OPT,
    SEQ,
    T5,
    TWO_STACKS,
    WIDE,
    V,
    inputs_of,
    transformers,
)
from torch import nn
from torch.testing import assert_close

from former_nb.attention.fused import attention
from former_nb.inspection.ablation import ablate_heads
from former_nb.inspection.lens import logit_lens
from former_nb.inspection.your_attention import use_attend
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel

N = 3  # blocks
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
MORE = {  # families whose attention no one else can give, other heads, other ends
    "bloom": ("Bloom", LM, dict(hidden_size=24, n_layer=2, n_head=4)),
    "falcon": ("Falcon", LM, dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4)),
    "gpt-j": ("GPTJ", LM, dict(n_embd=24, n_layer=2, n_head=4, rotary_dim=2)),
    "mpt": ("Mpt", LM, dict(d_model=24, n_layers=2, n_heads=4)),
    "gpt": ("OpenAIGPT", "LMHeadModel", dict(n_embd=24, n_layer=2, n_head=4)),
    "ctrl": ("CTRL", "LMHeadModel", dict(n_embd=24, n_layer=2, n_head=4, dff=20)),
    "xlnet": ("XLNet", "LMHeadModel", dict(d_model=24, n_layer=2, n_head=4, d_inner=20)),
    "mamba": ("Mamba", LM, dict(hidden_size=8, num_hidden_layers=2)),
    "opt, projected": ("OPT", LM, OPT | dict(word_embed_proj_dim=12)),
    "opt, post-norm": ("OPT", LM, OPT | dict(word_embed_proj_dim=24, do_layer_norm_before=False)),
    "cohere, scaled": ("Cohere", LM, GROUPED | dict(logit_scale=0.25)),
    "cohere 2": ("Cohere2", LM, GROUPED | dict(logit_scale=0.25)),
    "granite, scaled": ("Granite", LM, GROUPED | dict(logits_scaling=8.0)),
    "gemma 2, capped": (
        "Gemma2",
        LM,
        GROUPED | dict(head_dim=8, final_logit_softcapping=2.0, sliding_window=4),
    ),
    "nemotron": ("Nemotron", LM, GROUPED),
    "stablelm": ("StableLm", LM, GROUPED),
    "biogpt": ("BioGpt", LM, WIDE),
    "bert, decoder": ("Bert", "LMHeadModel", WIDE | dict(is_decoder=True)),
    "gpt-2, classes": ("GPT2", "ForSequenceClassification", GPT2 | dict(num_labels=3)),
    "deberta": ("DebertaV2", MASKED, WIDE),
    "pegasus": ("Pegasus", SEQ, BOTH | dict(max_position_embeddings=40)),
}
ALL = FAMILIES | MORE
FROM_ONE = ("modernbert", "deberta")  # that can't be made without a block


def make(name, n=N):
    "A small model with n blocks, and weights that matter."
    kind, head, sizes = ALL[name]
    for count in COUNTS:
        if count in sizes:
            sizes = sizes | {count: n}
    if name == "t5":
        sizes = T5 | dict(num_layers=2, num_decoder_layers=n, decoder_start_token_id=0)
    ends = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}Config")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(vocab_size=V, **ends | sizes)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind.removesuffix("Text") + head)(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4) if p.ndim > 1 else p.add_(0.3 * torch.randn_like(p))
    return model


def inputs(name):
    two = "t5" if name in (*TWO_STACKS, "pegasus") and name != "whisper" else name
    return inputs_of(two)


def cut(model, name, n):
    "A model that never had more than n blocks, with the weights of these."
    short = make(name, n)
    missing, _ = short.load_state_dict(model.state_dict(), strict=False)
    assert not missing
    return short


@pytest.mark.parametrize("name", ALL)
def test_each_row_is_the_model_cut_there_and_the_last_its_logits(name):
    model = make(name)
    given = inputs(name)
    with torch.no_grad():
        wanted = model(**given).logits
        rows = logit_lens(model, **given)
        assert list(rows) == [("embedding", 0), ("block", 1), ("block", 2), ("block", 3)]
        assert_close(rows["block", 3], wanted, rtol=0, atol=1e-6)
        for n in range(name in FROM_ONE, N):
            row = rows["block" if n else "embedding", n]
            assert_close(row, cut(model, name, n)(**given).logits, rtol=1e-5, atol=1e-5)
            assert (row - wanted).abs().max() > 1e-2  # so a block in its place would show
        assert torch.equal(model(**given).logits, wanted) and not hooks(model)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("kind", [LanguageModel, Classifier, EncoderDecoder])
def test_a_model_of_ours_is_cut_after_each_block(kind, norm_first):
    model = ours(kind, norm_first=norm_first)
    given = (PADDED, PADDED[:, :4]) if kind is EncoderDecoder else (PADDED[:, :4],)
    rows = logit_lens(model, *given)
    assert list(rows) == [("embedding", 0), ("block", 1), ("block", 2)]
    stack = model.decoder if kind is EncoderDecoder else model.stack
    with torch.no_grad():
        assert torch.equal(rows["block", 2], model(*given))
        for n in (1, 0):
            del stack.blocks[n]
            assert_close(rows["block" if n else "embedding", n], model(*given))


def test_tokens_without_a_name_masks_and_what_is_returned_in_training():
    model = make("qwen3").train()
    given = inputs_of("qwen3", padded=True)
    rows = logit_lens(model, given.pop("input_ids"), **given)
    assert all(part.training for part in model.modules())
    assert not any(t.requires_grad for t in rows.values())
    model.eval()
    wanted = model(**inputs_of("qwen3", padded=True)).logits
    assert_close(rows["block", 3], wanted)


def test_an_attend_of_your_own_heads_that_are_off_and_a_block_that_is_pushed_stay_so():
    model = make("gemma 3")
    given = inputs("gemma 3")
    before = {name: set(vars(part)) for name, part in model.named_modules()}

    def push(block, args, output):
        return output + 1

    def pull(block, args, output):
        output -= 2  # in place
        return output

    handles = [model.model.layers[1].register_forward_hook(push)]
    handles += [model.model.layers[2].register_forward_hook(pull)]
    with torch.no_grad(), use_attend(model, attention), ablate_heads(model, [("self", 1, 2)]):
        wanted = model(**given).logits
        rows = logit_lens(model, **given)
    assert_close(rows["block", 3], wanted)
    for handle in handles:
        handle.remove()
    assert before == {name: set(vars(part)) for name, part in model.named_modules()}
    with torch.no_grad():
        assert (model(**given).logits - wanted).abs().max() > 0.1
        plain = logit_lens(model, **given)
    assert_close(rows["embedding", 0], plain["embedding", 0])
    assert (rows["block", 1] - plain["block", 1]).abs().max() > 1e-3


def test_bfloat16_keeps_its_type():
    model = make("llama").bfloat16()
    rows = logit_lens(model, **inputs("llama"))
    assert all(t.dtype == torch.bfloat16 for t in rows.values())
    with torch.no_grad():
        assert torch.equal(rows["block", 3], model(**inputs("llama")).logits)


# ---- what is refused, each in one sentence


def small(kind, head, **sizes):
    config = getattr(transformers, f"{kind}Config")(vocab_size=V, **sizes)
    return getattr(transformers, kind + head)(config).eval()


TOKENS = torch.tensor([[7, 3, 9, 4]])
NO_HEAD = lambda: small("Bert", "Model", **WIDE)
AGAIN = lambda: small("Albert", MASKED, **WIDE, embedding_size=24)
NO_BLOCKS = lambda: small("XLM", "WithLMHeadModel", emb_dim=24, n_layers=2, n_heads=4)


@pytest.mark.parametrize(
    ("make", "came"),
    [
        (NO_HEAD, "BertModel without logits"),
        (AGAIN, "AlbertForMaskedLM"),
        (NO_BLOCKS, "XLMWithLMHeadModel"),
        (lambda: small("T5", "EncoderModel", **T5), "T5EncoderModel"),
    ],
)
def test_a_model_without_a_head_or_without_blocks_in_a_row_is_refused_by_name(make, came):
    model = make()
    before = {name: set(vars(part)) for name, part in model.named_modules()}
    refuses(lambda: logit_lens(model, TOKENS), ValueError, "model", came)
    assert not hooks(model)
    assert before == {name: set(vars(part)) for name, part in model.named_modules()}


def test_what_is_no_model_is_refused():
    for other in (nn.Linear(2, 2), "llama", None):
        refuses(lambda: logit_lens(other, TOKENS), TypeError, "model", type(other).__name__)


@pytest.mark.parametrize("wrong", [TOKENS + V, TOKENS[0, 0]])
def test_an_error_leaves_the_model_as_it_was(wrong):
    model = make("llama")
    copied = deepcopy(model)
    before = {name: set(vars(part)) for name, part in model.named_modules()}
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        logit_lens(model, wrong)
    assert not hooks(model)
    assert before == {name: set(vars(part)) for name, part in model.named_modules()}
    assert_close(model(TOKENS).logits, copied(TOKENS).logits)
