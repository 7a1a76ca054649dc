"""Hugging Face's models in our modules and back: random ones, made from a configuration, never
downloaded. Prints the largest differences (pytest -s)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hugging_face_tools import (
    BERT,
    DECODERS,
    ENCODERS,
    END,
    GPT2,
    LLAMA,
    LLAMA3,
    NEAR,
    NONE,
    PAIRS,
    TEXTS,
    TOKENS,
    V,
    bytes_bpe,
    change_config,
    make,
    metaspace,
    same,
    with_tokenizer,
    word_piece,
)
from refusals import refuses
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.testing import assert_close
from typer.testing import CliRunner

from former_nb.cli import app
from former_nb.data.tokenization import HuggingFaceTokenizer
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, generate, stream
from former_nb.decoding.classification import predict
from former_nb.decoding.sampling import Sampling
from former_nb.inspection.comparison import same as same_models
from former_nb.inspection.recording import record_attention
from former_nb.inspection.viewer import view
from former_nb.models.bert import BertClassifier, BertMaskedLanguageModel
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, LanguageModel
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.saving.saving import load_model, save_model

transformers = pytest.importorskip("transformers")
from transformers import BertConfig, GPT2Config, LlamaConfig  # noqa: E402

FULL = torch.randint(4, V, (3, 7), generator=torch.Generator().manual_seed(0))  # no padding
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0]])


@pytest.fixture(params=DECODERS)
def decoder(request):
    return make(*DECODERS[request.param])


@pytest.fixture(params=ENCODERS)
def encoder(request):
    return make(*ENCODERS[request.param])


def run_both(ours, theirs, tokens, mask, **kwargs):
    "Logits, attention weights and hidden states of both, ours as theirs name them."
    hidden, blocks = [], getattr(ours, "encoder", ours).stack.blocks
    seen = [b.register_forward_pre_hook(lambda m, args: hidden.append(args[0])) for b in blocks]
    with record_attention(ours) as weights:
        if isinstance(ours, BertMaskedLanguageModel):
            places = torch.arange(tokens.shape[1]).expand_as(tokens)
            logits = ours(tokens, places, **kwargs)
        else:
            logits = ours(tokens, **kwargs)
    [hook.remove() for hook in seen]
    names = {"segments": "token_type_ids"}
    kwargs = {names[name]: value for name, value in kwargs.items()}
    wanted = dict(output_attentions=True, output_hidden_states=True)
    found = theirs(input_ids=tokens, attention_mask=mask, **wanted, **kwargs)
    return (logits, list(weights.values()), hidden), found


def all_parts_agree(ours, theirs, inputs, their_inputs=None):
    "No product of the one has other numbers than that of the other."
    found = same_models(ours, theirs, inputs, their_inputs)
    assert found and not found.place, found


def gradients_agree(ours, theirs, loss, their_loss, real):
    "The gradients of one number, compared after the way back of the weights' names."
    loss.backward(), their_loss.backward()
    grads = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.zeros_like(p) if p.grad is None else p.grad)
    wanted = dict(from_hugging_face(theirs).named_parameters())
    return max(same(grads[name], wanted[name], atol=1e-5 * real) for name in grads)


def test_a_decoder_gives_the_same_numbers(decoder):
    ours = from_hugging_face(decoder)
    assert type(ours) is LanguageModel and not ours.training
    mask = (TOKENS != 0).long()
    (logits, weights, hidden), found = run_both(ours, decoder, TOKENS, mask)
    real = mask.bool()
    far = [same(logits[real], found.logits[real])]
    both = mask[:, None, :, None].bool() & mask[:, None, None].bool()
    far += [same(a * both, b * both) for a, b in zip(weights, found.attentions, strict=True)]
    far += [same(a[real], b[real]) for a, b in zip(hidden, found.hidden_states)]
    all_parts_agree(ours, decoder, FULL)
    whole = TOKENS[:1]  # a loss on what is no padding
    loss, theirs = (m.logsumexp(-1).sum() for m in (ours(whole), decoder(whole).logits))
    far.append(gradients_agree(ours, decoder, loss, theirs, real=loss.item()))
    print(f" logits {far[0]:.1e}, weights and hidden states {max(far[1:-1]):.1e}", end="")
    print(f", gradients {far[-1]:.1e}")


@pytest.mark.parametrize("segments", [None, SEGMENTS])
def test_an_encoder_gives_the_same_numbers(encoder, segments):
    if segments is not None:
        segments = segments.clamp(max=encoder.config.type_vocab_size - 1)
    ours, mask = from_hugging_face(encoder), (TOKENS != 0).long()
    kwargs = {} if segments is None else {"segments": segments}
    (logits, weights, hidden), found = run_both(ours, encoder, TOKENS, mask, **kwargs)
    real = mask.bool()
    pooled = isinstance(ours, BertClassifier)
    rows = slice(None) if pooled else real
    far = [same(logits[rows], found.logits[rows])]
    both = mask[:, None, :, None].bool().expand(-1, 3, -1, 7)
    far += [same(a * both, b * both) for a, b in zip(weights, found.attentions, strict=True)]
    far += [same(a[real], b[real]) for a, b in zip(hidden, found.hidden_states)]
    theirs = dict(input_ids=FULL)
    if segments is not None:
        theirs["token_type_ids"] = segments
    places = {} if pooled else dict(positions=torch.arange(7).expand(3, 7))
    all_parts_agree(ours, encoder, dict(tokens=FULL, **kwargs, **places), theirs)
    loss, theirs = (x[rows].logsumexp(-1).sum() for x in (logits, found.logits))
    far.append(gradients_agree(ours, encoder, loss, theirs, real=loss.item()))
    print(f" logits {far[0]:.1e}, others {max(far[1:-1]):.1e}, gradients {far[-1]:.1e}")


# ---- there and back


def test_a_folder_is_read_as_the_model_is_and_the_way_back_is_the_inverse(decoder, tmp_path):
    there_and_back(decoder, tmp_path)


def test_the_same_for_an_encoder(encoder, tmp_path):
    there_and_back(encoder, tmp_path)


def there_and_back(theirs, folder):
    "theirs -> folder -> ours -> folder -> theirs -> ours, no number and no size changed."
    theirs.save_pretrained(folder / "theirs")
    ours = from_hugging_face(folder / "theirs")
    to_hugging_face(ours, folder / "ours")
    [name] = json.loads((folder / "ours" / "config.json").read_text())["architectures"]
    again = getattr(transformers, name).from_pretrained(folder / "ours")
    before = theirs.state_dict()
    assert {n: t.tolist() for n, t in again.state_dict().items()} == {
        n: t.tolist() for n, t in before.items()
    }
    back = from_hugging_face(again)
    own = getattr(ours, "encoder", ours).config
    assert getattr(back, "encoder", back).config == own
    skipped = ("encoder.head", "encoder.pool")  # of a model for hidden tokens: they start anew
    state = {n: t for n, t in ours.state_dict().items() if not n.startswith(skipped)}
    assert all(torch.equal(back.state_dict()[n], t) for n, t in state.items())
    assert type(back) is type(ours)


OURS = dict(vocab_size=V, max_len=20, d_model=24, n_heads=3, n_layers=2, d_ff=40)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        dict(activation="gelu_tanh", tied_head=False, norm_eps=1e-3),
        dict(positions="rotary", norm="rms", activation="swiglu", bias="none", n_kv_heads=1),
        dict(positions="rotary", norm="rms", activation="swiglu", bias="qkv", d_k=10),
        dict(positions="rotary", norm="rms", activation="swiglu", rope_base=300.0),
    ],
    ids=["plain", "gpt-2", "llama", "qwen2", "llama with biases"],
)
def test_a_model_of_ours_is_one_of_theirs(changes, tmp_path):
    torch.manual_seed(1)
    ours = LanguageModel.from_config(TransformerConfig(**OURS | changes)).eval()
    to_hugging_face(ours, tmp_path, eos_token_id=2)
    lost = {"weight_map": {"transformer.wte.weight": "model-00001-of-00001.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(lost))  # of an older model
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert_close(theirs(TOKENS).logits, ours(TOKENS), **NEAR)
    back = from_hugging_face(tmp_path)
    assert back.config == ours.config
    assert {n: t.tolist() for n, t in back.state_dict().items()} == {
        n: t.tolist() for n, t in ours.state_dict().items()
    }
    assert theirs.config.eos_token_id == 2


@pytest.mark.parametrize(
    "model",
    [
        lambda: LanguageModel.from_config(TransformerConfig(**OURS, positions="alibi")),
        lambda: LanguageModel.from_config(TransformerConfig(**OURS, norm_first=False)),
        lambda: Classifier.from_config(TransformerConfig(**OURS, norm_first=False), 2),
        lambda: BertClassifier(TransformerConfig(**OURS), 2),
        lambda: torch.nn.Linear(2, 2),
    ],
)
def test_a_model_that_none_of_theirs_is_is_refused(model, tmp_path):
    refuses(lambda: to_hugging_face(model(), tmp_path / "new"), ValueError, "model")
    assert not (tmp_path / "new").exists()


# ---- generation

FREE = dict(eos_token_ids=None, suppress_tokens=())
PROMPTS = [[0, 7, 3], [9, 4, 8, 5, 30], [36]]


def their_texts(theirs, row, n, **kwargs):
    with torch.no_grad():
        how = dict(max_new_tokens=n, do_sample=False, pad_token_id=0, use_cache=True)
        found = theirs.generate(
            torch.tensor([row]), attention_mask=torch.ones(1, len(row)).long(), **how | kwargs
        )
    return found.tolist()


def test_greedy_texts_and_beams_are_token_for_token_theirs(decoder):
    ours = from_hugging_face(decoder)
    found = generate(ours, PROMPTS, 20, Sampling(temperature=0), **FREE)
    assert found == [their_texts(decoder, row, 20)[0] for row in PROMPTS]
    row = PROMPTS[1]
    beams = their_texts(decoder, row, 8, num_beams=3, num_return_sequences=3, length_penalty=0.0)
    found = beam_search(ours, row, 3, 8, num_return_sequences=3, length_penalty=0.0, **FREE)
    assert [text for text, _ in found] == beams


def test_filtered_probabilities_are_theirs(decoder):
    process = pytest.importorskip("transformers.generation.logits_process")
    ours, cache = from_hugging_face(decoder), KVCache(2)
    row = torch.tensor(PROMPTS[1:2])
    with torch.no_grad():
        ours(row[:, :3], attend=cache)
        rest = row[:, 3:]
        mine = ours(rest, cache, cache.positions(rest.shape[1]))[:, -1] / 0.7
        logits = decoder(row).logits[:, -1] / 0.7
    for k, p in [(5, None), (None, 0.6), (20, 0.9)]:
        theirs = process.TopKLogitsWarper(k)(row, logits) if k else logits
        theirs = process.TopPLogitsWarper(p)(row, theirs) if p else theirs
        pick = Sampling(top_p=p).filter(lambda logits: logits)
        kept = Sampling(top_k=k).filter(pick)(mine)  # theirs filter one after another
        assert_close(kept.softmax(-1), theirs.softmax(-1), **NEAR)


# ---- what is refused, by name and before anything is allocated


@pytest.fixture
def folder(tmp_path):
    "A GPT-2 in three files."
    make(*DECODERS["gpt2"]).save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    return tmp_path


def change_tensors(folder, change):
    "Apply `change` to the tensors of the file that has the last norm."
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    name = next(f for n, f in index["weight_map"].items() if n.endswith("ln_f.weight"))
    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name)
    where = {n: f for n, f in index["weight_map"].items() if f != name}
    index["weight_map"] = where | dict.fromkeys(tensors, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def shorten(tensors):
    tensors["transformer.ln_f.weight"] = tensors["transformer.ln_f.weight"][:5].clone()


def whole_numbers(tensors):
    tensors["transformer.ln_f.weight"] = tensors["transformer.ln_f.weight"].to(torch.int8)


def pickle_only(folder):
    [file.unlink() for file in folder.glob("model*")]
    torch.save({}, folder / "pytorch_model.bin")


REFUSED = {
    "a shard is missing": (lambda f: next(f.glob("model-*2-of*")).unlink(), "model-00002"),
    "a shard is cut": (lambda f: next(f.glob("model-*2-of*")).write_bytes(b"abc"), "-00002"),
    "only a pickle": (pickle_only, "pytorch_model.bin could run code"),
    "a wrong shape": (lambda f: change_tensors(f, shorten), "ln_f.weight, got (5,)"),
    "a name too few": (
        lambda f: change_tensors(f, lambda t: t.pop("transformer.ln_f.weight")),
        "transformer.ln_f.weight",
    ),
    "a name too many": (
        lambda f: change_tensors(f, lambda t: t.update(more=torch.ones(1))),
        "got 'more'",
    ),
    "whole numbers": (lambda f: change_tensors(f, whole_numbers), "int8"),
    "no configuration": (lambda f: (f / "config.json").unlink(), "No such file"),
    "a configuration that is a list": (lambda f: (f / "config.json").write_text("[]"), "got []"),
    "an unknown architecture": (
        lambda f: change_config(f, architectures=["T5ForConditionalGeneration"], model_type="t5"),
        "got 'T5ForConditionalGeneration'",
    ),
    "a body without a head": (lambda f: change_config(f, architectures=["GPT2Model"]), "GPT2Model"),
    "another vocabulary": (lambda f: change_config(f, vocab_size=38), "transformer.wte.weight"),
    "no width": (lambda f: change_config(f, n_embd="absent"), "None"),
    "other scores": (lambda f: change_config(f, scale_attn_weights=False), "scale_attn_weights"),
    "another activation": (lambda f: change_config(f, activation_function="mish"), "'mish'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_spoilt_folder_is_refused(folder, name):
    spoil, said = REFUSED[name]
    from_hugging_face(folder)
    spoil(folder)
    with pytest.raises((ValueError, TypeError)) as error:
        from_hugging_face(folder)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (dict(rope_parameters=dict(rope_type="yarn", factor=4.0)), "rope_scaling"),
        (dict(rope_parameters=LLAMA3 | dict(factor=None)), "rope_scaling"),
        (dict(mlp_bias=True), "mlp_bias"),
        (
            dict(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=16),
            "sliding_window",
        ),
        (dict(model_type="mixtral", architectures=["MixtralForCausalLM"]), "architectures"),
        (dict(hidden_act="gelu"), "hidden_act"),
        (dict(num_key_value_heads=4), "n_heads"),
    ],
)
def test_a_decoder_that_ours_cannot_be_is_refused(changes, field, tmp_path):
    make(*DECODERS["llama"]).save_pretrained(tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"^source: .*{field}"):
        from_hugging_face(tmp_path)


def test_rotary_positions_take_no_room_for_tokens_that_nobody_reads(tmp_path):
    make(*DECODERS["llama"]).save_pretrained(tmp_path)
    change_config(tmp_path, max_position_embeddings=10**12)
    model = from_hugging_face(tmp_path)
    assert model.config.max_len == 10**12
    assert generate(model, torch.tensor([[5, 6]]), 3).shape == (1, 5)


def test_a_folder_that_is_missing_never_becomes_a_name_on_the_hub(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "former_nb.saving.hugging_face.snapshot_download",
        lambda name, revision, allow_patterns: asked.append((name, revision)) or tmp_path,
    )
    refuses(lambda: from_hugging_face("openai-community/gpt2"), ValueError, "source", "gpt2")
    assert asked == []
    make(*DECODERS["gpt2"]).save_pretrained(tmp_path)
    assert type(from_hugging_face("openai-community/gpt2", revision="main")) is LanguageModel
    assert asked == [("openai-community/gpt2", "main")]


def test_files_as_they_were_in_2018_and_2019_are_read(tmp_path):
    theirs = make(*DECODERS["gpt2"])
    theirs.save_pretrained(tmp_path)
    old = load_file(tmp_path / "model.safetensors")  # the body alone, and its masks
    old = {name.removeprefix("transformer."): t for name, t in old.items()}
    old["h.0.attn.bias"] = torch.ones(1, 1, 4, 4).tril()
    save_file(old, tmp_path / "model.safetensors")
    change_config(tmp_path, tie_word_embeddings="absent", n_inner="absent")
    assert_close(from_hugging_face(tmp_path)(TOKENS), theirs(TOKENS).logits, **NEAR)
    theirs = make(*ENCODERS["masked"])
    theirs.save_pretrained(tmp_path)
    old = load_file(tmp_path / "model.safetensors")
    ends = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for new, end in ends.items():
        old = {name.replace(new, end): t for name, t in old.items()}
    old["bert.pooler.dense.bias"] = torch.ones(24)
    old["cls.seq_relationship.bias"] = torch.ones(2)
    save_file(old, tmp_path / "model.safetensors")
    places = torch.arange(7).expand(1, -1)
    logits = from_hugging_face(tmp_path)(TOKENS[:1], places)
    assert_close(logits, theirs(TOKENS[:1]).logits, **NEAR)


def change_tensor(folder, name, dtype):
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = tensors[name].to(dtype)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_each_part_of_a_joined_tensor_is_looked_at(tmp_path):
    make(*DECODERS["llama"]).save_pretrained(tmp_path)
    change_tensor(tmp_path, "model.layers.1.self_attn.k_proj.weight", torch.int8)
    refuses(lambda: from_hugging_face(tmp_path), ValueError, "source", "int8")


# ---- tokenizers of such folders


KINDS = {
    "bytes": (bytes_bpe, "GPT2LMHeadModel", GPT2Config, GPT2, [0]),
    "metaspace": (metaspace, "LlamaForCausalLM", LlamaConfig, LLAMA, [2]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_theirs_is_loaded_with_its_tokenizer_and_saved_as_ours(kind, tmp_path):
    make_tokenizer, name, config, sizes, ends = KINDS[kind]
    own = make_tokenizer()
    V = own.get_vocab_size() + 3  # room for more
    config = config(**sizes | dict(vocab_size=V))
    ids = dict(eos_token_id=ends[0], bos_token_id=ends[0])
    theirs = with_tokenizer(tmp_path / "theirs", name, config, own, **ids)
    save_model(tmp_path / "ours", *load_model(tmp_path / "theirs")[:2])
    for model, tokenizer, labels in map(load_model, (tmp_path / "theirs", tmp_path / "ours")):
        assert labels is None and tokenizer.vocab_size == V
        for text in TEXTS[::3] + ["cat", " "]:
            if END not in text:
                row = [*tokenizer.before, *tokenizer.encode(text)]
                assert row == own.encode(text).ids
        prompt = "The cat"
        row = own.encode(prompt).ids
        [wanted] = their_texts(theirs, row, 30, pad_token_id=ends[0])
        text = own.decode(wanted)
        assert generate(model, prompt, 30, tokenizer=tokenizer) == text
        assert "".join([prompt, *stream(model, prompt, 30, tokenizer=tokenizer)]) == text
        generate(model, "", 3, Sampling(), tokenizer=tokenizer)  # starts somewhere
        labels = view(model, prompt, tokenizer).panels[0].labels[0]
        assert labels == [own.id_to_token(i) if i in ends + [1] else own.decode([i]) for i in row]


def test_a_configuration_is_read_once(tmp_path, monkeypatch):
    config = GPT2Config(**GPT2 | dict(vocab_size=300), **NONE)
    with_tokenizer(tmp_path, "GPT2LMHeadModel", config, bytes_bpe())
    names, read = [], open
    note = lambda file, *args, **kwargs: (
        names.append(Path(file).name) or read(file, *args, **kwargs)
    )
    monkeypatch.setattr("io.open", note)  # as `Path.read_bytes` calls it
    load_model(tmp_path)
    assert names.count("config.json") == 1


def test_no_text_spells_a_special_token():
    for make_tokenizer, names in [
        (bytes_bpe, [END]),
        (metaspace, ["<s>", "</s>"]),
        (word_piece, ["[CLS]", "[SEP]", "[PAD]"]),
    ]:
        own = make_tokenizer()
        wrapped = HuggingFaceTokenizer(json.loads(own.to_str()), 400, [])
        for name in names:
            number = own.token_to_id(name)
            assert number in own.encode(f"cat {name}").ids
            assert number not in wrapped.encode(f"cat {name}")
    vocab = {"[UNK]": 0, "</s>": 1, "cat": 2}  # a model of words that are cut at spaces alone
    own = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    own.add_special_tokens(["</s>", "[UNK]"])
    wrapped = HuggingFaceTokenizer(json.loads(own.to_str()), 3, [1])
    assert wrapped.encode("cat dog") == [2, 0]
    refuses(lambda: wrapped.encode("cat </s>"), ValueError, "text")


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path):
    own = bytes_bpe()
    with_tokenizer(tmp_path, "GPT2LMHeadModel", GPT2Config(**GPT2, **NONE), own)
    refuses(lambda: load_model(tmp_path), ValueError, "model")
    (tmp_path / "tokenizer.json").unlink()
    refuses(lambda: load_model(tmp_path), ValueError, "model", str(tmp_path))


def test_a_classifier_of_theirs_gives_its_labels(tmp_path):
    own = word_piece()
    config = BertConfig(**BERT | dict(vocab_size=own.get_vocab_size()), num_labels=2)
    config.id2label = {0: "bad", 1: "good"}
    theirs = with_tokenizer(tmp_path, "BertForSequenceClassification", config, own)
    save_model(tmp_path / "ours", *load_model(tmp_path))
    for model, tokenizer, labels in map(load_model, (tmp_path, tmp_path / "ours")):
        assert labels == ["bad", "good"]
        found = predict(model, tokenizer, ["the cat", "a film to forget"], labels)
        for p, text in zip(found["p(good)"], ["the cat", "a film to forget"]):
            logits = theirs(torch.tensor([own.encode(text).ids])).logits
            assert abs(p - logits.softmax(-1)[0, 1].item()) < 1e-5
    arguments = ["classify", "--model", str(tmp_path), "--device", "cpu", "a film to forget"]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0, said.output
    assert f"{found['label'][1]}" in said.stdout  # a BERT is a classifier


def test_the_command_line_writes_what_theirs_writes(tmp_path):
    own = bytes_bpe()
    sizes = GPT2 | dict(vocab_size=own.get_vocab_size(), n_positions=256)
    config = GPT2Config(**sizes)
    theirs = with_tokenizer(
        tmp_path, "GPT2LMHeadModel", config, own, eos_token_id=0, bos_token_id=0
    )
    row = own.encode("The cat").ids
    [wanted] = their_texts(theirs, row, 200, pad_token_id=0)
    arguments = (
        f"generate --model {tmp_path} --n 1 --temperature 0 --max-new-tokens 200 --device cpu"
    )
    found = CliRunner().invoke(app, [*arguments.split(), "The cat"])
    assert found.exit_code == 0, found.output
    assert found.stdout == own.decode(wanted) + "\n"
    assert len(wanted) == len(row) + 200 or wanted[-1] == 0


# ---- what reading costs


LOADED = """
import re, sys
from pathlib import Path
from former_nb.saving.hugging_face import from_hugging_face

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

