"""BART and Marian in our encoder-decoder and back: random ones, made from a configuration. Prints
the largest differences (pytest -s)."""

import json

import pytest
import torch
from hugging_face_tools import DECODERS, NEAR, PAIRS, SIZES, V, change_config, make, same
from refusals import refuses
from thorough import some
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.testing import assert_close
from typer.testing import CliRunner

from former_nb.cli import app
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache
from former_nb.decoding.translating import translate
from former_nb.inspection.recording import record_attention
from former_nb.inspection.viewer import view
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.config import TransformerConfig
from former_nb.models.parts import attend_beams
from former_nb.models.savable import EncoderDecoder
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.saving.saving import load_model, save_model

transformers = pytest.importorskip("transformers")
from transformers import BartConfig  # noqa: E402


@pytest.fixture(params=PAIRS)
def theirs(request):
    model = make(*PAIRS[request.param])
    with torch.no_grad():
        model.final_logits_bias.normal_()
    return model


def rows(theirs):
    "Sources of three lengths, filled with its pad, and as many targets from its start on."
    pad, start = theirs.config.pad_token_id, theirs.config.decoder_start_token_id
    src = [[7, 5, 9, 4, 0, 8, 11], [6, 12, 7, 0, *3 * [pad]], [0, 5, 8, 30, 35, *2 * [pad]]]
    tgt = [[start, 0, 9, 4, 2], [start, 7, 7, 31, 0], [start, 5, 0, 2, 6]]
    return torch.tensor(src), torch.tensor(tgt)


def test_it_gives_the_same_numbers(theirs):
    ours, (src, tgt) = from_hugging_face(theirs), rows(theirs)
    assert type(ours) is BartEncoderDecoder and not ours.training
    real, hidden = src != theirs.config.pad_token_id, {"encoder": [], "decoder": []}
    for side, found in hidden.items():
        for block in getattr(ours, side).blocks:
            block.register_forward_pre_hook(lambda m, args, found=found: found.append(args[0]))
    memory = ours.encode(src)
    [found.clear() for found in hidden.values()]
    with record_attention(ours) as weights:
        logits = ours(src, tgt)
    wanted = dict(output_attentions=True, output_hidden_states=True)
    found = theirs(src, attention_mask=real.long(), decoder_input_ids=tgt, **wanted)
    assert found.logits.std() > 0.5  # its answers differ
    far = [same(logits, found.logits)]
    far += [same(memory[real], found.encoder_last_hidden_state[real])]
    far += [same(a[real], b[real]) for a, b in zip(hidden["encoder"], found.encoder_hidden_states)]
    far += [same(a, b) for a, b in zip(hidden["decoder"], found.decoder_hidden_states)]
    names = {"encoder.blocks.{}.attention": found.encoder_attentions}
    names |= {"decoder.blocks.{}.attention": found.decoder_attentions}
    names |= {"decoder.blocks.{}.cross": found.cross_attentions}
    seen = {name.format(i): b for name, layers in names.items() for i, b in enumerate(layers)}
    assert seen.keys() == weights.keys()
    for name, b in seen.items():
        at = real[:, None, :, None] if name.startswith("encoder") else 1
        far.append(same(weights[name] * at, b * at))
    print(f" logits {far[0]:.1e}, weights and hidden states {max(far[1:]):.1e}", end="")


def test_it_gives_the_same_gradients(theirs):
    ours, (src, tgt) = from_hugging_face(theirs), rows(theirs)
    src, tgt = src[:1], tgt[:1, 1:]  # without pads, whose embeddings theirs does not train
    loss, other = ours(src, tgt), theirs(src, decoder_input_ids=tgt).logits
    loss, other = (x.logsumexp(-1).sum() for x in (loss, other))
    loss.backward(), other.backward()
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.zeros_like(p) if p.grad is None else p.grad)
    wanted = dict(from_hugging_face(theirs).named_parameters())
    grads = {
        n: p.grad for n, p in ours.named_parameters() if n != "head.bias"
    }  # theirs is no parameter
    print(f" gradients {max(same(g, wanted[n], atol=1e-4) for n, g in grads.items()):.1e}", end="")


