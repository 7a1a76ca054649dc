"""`use_attend`: a function of the reader's own attends inside models of Transformers."""

import threading
from copy import deepcopy
from functools import partial

import pytest
import torch
from refusals import refuses
from thorough import some
from torch import nn
from torch.testing import assert_close

from former_nb.attention.fused import attention, masked_softmax
from former_nb.inspection.ablation import ablate_heads, find_heads
from former_nb.inspection.leaks import LeakError, assert_no_leak
from former_nb.inspection.recording import record_attention
from former_nb.inspection.viewer import view
from former_nb.inspection.your_attention import use_attend

transformers = pytest.importorskip("transformers", minversion="5.0")

V, PAD = 29, 0
WIDE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20)
GROUPED = WIDE | dict(num_key_value_heads=2)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SHORT = dict(sliding_window=4)  # tokens, fewer than a text has
QWEN2 = GROUPED | SHORT | dict(use_sliding_window=True, max_window_layers=1)
GEMMA = GROUPED | SHORT | dict(head_dim=8, query_pre_attn_scalar=20)  # so 1 / √d_k isn't the scale
GPT_OSS = GROUPED | SHORT | dict(head_dim=8, num_local_experts=3, num_experts_per_tok=2)
OPT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, ffn_dim=20, dropout=0.0)
GPT2 = dict(n_embd=24, n_layer=2, n_head=4, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)
DISTILBERT = dict(dim=24, n_layers=2, n_heads=4, hidden_dim=20, dropout=0.0, attention_dropout=0.0)
T5 = dict(d_model=24, d_kv=6, num_layers=2, num_heads=4, d_ff=20, dropout_rate=0.0)
BOTH = dict(d_model=24, decoder_layers=2, decoder_attention_heads=3, decoder_ffn_dim=20)
BOTH |= dict(encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=20)
BOTH |= dict(decoder_start_token_id=2, attention_dropout=0.0, dropout=0.0)
WHISPER = dict(num_mel_bins=4, max_source_positions=6, max_target_positions=40)
LM, SEQ, MASKED = "ForCausalLM", "ForConditionalGeneration", "ForMaskedLM"
FAMILIES = {  # name -> (config, model, sizes)
    "llama": ("Llama", LM, GROUPED),
    "qwen2, window": ("Qwen2", LM, QWEN2),
    "qwen3": ("Qwen3", LM, GROUPED | dict(head_dim=8)),
    "gemma": ("Gemma", LM, GROUPED | dict(head_dim=8)),
    "gemma 2, no cap": ("Gemma2", LM, GEMMA | dict(attn_logit_softcapping=None)),
    "gemma 2": ("Gemma2", LM, GEMMA | dict(attn_logit_softcapping=0.5)),
    "gemma 3": ("Gemma3Text", LM, GEMMA),
    "phi 3": ("Phi3", LM, GROUPED),
    "phi": ("Phi", LM, WIDE | dict(num_attention_heads=3)),
    "mistral, window": ("Mistral", LM, GROUPED | SHORT),
    "mixtral": ("Mixtral", LM, GROUPED | dict(num_local_experts=3)),
    "olmo 2": ("Olmo2", LM, GROUPED),
    "smollm 3": ("SmolLM3", LM, GROUPED),
    "granite": ("Granite", LM, GROUPED | dict(attention_multiplier=0.2)),
    "starcoder 2": ("Starcoder2", LM, GROUPED),
    "cohere": ("Cohere", LM, GROUPED),
    "gpt-oss": ("GptOss", LM, GPT_OSS),
    "gpt-neox": ("GPTNeoX", LM, WIDE),
    "opt": ("OPT", LM, OPT | dict(word_embed_proj_dim=24)),
    "gpt-2": ("GPT2", "LMHeadModel", GPT2),
    "bert": ("Bert", MASKED, WIDE | STILL),
    "roberta": ("Roberta", MASKED, WIDE | STILL),
    "electra": ("Electra", MASKED, WIDE | STILL | dict(embedding_size=24)),
    "distilbert": ("DistilBert", MASKED, DISTILBERT),
    "modernbert": ("ModernBert", MASKED, WIDE | dict(local_attention=4)),
    "t5": ("T5", SEQ, T5 | dict(decoder_start_token_id=0)),
    "bart": ("Bart", SEQ, BOTH | dict(max_position_embeddings=40)),
    "marian": ("Marian", "MTModel", BOTH | dict(max_position_embeddings=40)),
    "whisper": ("Whisper", SEQ, BOTH | WHISPER),
}
TWO_STACKS = ("t5", "bart", "marian", "whisper")
ENCODERS = ("bert", "roberta", "electra", "distilbert", "modernbert")
NEAR = dict(atol=5e-5, rtol=1e-4)