_, small, folder = sys.argv
warm = from_hugging_face(small)  # imports, and room for what is read in passing; it stays alive
before = peak()
model = from_hugging_face(folder)
size = sum(4 * p.numel() for p in model.parameters())
assert peak() - before < 1.8 * size, (peak() - before) / size  # with pages of the file
assert "torch._dynamo" not in sys.modules
assert all(p.untyped_storage().nbytes() == p.nbytes for p in model.parameters())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process knows its peak")
def test_their_folder_takes_its_size_and_no_compiler(tmp_path):
    sizes = dict(d_model=512, n_heads=8, n_layers=2, d_ff=2048, activation="gelu_tanh")
    for name, vocab_size in (("small", 40), ("large", 40_000)):
        model = LanguageModel.from_config(
            TransformerConfig(vocab_size, 64, **sizes, tied_head=True)
        )
        to_hugging_face(model, tmp_path / name)
    words = [sys.executable, "-c", LOADED, tmp_path / "small", tmp_path / "large"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- folders that say *tied* and hold copies that are none, beside what transformers reads

TIED = {
    "gpt2": DECODERS["gpt2"],
    "llama": DECODERS["llama, tied, biases, wide heads"],
    "qwen2": DECODERS["qwen2"],
}


def write(theirs, folder, whole, copies, far=0.2):
    "Their folder, with copies of the tensor `whole` that are `far` from it; what theirs reads."
    theirs.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in copies:
        tensors[name] = tensors[whole] + far * torch.randn_like(tensors[whole])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return type(theirs).from_pretrained(folder).eval()


def embeddings(theirs):
    "What the tensor of the embeddings is called in a file."
    return next(
        n for n, p in theirs.named_parameters() if p is theirs.get_input_embeddings().weight
    )


@pytest.mark.parametrize("name", TIED)
def test_a_head_that_is_not_the_embedding_is_read(name, tmp_path):
    tied = make(*TIED[name])
    assert tied.config.tie_word_embeddings
    theirs = write(tied, tmp_path / "theirs", embeddings(tied), ["lm_head.weight"])
    assert not torch.equal(theirs.lm_head.weight, theirs.get_input_embeddings().weight)
    wanted = theirs(TOKENS).logits
    assert (wanted - tied(TOKENS).logits).abs().max() > 0.5  # the head matters
    for source in (tmp_path / "theirs", theirs):
        ours = from_hugging_face(source)
        assert not ours.config.tied_head
        assert_close(ours(TOKENS), wanted, **NEAR)
    to_hugging_face(ours, tmp_path / "ours")
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    assert_close(again(TOKENS).logits, wanted, **NEAR)


@pytest.mark.parametrize("name", TIED)
def test_a_head_that_is_the_embedding_stays_one_matrix(name, tmp_path):
    tied = make(*TIED[name])
    theirs = write(tied, tmp_path, embeddings(tied), ["lm_head.weight"], far=0.0)
    ours = from_hugging_face(tmp_path)
    assert ours.config.tied_head and ours.head.weight is ours.embed.tokens.weight
    assert_close(ours(TOKENS), theirs(TOKENS).logits, **NEAR)


@pytest.mark.parametrize("place", ["model.decoder.embed_tokens.weight", "lm_head.weight"])
def test_a_translator_with_two_matrices_is_refused_by_name(place, tmp_path):
    theirs = make(*PAIRS["bart"])
    write(theirs, tmp_path, "model.shared.weight", [place])
    refuses(lambda: from_hugging_face(tmp_path), ValueError, "source", "two that differ")
    write(theirs, tmp_path, "model.shared.weight", [place], far=0.0)
    assert from_hugging_face(tmp_path).init_args["tied"]


COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_model_for_hidden_tokens_with_two_matrices_is_refused_by_name(copy, tmp_path):
    theirs = make(*ENCODERS["masked"])
    write(theirs, tmp_path, COPIES[copy], [copy], far=0.0)
    places = torch.arange(7).expand(3, -1)
    real = TOKENS != 0
    assert_close(
        from_hugging_face(tmp_path)(TOKENS, places)[real],
        theirs(TOKENS, attention_mask=real.long()).logits[real],
        **NEAR,
    )
    write(theirs, tmp_path, COPIES[copy], [copy])
    with pytest.raises(ValueError, match=f"^source: .*{copy}"):
        from_hugging_face(tmp_path)


def test_a_classifier_does_not_read_what_finds_hidden_tokens(tmp_path):
    theirs = make(*ENCODERS["classifier"])
    copies = list(COPIES)[:1]
    write(theirs, tmp_path, COPIES[copies[0]], copies)
    ours = from_hugging_face(tmp_path)
    assert type(ours) is BertClassifier
    wanted = theirs(TOKENS, attention_mask=(TOKENS != 0).long()).logits
    assert_close(ours(TOKENS), wanted, **NEAR)