def test_there_and_back_changes_nothing(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_hugging_face(tmp_path / "theirs")
    to_hugging_face(ours, tmp_path / "ours")
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    read = slice(theirs.model.encoder.embed_positions.weight.shape[0] - 32, None)
    for name, t in theirs.state_dict().items():
        at = read if "embed_positions" in name else slice(None)
        assert torch.equal(again.state_dict()[name][at], t[at]), name
    for source in (tmp_path / "ours", again, theirs):
        back = from_hugging_face(source)
        assert back.config == ours.config
        assert all(torch.equal(back.state_dict()[n], t) for n, t in ours.state_dict().items())
    ours.save_pretrained(tmp_path / "own")
    src, tgt = rows(theirs)
    assert torch.equal(type(ours).from_pretrained(tmp_path / "own")(src, tgt), ours(src, tgt))


def test_greedy_texts_and_beams_are_token_for_token_theirs(theirs):
    ours, (src, tgt) = from_hugging_face(theirs), rows(theirs)
    pad, mask = theirs.config.pad_token_id, src != theirs.config.pad_token_id
    memory = ours.decoder.project(ours.encode(src), attend_beams)
    mask = mask[:, None, None]
    step = lambda t, cache, at: ours.decode(t, memory, mask, cache, at)
    how = dict(do_sample=False, max_new_tokens=9, eos_token_id=None, pad_token_id=pad)
    how |= dict(forced_eos_token_id=None, length_penalty=0.0, bad_words_ids=None)
    for n in (1, 3):
        free = dict(eos_token_ids=None, suppress_tokens=(), length_penalty=0.0, cache=KVCache(2))
        found = beam_search(step, tgt[:, :1], n, 9, num_return_sequences=n, **free)
        with torch.no_grad():
            many = dict(num_beams=n, num_return_sequences=n)
            wanted = theirs.generate(src, attention_mask=mask[:, 0, 0].long(), **how, **many)
        assert [text for best in found for text, _ in best] == wanted.tolist()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (dict(decoder_layers=1), "decoder_layers"),
        (dict(scale_embedding=True), "scale_embedding"),
        (dict(normalize_before=True), "normalize_before"),
        (dict(pad_token_id=V), "pad_token_id"),
        (dict(pad_token_id=1.5), "pad_token_id"),
        (dict(model_type="t5", architectures=["T5ForConditionalGeneration"]), "architectures"),
        (
            dict(model_type="mbart", architectures=["MBartForConditionalGeneration"]),
            "architectures",
        ),
        (dict(encoder_layers=10**12, decoder_layers=10**12), "n_layers"),
        (dict(max_position_embeddings=30), "embed_positions"),
    ],
)
def test_one_that_ours_cannot_be_is_refused(changes, field, tmp_path):
    make(*PAIRS["bart"]).save_pretrained(tmp_path)
    from_hugging_face(tmp_path)
    change_config(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"^source: .*{field}"):
        from_hugging_face(tmp_path)


def test_ours_that_none_of_theirs_is_is_refused(tmp_path):
    sizes = dict(vocab_size=V, max_len=9, d_model=12, n_heads=3, n_layers=1, d_ff=20)
    sizes |= dict(norm_first=False, logits_bias=True)
    two = TransformerConfig(**sizes, embed_norm=True)
    plain = TransformerConfig(**sizes, positions="sinusoidal")
    for model in (
        EncoderDecoder.from_config(two, tgt_config=two),
        EncoderDecoder.from_config(two),
        BartEncoderDecoder(two, tied=False),
        BartEncoderDecoder(TransformerConfig(**sizes)),
        BartEncoderDecoder(plain),
    ):
        refuses(lambda: to_hugging_face(model, tmp_path / "new"), ValueError, "model")
        assert not (tmp_path / "new").exists()
    to_hugging_face(BartEncoderDecoder(two), tmp_path / "new")
    assert json.loads((tmp_path / "new" / "config.json").read_text())["model_type"] == "bart"