def make(name):
    "A small model of a family, with weights that are large enough to attend unevenly."
    kind, head, sizes = FAMILIES[name]
    prefix = kind.removesuffix("Text")
    ends = dict(pad_token_id=PAD, bos_token_id=1, eos_token_id=2)
    if not hasattr(transformers, f"{kind}Config"):
        pytest.skip(f"transformers {transformers.__version__} has no {kind}Config")
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(vocab_size=V, **ends | sizes)
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{prefix}{head}")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4) if p.ndim > 1 else p.add_(0.3 * torch.randn_like(p))
    return model


def written_out(q, k, v, mask=None, is_causal=False):
    "Attention as a reader writes it: no kernel, no scale, no options."
    T, S = q.shape[-2], k.shape[-2]
    if is_causal:
        past = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        mask = past if mask is None else mask & past
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1) @ v


def capped(q, k, v, mask, is_causal, softcap):
    "The same with a cap on the scores, for Gemma 2."
    if is_causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    scores = softcap * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / softcap)
    weights = scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)
    return weights @ v


def even(q, k, v, mask, is_causal, softcap=None):
    "Every key weighs the same."
    return v.mean(dim=2, keepdim=True).expand(q.shape)


class Counted:
    "An attend that counts its calls."

    def __init__(self, attend):
        self.attend = attend
        self.calls = 0

    def __call__(self, q, k, v, mask, is_causal, **options):
        self.calls += 1
        return self.attend(q, k, v, mask, is_causal, **options)


def attends(name):
    "The functions to try with a family."
    return [capped] if name == "gemma 2" else [attention, written_out]


def inputs_of(name, padded=False):
    "Two texts, and of a translator two targets. The second text begins or ends with pads."
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, V, (2, 9), generator=generator)
    if name == "whisper":
        sound = torch.randn(2, 4, 12, generator=generator)
        return dict(input_features=sound, decoder_input_ids=tokens)
    inputs = dict(input_ids=tokens)
    if padded:
        allowed = torch.ones_like(tokens)
        writes = name not in (*ENCODERS, *TWO_STACKS)
        pads = slice(0, 5) if writes else slice(4, 9)
        allowed[1, pads] = 0
        inputs = dict(input_ids=tokens.where(allowed == 1, PAD), attention_mask=allowed)
        if writes and name != "opt":
            inputs["position_ids"] = (allowed.cumsum(dim=-1) - 1).clamp(min=0)
    if name in TWO_STACKS:
        inputs["decoder_input_ids"] = tokens[:, :7].flip(1)
    return inputs


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_their_own_attention(name):
    model = make(name)
    inputs = inputs_of(name)
    with torch.no_grad():
        wanted = model(**inputs).logits
        for attend in attends(name):
            counted = Counted(attend) if attend is written_out else attend
            with use_attend(model, counted):
                assert_close(model(**inputs).logits, wanted, **NEAR)
            if attend is written_out:
                assert counted.calls == (6 if name in TWO_STACKS else 2)
        with use_attend(model, even):
            assert (model(**inputs).logits - wanted).abs().max() > 1e-2
        assert torch.equal(model(**inputs).logits, wanted)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "whisper"])
