"""Other programs' models: what comes, and the right answer. See `test_door`."""

import json
import warnings
from functools import partial

import torch
from cli_tools import former  # noqa: F401
from door_tools import Noted, Refused
from published_configs import PUBLISHED
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from former_nb.decoding.caches import generate
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.saving.families import FAMILIES, add_families
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.saving.saving import load_model, save_model

# ---- models of other programs: small random ones, as Transformers saves them


def small(kind):
    "The name of a class of Transformers, and a configuration with weights that matter."
    from hugging_face_tools import BERT, DECODERS, ENCODERS, PAIRS
    from transformers import BertConfig

    if kind == "four classes":
        return "BertForSequenceClassification", BertConfig(**BERT, num_labels=4)
    return (DECODERS | ENCODERS | PAIRS)[kind]


def folder_of(folder, kind="llama", without=(), **changes):
    "A small random model as Transformers saves it, and config.json with these keys."
    from hugging_face_tools import make

    make(*small(kind)).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in config.items() if key not in without}
    (folder / "config.json").write_text(json.dumps(kept | changes))
    return folder


def read(folder, *args, **changes):
    "Our model of such a folder; a refusal without the sentence about the folder around it."
    try:
        return from_hugging_face(folder_of(folder, *args, **changes))
    except ValueError as error:
        before, _, reason = str(error).partition(f"{str(folder)!r}: ")
        assert before == "source: expected a model that ours can be in "
        raise ValueError(reason) from None


def gap(folder, kind="llama", *args, **changes):
    "How far our logits are from those of Transformers, which reads the same folder."
    import transformers

    folder_of(folder, kind, *args, **changes)
    theirs = getattr(transformers, small(kind)[0]).from_pretrained(folder).eval()
    tokens = torch.randint(3, 30, (2, 15), generator=torch.Generator().manual_seed(0))
    ours = from_hugging_face(folder)
    with torch.no_grad():
        if "marian" in kind or "bart" in kind:
            far = ours(tokens, tokens) - theirs(tokens, decoder_input_ids=tokens).logits
        elif kind == "masked":
            far = ours(tokens, torch.arange(15).expand(2, -1)) - theirs(tokens).logits
        else:
            far = ours(tokens) - theirs(tokens).logits
    return far.abs().max()


def near(far):
    return far < 1e-5