# ---- with a tokenizer, on the command line


def framed_bytes():
    "As BART's: <s> before a text, </s> after it, and a pad."
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    kwargs = dict(vocab_size=280, special_tokens=special, show_progress=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(LINES, trainers.BpeTrainer(**kwargs, initial_alphabet=alphabet))
    frame = dict(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    made.post_processor = processors.TemplateProcessing(**frame)
    return made


LINES = ["The cat sat on the mat.", "A dog!", "Two cats and a dog."]


@pytest.mark.parametrize("first", [None, 0])
def test_a_folder_translates_as_theirs_does(first, tmp_path):
    own = framed_bytes()
    config = BartConfig(**SIZES | dict(vocab_size=own.get_vocab_size() + 2))
    theirs = make("BartForConditionalGeneration", config, loud=9.0)
    theirs.generation_config.forced_bos_token_id = first
    theirs.generation_config.forced_eos_token_id = None
    with torch.no_grad():
        theirs.final_logits_bias.normal_(std=0.1)
    theirs.save_pretrained(tmp_path / "theirs")
    own.save(str(tmp_path / "theirs" / "tokenizer.json"))
    wanted = []
    for line in LINES:
        how = dict(do_sample=False, num_beams=1, max_new_tokens=32 - (first is not None))
        how |= dict(forced_bos_token_id=None, suppress_tokens=[1])
        begin = torch.tensor([[2] if first is None else [2, first]])
        row = torch.tensor([own.encode(line).ids])
        wanted.append(own.decode(theirs.generate(row, decoder_input_ids=begin, **how)[0].tolist()))
    assert len(set(wanted)) > 1
    save_model(tmp_path / "ours", *load_model(tmp_path / "theirs"))
    for folder in (tmp_path / "theirs", tmp_path / "ours"):
        model, tokenizer, _ = load_model(folder)
        found = translate(model, tokenizer, LINES, 1)  # sources of three lengths in one batch
        assert [line.text for line in found] == wanted
        src, tgt = view(model, (LINES[1], LINES[0]), tokenizer).panels[0].labels
        assert (src[0], src[-1], tgt[0]) == ("<s>", "</s>", "</s>")  # as it reads them
    arguments = ["translate", "--model", str(tmp_path / "theirs"), "--num-beams", "1"]
    found = CliRunner().invoke(app, [*arguments, "--device", "cpu", *LINES])
    assert found.exit_code == 0, found.output
    assert found.stdout == "".join(" ".join(text.splitlines()) + "\n" for text in wanted)


# ---- ONNX


@pytest.mark.parametrize("kind", some(["bart", "llama"], 2))
def test_onnx_computes_the_same(kind, tmp_path):
    "As the page on pretrained models does it."
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = from_hugging_face(make(*(DECODERS | PAIRS)[kind]))
    names = {"llama": ["tokens"], "bart": ["src", "tgt"]}[kind]
    rows = tuple(torch.ones(2, 3, dtype=torch.int64) for _ in names)
    shapes = []
    for name in names:
        length = torch.export.Dim(f"{name}_length", max=model.config.max_len)
        shapes.append({0: torch.export.Dim("B"), 1: length})
    file = tmp_path / "model.onnx"
    torch.onnx.export(model, rows, file, dynamic_shapes=shapes, dynamo=True, input_names=names)
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    for B, T in [(1, 1), (3, 7), (2, 32)]:  # one shape was recorded, all others are computed too
        rows = [torch.randint(2, V, (B, length)) for length in (T, max(1, T - 3))][: len(names)]
        rows[0][-1, T // 2 + 1 :] = 1  # BART's pad
        [logits] = session.run(None, {name: t.numpy() for name, t in zip(names, rows)})
        assert_close(torch.from_numpy(logits), model(*rows), **NEAR)