def test_pads_hide_as_in_their_own_attention(name):
    model = make(name)
    inputs = inputs_of(name, padded=True)
    real = inputs["attention_mask"] == 1
    if name in TWO_STACKS:
        real = torch.ones_like(inputs["decoder_input_ids"], dtype=torch.bool)
    with torch.no_grad():
        wanted = model(**inputs).logits[real]
        for attend in attends(name):
            with use_attend(model, attend):
                assert_close(model(**inputs).logits[real], wanted, **NEAR)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ENCODERS])
def test_with_their_cache_it_writes_the_same_tokens(name):
    model = make(name)
    inputs = inputs_of(name, padded=True)
    for key in ("position_ids", "decoder_input_ids"):
        inputs.pop(key, None)
    options = dict(max_new_tokens=8, min_new_tokens=8, do_sample=False)
    options |= dict(return_dict_in_generate=True, output_scores=True)
    wanted = model.generate(**inputs, **options)
    for attend in attends(name):
        with use_attend(model, attend):
            found = model.generate(**inputs, **options)
        assert torch.equal(found.sequences, wanted.sequences)
        assert_close(found.scores, wanted.scores, **NEAR)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_of_training_has_the_same_gradients(name):
    model = make(name).train()
    inputs = inputs_of(name)
    labels = inputs.get("decoder_input_ids", inputs.get("input_ids")).roll(-1, dims=1)

    def step():
        model.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    wanted = step()
    for attend in attends(name):
        with use_attend(model, attend):
            found = step()
        assert found.keys() == wanted.keys()
        for key, gradient in wanted.items():
            size = gradient.abs().max().item()
            assert_close(found[key], gradient, atol=1e-4 * max(size, 1e-2), rtol=1e-3, msg=key)


# ---- what is refused, each in one sentence

OWN_CODE = {  # families that never ask the interface
    "Bloom": (LM, dict(hidden_size=24, n_layer=1, n_head=4)),
    "Falcon": (LM, dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=4)),
    "GPTJ": (LM, dict(n_embd=24, n_layer=1, n_head=4, rotary_dim=2)),
    "XGLM": (LM, dict(d_model=24, num_layers=1, attention_heads=4, ffn_dim=20)),
    "Mpt": (LM, dict(d_model=24, n_layers=1, n_heads=4)),
    "DebertaV2": ("ForMaskedLM", WIDE),
    "XLNet": ("LMHeadModel", dict(d_model=24, n_layer=1, n_head=4, d_inner=20)),
    "Longformer": ("ForMaskedLM", WIDE | dict(attention_window=4)),
}


@pytest.mark.parametrize("kind", OWN_CODE)
def test_a_family_with_attention_code_of_its_own_is_refused_by_name(kind):
    head, sizes = OWN_CODE[kind]
    config = getattr(transformers, f"{kind}Config")(vocab_size=V, **sizes)
    model = getattr(transformers, f"{kind}{head}")(config)
    before = parts_of(model)
    refuses(lambda: use_attend(model, attention), ValueError, "model", "Attention, which computes")
    assert parts_of(model) == before


def parts_of(model):
    "All that `use_attend` may touch."
    found = {}
    for name, part in model.named_modules():
        config = vars(part).get("config")
        how = getattr(config, "_attn_implementation", None)
        found[name] = (id(config), how, sorted(vars(part)), len(part._forward_hooks))
    return found


def test_what_is_no_model_of_theirs_or_no_function_is_refused():
    model = make("llama")
    refuses(lambda: use_attend(nn.Linear(2, 2), attention), ValueError, "model", "Linear")
    refuses(lambda: use_attend("llama", attention), TypeError, "model", "str")
    refuses(lambda: use_attend(model, None), TypeError, "attend", "None")
    if hasattr(transformers, "MambaConfig"):
        config = transformers.MambaConfig(vocab_size=V, hidden_size=8, num_hidden_layers=1)
        mamba = transformers.MambaForCausalLM(config)
        refuses(lambda: use_attend(mamba, attention), ValueError, "model", "Mamba")