def same(*args, **changes):
    "A row of a folder that is read without a note, and as Transformers reads it."

    def call(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            return gap(folder, *args, **changes)

    return call, near


def refused(key, kind="llama", without=(), **changes):
    "A row of a folder that is refused by this key."
    came = repr(changes[key])
    return partial(read, kind=kind, without=without, **changes), Refused(key, (came,))


def published(name):
    "A row of the keys of a published file, around a small model."
    kind, keys = PUBLISHED[name]
    rope = ("rope_parameters",) if {"rope_theta", "rope_scaling"} & keys.keys() else ()
    return f"config.json of {name}", *same(kind, rope, **keys)


def labels_of(folder, names):
    "What `load_model` calls the three classes of a BERT whose config.json names them so."
    from model_tools import small_bert

    given = None if names is None else {str(i): name for i, name in enumerate(names)}
    folder_of(folder, "classifier", vocab_size=37, id2label=given, num_labels=3)
    small_bert()[1].save(str(folder / "tokenizer.json"))
    return load_model(folder).labels


PIECES = "<s> </s> h l e o lo he hel w r \u0120 \u0120lo a".split()


def write_pieces(folder):
    "A tokenizer.json of some pieces."
    merges = [("l", "o"), ("h", "e"), ("he", "l"), ("\u0120", "lo")]
    made = Tokenizer(BPE({piece: i for i, piece in enumerate(PIECES)}, merges))
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevelDecoder()
    made.add_special_tokens(["<s>", "</s>"])
    made.save(str(folder / "tokenizer.json"))


def older(folder):
    "A GPT-2 as before 2020."
    gpt2_of(folder)
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    return load_model(folder)


def gpt2_of(folder, **generation):
    "A GPT-2, perhaps with a generation_config.json."
    folder_of(folder, "gpt2", bos_token_id=0, eos_token_id=1)
    write_pieces(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if generation:
        (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return load_model(folder)


def stops(folder, **generation):
    "What ends a text of such a folder, and what is never written."
    found = gpt2_of(folder, **generation).tokenizer.stops
    return {key: value for key, value in found.items() if value}


def ended(folder):
    "The text of a model that ends at once."
    model, tokenizer, _ = gpt2_of(folder)

    def end(logits):
        return torch.ones_like(logits[..., 0], dtype=torch.long)

    return generate(model, "hel", 5, pick=end, tokenizer=tokenizer)


def written_by_theirs(folder):
    "Whether Transformers writes the name that we write, and stops where we stop."
    import transformers

    model, tokenizer, _ = load_model("names")
    to_hugging_face(model, folder, tokenizer)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    row = torch.tensor([[*tokenizer.before, *tokenizer.encode("jo")]])
    [found] = theirs.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=15)
    return tokenizer.decode(found) == generate(model, "jo", 15, tokenizer=tokenizer)


def generation_of(folder):
    return json.loads((folder / "generation_config.json").read_text())


def exported(folder, **more):
    to_hugging_face(load_model("names").model, folder, **more)
    return generation_of(folder)


def again(folder):
    (folder / "theirs").mkdir()
    model = read(folder / "theirs", "gpt2", bos_token_id=7, eos_token_id=[8, 9])
    to_hugging_face(model, folder / "ours")
    return generation_of(folder / "ours")


def config_of(folder, **choices):
    "A configuration of a small model of ours."
    sizes = dict(vocab_size=32, max_len=12, d_model=12, n_heads=3, n_layers=2, d_ff=20)
    return TransformerConfig(**sizes, **choices)


def export(folder, kind=LanguageModel, n_classes=None, **choices):
    more = {} if n_classes is None else {"n_classes": n_classes}
    to_hugging_face(kind.from_config(config_of(folder, **choices), **more), folder / "out")


def wide(folder, kind=LanguageModel, **choices):
    "Whether a model with heads of width 6, where 12 / 3 is 4, is the same when it is loaded."
    tokenizer = load_model("names").tokenizer
    model = kind.from_config(config_of(folder, d_k=6, **choices)).eval()
    save_model(folder / "wide", model, tokenizer)
    loaded = load_model(folder / "wide").model
    assert loaded.config == model.config and "d_k=6" in repr(model.config)
    rows = (torch.tensor([[4, 5, 6]]),) * (2 if kind is EncoderDecoder else 1)
    return torch.equal(loaded(*rows), model(*rows))


def wide_llama(folder):
    "How far Transformers' Llama is from a configured model with heads of width 6."
    import transformers

    modern = dict(positions="rotary", norm="rms", activation="swiglu", n_kv_heads=1)
    model = LanguageModel.from_config(config_of(folder, d_k=6, **modern)).eval()
    to_hugging_face(model, folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    row = torch.tensor([[4, 5, 6]])
    assert from_hugging_face(folder).config == model.config
    with torch.no_grad():
        return (theirs(row).logits - model(row)).abs().max()


STARCODER2 = """
[families.starcoder2]
like = "llama"
windowed = true
[families.starcoder2.architectures]
Starcoder2ForCausalLM = "LanguageModel"
[families.starcoder2.fields]
norm_eps = "norm_epsilon"
[families.starcoder2.shape]
norm = "layer"
bias = "all"
activation = "gelu_tanh"
[families.starcoder2.fixed]
hidden_act = "gelu_pytorch_tanh"
use_bias = true
[families.starcoder2.defaults]
norm_epsilon = 1e-5
tie_word_embeddings = true
[families.starcoder2.modules]
"stack.blocks.{i}.ff.w_in" = "model.layers.{i}.mlp.c_fc"
"stack.blocks.{i}.ff.w_out" = "model.layers.{i}.mlp.c_proj"
"""


def starcoder(folder, **changes):
    "How far our StarCoder2, which a file describes, is from theirs."
    from hugging_face_tools import LLAMA, NONE, make
    from transformers import Starcoder2Config

    (folder / "families.toml").write_text(STARCODER2)
    add_families(folder / "families.toml")
    try:
        theirs = make("Starcoder2ForCausalLM", Starcoder2Config(**LLAMA, **NONE, **changes))
        row = torch.tensor([[4, 5, 6, 7, 8]])
        with torch.no_grad():
            return (theirs(row).logits - from_hugging_face(theirs)(row)).abs().max()
    finally:
        del FAMILIES["starcoder2"]


NOT_FIRST = Refused("model", ("norm_first = True",))


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)


WINDOWS = dict(use_sliding_window=True, sliding_window=4)


MODELS = [  # config.json, generation_config.json and tokenizers of other programs
    *map(published, PUBLISHED),
    ("a window that is longer than the context", *same("mistral", sliding_window=4096)),
    ("a window as long as the context", *same("mistral", sliding_window=64)),
    ("a window one token shorter", *refused("sliding_window", "mistral", sliding_window=63)),
    (
        "a window that nothing switches on",
        *same("qwen2", ("layer_types",), sliding_window=4, use_sliding_window=False),
    ),
    (
        "windows from a layer on that isn't there",
        *same("qwen2", ("layer_types",), **WINDOWS, max_window_layers=2),
    ),
    (
        "windows in the last layer",
        *refused("sliding_window", "qwen2", ("layer_types",), **WINDOWS, max_window_layers=1),
    ),
    (
        "layers that are all called full",
        *same("qwen2", **WINDOWS, layer_types=["full_attention"] * 2),
    ),
    (
        "a layer that is called sliding",
        *refused("sliding_window", "qwen2", **WINDOWS, layer_types=["sliding_attention"] * 2),
    ),
    ("layers of another kind", *refused("layer_types", layer_types=["linear_attention"] * 2)),
    (
        "llama3 with its old length at the top",
        *same(
            "llama", ("rope_parameters",), rope_scaling=LLAMA3, original_max_position_embeddings=16
        ),
    ),
    ("llama3 without an old length", *same("llama", ("rope_parameters",), rope_scaling=LLAMA3)),
    ("half of each head turns", *refused("partial_rotary_factor", partial_rotary_factor=0.5)),
    ("all of each head turns", *same("llama", partial_rotary_factor=1.0)),
    ("such a key that is null", *same("llama", is_causal=None)),
    ("an encoder that sees no future", *refused("is_causal", "classifier", is_causal=True)),
    ("such an encoder of hidden tokens", *refused("is_causal", "masked", is_causal=True)),
    ("an encoder that sees all", *same("classifier", is_causal=False)),
    ("a GPT-2 that says it is a decoder", *same("gpt2", is_decoder=True)),
    ("a Mistral that says so", *same("mistral", is_decoder=True)),
    ("a BERT that says so", *refused("is_decoder", "classifier", is_decoder=True)),
    (
        "a BERT of 2019, without its kind",
        partial(read, kind="masked", without=("model_type",)),
        Refused("architectures", ("without a model_type",)),
    ),
    (
        "an architecture that nobody has",
        partial(read, without=("model_type",), architectures=["MyModel"]),
        Refused("architectures", ("MyModel",)),
    ),
    (
        "scaling that is a number",
        partial(read, rope_scaling=2.0),
        Refused("rope_scaling", ("float",)),
    ),
    (
        "positions that are a list",
        partial(read, rope_parameters=[1]),
        Refused("rope_parameters", ("list",)),
    ),
    ("a width of heads that is a table", partial(read, head_dim={"a": 1}), Refused("d_k")),
    ("a number of heads that is none", partial(read, num_attention_heads=None), Refused("n_heads")),
    (
        "names of classes in a number",
        partial(read, kind="masked", id2label=3),
        Refused("id2label", ("int",)),
    ),
    ("a decoder that sees the future", *refused("is_causal", is_causal=False)),
    ("scores that are capped", *refused("attn_logit_softcapping", attn_logit_softcapping=50.0)),
    ("a cap of scores that is off", *same("llama", attn_logit_softcapping=None)),
    ("a residual that is scaled", *refused("residual_multiplier", residual_multiplier=0.5)),
    ("a scale of 1", *same("llama", residual_multiplier=1.0)),
    ("heads that were pruned", *refused("pruned_heads", "classifier", pruned_heads={"0": [1]})),
    ("no heads that were pruned", *same("classifier", pruned_heads={})),
    ("weights packed by GPTQ", *refused("quantization_config", quantization_config={"bits": 4})),
    ("weights packed by MLX", *refused("quantization", quantization={"bits": 4, "group_size": 64})),
    ("a key that speaks of attention", *refused("attention_sinks", attention_sinks=4)),
    ("a key that speaks of experts", *refused("num_experts", num_experts=8)),
    ("such a key that is off", *same("llama", num_experts=0)),
    ("such a key that is null", *same("llama", attention_sinks=None)),
    ("a key that nobody knows", *same("llama", tokens_seen=9)),
    ("a private key", *same("llama", _tokens_seen=9)),
    (
        "code of its own, which is not run",
        *same("llama", auto_map={"AutoModelForCausalLM": "modeling.Mine"}),
    ),
    ("dropout under another name", *same("llama", embedding_dropout=0.1, residual_dropout=0.1)),
    # classifiers
    (
        "a classifier of several labels at once",
        *refused("problem_type", "classifier", problem_type="multi_label_classification"),
    ),
    ("a regression by its kind", *refused("problem_type", "classifier", problem_type="regression")),
    ("a regression by its size", *refused("num_labels", "classifier", num_labels=1)),
    (
        "a regression by its names",
        partial(read, kind="classifier", id2label={"0": "LABEL_0"}),
        Refused("id2label", ("1",)),
    ),
    (
        "classes without names",
        *same("four classes", ("id2label", "label2id"), num_labels=4),
    ),
    ("a kind that is said", *same("classifier", problem_type="single_label_classification")),
    (
        "classes of a BERT that guesses hidden tokens",
        *same("masked", ("label2id",), id2label={"0": "LABEL_0"}, problem_type="regression"),
    ),
    ("a multi-label key on a decoder", *same("llama", problem_type="multi_label_classification")),
    (
        "names of classes",
        partial(labels_of, names=["bad", "fair", "good"]),
        ["bad", "fair", "good"],
    ),
    ("two classes of one name", partial(labels_of, names=["a", "b", "a"]), ["a", "b", "a (2)"]),
    ("names that are numbers", partial(labels_of, names=[1, 2, 3]), ["1", "2", "3"]),
    ("no names", partial(labels_of, names=None), ["LABEL_0", "LABEL_1", "LABEL_2"]),
    # tokenizers
    ("a text ends", ended, "hel"),
    ("the files of an older tokenizer", older, Refused("model")),
    # generation_config.json
    ("a list of ends", partial(stops, eos_token_id=[1, 0]), {"eos_token_ids": [1, 0]}),
    ("an end in config.json alone", stops, {"eos_token_ids": [1]}),
    (
        "tokens that are never written",
        partial(stops, suppress_tokens=[4], bad_words_ids=[[5], [6, 7]]),
        {"eos_token_ids": [1], "suppress_tokens": (4, 5)},
    ),
    (
        "a penalty that our loops don't know",
        partial(stops, repetition_penalty=1.2),
        Noted(lambda found: True, ("repetition_penalty = 1.2",)),
    ),
    (
        "a penalty of 1",
        partial(stops, repetition_penalty=1.0, min_length=0),
        {"eos_token_ids": [1]},
    ),
    (
        "how to draw, which is the caller's",
        partial(stops, top_p=0.9, do_sample=True),
        {"eos_token_ids": [1]},
    ),
    # the way out
    ("a model of names, written by Transformers", written_by_theirs, True),
    ("ends of a text, exported", exported, dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)),
    (
        "ends of a text that are given",
        partial(exported, eos_token_id=5),
        dict(bos_token_id=1, eos_token_id=5, pad_token_id=0),
    ),
    ("ends of a model of theirs, exported again", again, dict(bos_token_id=7, eos_token_id=[8, 9])),
    (
        "a decoder with ALiBi, exported",
        partial(export, positions="alibi"),
        Refused("model", ("positions = 'alibi'",)),
    ),
    (
        "a decoder with post-norm, exported",
        partial(export, norm_first=False),
        Refused("model", ("norm_first = False",)),
    ),
    ("a translator, exported", partial(export, kind=EncoderDecoder), NOT_FIRST),
    ("a classifier, exported", partial(export, kind=Classifier, n_classes=2), NOT_FIRST),
    # heads of any width
    ("heads of any width, saved and loaded", wide, True),
    ("such a translator", partial(wide, kind=EncoderDecoder, n_kv_heads=1), True),
    ("heads of any width as a Llama's", wide_llama, near),
    ("heads of no width", partial(config_of, d_k=0), Refused("d_k", ("0",))),
    (
        "heads of an odd width that turn",
        partial(config_of, d_k=5, positions="rotary"),
        Refused("d_model", ("5",)),
    ),
    ("a family from a file of names", starcoder, near),
    (
        "its windows",
        partial(starcoder, sliding_window=4),
        Refused("sliding_window", ("4",)),
    ),
]