def test_without_transformers_a_sentence_says_what_to_install(monkeypatch):
    import sys

    model = make("llama")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"transformers 5 or newer: pip install"):
        use_attend(model, attention)


def test_a_cap_and_dropout_need_an_argument():
    model = make("gemma 2")
    inputs = inputs_of("gemma 2")
    before = parts_of(model)
    with use_attend(model, attention):
        refuses(lambda: model(**inputs), ValueError, "attend", "is_causal")
    model = make("gpt-2").train()
    model.transformer.h[0].attn.attn_dropout.p = 0.1
    dropped = []

    def dropping(q, k, v, mask, is_causal, dropout=0.0):
        dropped.append(dropout)
        return attention(q, k, v, mask, is_causal)

    with use_attend(model, attention):
        refuses(lambda: model(**inputs), ValueError, "attend", "scale")
        model.eval()(**inputs)
        model.train()
    with use_attend(model, dropping):
        model(**inputs)
    assert dropped == [0.1, 0.0]
    assert parts_of(make("gemma 2")).keys() == before.keys()


@pytest.mark.parametrize("wrong", [lambda q, *_: q[..., :2], lambda q, *_: None])
def test_a_result_of_the_wrong_shape_or_kind_is_refused(wrong):
    model = make("llama")
    before = parts_of(model)
    with pytest.raises((ValueError, TypeError), match="attend.*expected"), use_attend(model, wrong):
        model(**inputs_of("llama"))
    assert parts_of(model) == before


# ---- the model is given back


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "gemma 3"])
def test_afterwards_and_after_an_error_the_model_is_as_before(name):
    model = make(name)
    before = parts_of(model)
    with use_attend(model, attention):
        assert parts_of(model) != before
    assert parts_of(model) == before
    with pytest.raises(KeyError), use_attend(model, attention):
        raise KeyError
    assert parts_of(model) == before
    use = use_attend(model, attention)
    use.remove()
    use.remove()
    assert parts_of(model) == before


def test_uses_nest_and_may_end_in_any_order():
    model = make("llama")
    before = parts_of(model)
    inputs = inputs_of("llama")
    first, second = Counted(attention), Counted(attention)
    outer = use_attend(model, first)
    inner = use_attend(model.model.layers[0], second)
    again = use_attend(model, first)
    again.remove()
    model(**inputs)
    assert (first.calls, second.calls) == (1, 1)
    outer.remove()
    assert parts_of(model) != before
    inner.remove()
    assert parts_of(model) == before
    model(**inputs)
    assert (first.calls, second.calls) == (1, 1)


def test_models_that_share_a_configuration_attend_in_their_own_ways_also_in_threads():
    model = make("qwen3")
    other = type(model)(model.config).eval()
    other.load_state_dict(model.state_dict())
    inputs = inputs_of("qwen3")
    with torch.no_grad():
        wanted = model(**inputs).logits
        with use_attend(model, even):
            changed = model(**inputs).logits
            assert torch.equal(other(**inputs).logits, wanted)
    assert (changed - wanted).abs().max() > 1e-2
    found = {}

    def run(which, attend):
        for _ in range(5):
            with torch.no_grad(), use_attend(which, attend):
                found.setdefault(attend, []).append(which(**inputs).logits)

    pairs = [(model, even), (other, attention)]
    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for logits in found[even]:
        assert torch.equal(logits, changed)
    for logits in found[attention]:
        assert_close(logits, wanted, **NEAR)


def test_a_copy_attends_as_its_original_and_a_saved_model_forgets(tmp_path):
    model = make("llama")
    inputs = inputs_of("llama")
    with torch.no_grad(), use_attend(model, even):
        changed = model(**inputs).logits
        copied = deepcopy(model)
        model.save_pretrained(tmp_path)
    assert torch.equal(copied(**inputs).logits, changed)
    assert "former_nb" not in (tmp_path / "config.json").read_text()
    loaded = type(model).from_pretrained(tmp_path).eval()
    assert_close(loaded(**inputs).logits, model(**inputs).logits, **NEAR)


def test_a_cache_of_fixed_length_and_a_mask_of_the_callers_own():
    model = make("llama")
    inputs = inputs_of("llama", padded=True)
    del inputs["position_ids"]
    options = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False, disable_compile=True)
    wanted = model.generate(**inputs, **options)
    tokens = inputs_of("llama")
    past = torch.ones(9, 9, dtype=torch.bool).tril()
    window = (past & ~past.tril(-3)).expand(2, 1, 9, 9)
    added = torch.zeros(window.shape).masked_fill(~window, torch.finfo(torch.float32).min)
    with torch.no_grad():
        narrow = model(**tokens, attention_mask=added).logits
        for attend in (attention, written_out):
            with use_attend(model, attend):
                found = model.generate(**inputs, **options, cache_implementation="static")
                assert torch.equal(found, wanted)
                for mask in (window, added):
                    assert_close(model(**tokens, attention_mask=mask).logits, narrow, **NEAR)


# ---- what looks into models takes any of them


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_of_a_function_of_yours_are_recorded(name):
    model = make(name)
    inputs = inputs_of(name, padded=name != "whisper")
    with torch.no_grad():
        with record_attention(model) as wanted:
            model(**inputs)
        [attend, *_] = attends(name)
        with use_attend(model, attend):
            alone = model(**inputs).logits
            with record_attention(model) as found:
                if name == "gemma 2":
                    refuses(lambda: model(**inputs), ValueError, "attend", "0.5")
                    return
                assert torch.equal(model(**inputs).logits, alone)
            assert torch.equal(model(**inputs).logits, alone)
    real = torch.ones(2, 9, dtype=torch.bool)
    if name not in TWO_STACKS:
        real = inputs["attention_mask"] == 1
    assert found.keys() == wanted.keys()
    for key, weights in wanted.items():
        rows = real[:, None, :, None] if weights.shape[2] == 9 else torch.tensor(True)
        assert_close(found[key] * rows, weights * rows, atol=1e-4, rtol=1e-3)


def test_recorders_nest_and_leave_nothing_after_an_error():
    model = make("qwen3")
    inputs = inputs_of("qwen3")
    with use_attend(model, attention):
        during = parts_of(model)
        with record_attention(model) as outer, record_attention(model.model.layers[0]) as inner:
            model(**inputs)
        assert len(outer) == 2 and len(inner) == 1
        assert torch.equal(*[next(iter(weights.values())) for weights in (outer, inner)])
        with pytest.raises(KeyError), record_attention(model):
            raise KeyError
        assert parts_of(model) == during


@pytest.mark.parametrize("name", ["qwen3", "gemma 3", "phi 3", "gpt-neox", "roberta", "t5"])
def test_heads_are_switched_off_and_shown_in_any_family(name):
    model = make(name)
    inputs = {key: t[:1] for key, t in inputs_of(name).items()}
    heads = find_heads(model)
    with torch.no_grad(), use_attend(model, attention):
        whole = model(**inputs).logits
        with ablate_heads(model, heads[:1]):
            assert (model(**inputs).logits - whole).abs().max() > 1e-3
        page = view(model, inputs).html
    assert page.count('"kind":') >= len({kind for kind, _, _ in heads})


@pytest.mark.parametrize("name", some(["t5", "gemma 3", "qwen3", "phi 3", "gpt-neox"], 2))
def test_the_leak_meter_finds_what_an_attend_does_in_any_family(name):
    model = make(name)
    tokens = inputs_of(name)["input_ids"][:, :5]
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    run = partial(model, tokens) if name == "t5" else model

    def without_mask(q, k, v, mask, is_causal):
        return attention(q, k, v)

    def meter(ids):
        return run(decoder_input_ids=ids) if name == "t5" else run(ids)

    with use_attend(model, attention):
        assert_no_leak(meter, tokens, past, must_depend=False, vocab_size=V)
    with use_attend(model, without_mask), pytest.raises(LeakError):
        assert_no_leak(meter, tokens, past, must_depend=False, vocab_size=V)
