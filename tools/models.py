"""Rebuild the models that ship with the package, in former_nb/models, a folder each.

  python tools/models.py            all of them: some twenty minutes on one core
  python tools/models.py numbers    one of them

Each is trained, stored in half precision, loaded again and measured twice: what it loses by that
must not show in the third decimal. The names ship with the package, the number words are generated,
and the plays are fetched, or read from FORMER_NB_DATA.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from former_nb.base.core import set_seed
from former_nb.base.files import read_text
from former_nb.commands.train import run_task
from former_nb.data.batches import make_batches
from former_nb.data.data_sets import SOURCES, fetch, split
from former_nb.data.long_texts import text_windows
from former_nb.data.text import collate
from former_nb.data.tokenization import CharTokenizer, HuggingFaceTokenizer, encode_texts
from former_nb.data.tokens import BOS, EOS
from former_nb.data.toy_data import english_number, german_number, number_pairs
from former_nb.decoding.translating import translate
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import collate_pairs
from former_nb.models.savable import EncoderDecoder, LanguageModel
from former_nb.saving.hugging_face import to_hugging_face
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks.names import Names
from former_nb.training.fitting import fit
from former_nb.training.losses import evaluate
from former_nb.training.training_config import TrainingConfig

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "former_nb" / "models"
HEAD = "---\nlibrary_name: former_nb\nlicense: apache-2.0\nlanguage:\n{}\n---\n\n"
FOOT = """
| measured | as trained | as shipped |
|---|---|---|
{rows}

The weights are stored in half precision (float16) and computed with in float32.

## Rebuilt by

`python tools/models.py {name}` in a clone of former_nb, on the CPU, seed 0.
"""

NAMES = """# names

Invents Lithuanian given names, letter by letter: the generator of lesson 10, {n:,} parameters.

- Input: the beginning of a name, in any case, or nothing. Output: small letters.
- Data: {source} from the register of the Lithuanian language commission, as they ship
  (`former_nb/data/names`, MIT). 80 % to learn from, 10 % to choose by, 10 % held out.
- Limits: it knows nothing of who bears a name, and some that it writes are real.
"""
NUMBERS = """# numbers

Translates German number words into English ones, *einundzwanzig* into *twenty-one*: the model of
lesson 14 with {n:,} parameters, letter by letter.

- Input: one number from null to neunhundertneunundneunzigtausendneunhundertneunundneunzig, written
  as one word. Anything else gives nonsense.
- Data: generated (`former_nb.data.toy_data`), {source}.
- Held out: 1,000 numbers from 100 to 999,999 that were neither learned from nor chosen by.
  The 1,000 smallest were nearly all learned from.
"""
SHAKESPEARE = """# shakespeare

Goes on with a play in Shakespeare's manner, in pieces of words: a Llama of {n:,} parameters, in
the files that Hugging Face's library writes. After lesson 12 your own file
reads them.

- Input: the beginning of a speech, such as *ROMEO:*, or nothing. Output: verses, and now and then a
  sentence. It reads at most 256 tokens, some 600 characters.
- Data: {source}.
  90 % to learn from, 5 % to choose by, 5 % held out, cut in the order of the text. The weights
  ship, the text does not.
- Sizes: 3 layers of width 128 with 344 units, 4 heads that share 2 of keys and values, rotary
  positions with base 10,000, a tied head and 1,024 tokens (byte-level BPE; `<unk>` 0, `<s>` 1,
  `</s>` 2).
- Read by `load_model("shakespeare")`, and by
  `transformers.AutoModelForCausalLM.from_pretrained(folder)`.
- Limits: it has read forty thousand lines and knows nothing else. What it writes sounds right and
  says little.
"""


def make_names(folder):
    "Train by the command line's own recipe; model, tokenizer, measure and what the data are."
    task = Names(dropout=0.1)  # as when it was trained, and weights of attention were dropped, too
    (_, valid, test), source = task.read_parts()
    run_task("names", task, folder, overwrite=True, device="cpu")
    model, tokenizer, _ = load_model(folder)
    parts = {"validation": valid, "held-out": test}

    def measure(model):
        for part, names in parts.items():
            batches = make_batches(encode_texts(names, tokenizer), 512, collate=collate)
            yield f"nats per character, {len(names)} {part} names", evaluate(model, batches)

    return model, tokenizer, measure, source.partition(" from ")[0]


def number_rows():
    "Numbers to learn from, to choose by and held out: of all lengths, with more zeros and ones."
    asked = number_pairs()["valid"] + number_pairs()["test"]
    rng, drawn = random.Random(0), [*range(100)]
    for _ in range(64_000):
        digits = rng.choices("00001123456789", k=rng.choice((2, 3, 4, 5, 6, 6, 6, 6)))
        drawn.append(int("".join(digits)))
    valid = [n for n in dict.fromkeys(drawn) if n >= 1000][-250:]

    def pair(n):
        return (german_number(n), english_number(n))

    left_out = {*asked, *map(pair, valid)}
    return [p for p in map(pair, drawn) if p not in left_out], [*map(pair, valid)], asked


def make_numbers(folder):
    "Train as in lesson 14, also on short numbers; model, tokenizer, measure and the data."
    train, valid, asked = number_rows()
    tokenizer = CharTokenizer.train([text for pair in train for text in pair], lowercase=True)
    sizes = dict(max_len=80, d_model=64, n_heads=2, n_layers=2, d_ff=256, dropout=0.0)

    def length(row):
        return len(row[0]) + len(row[1])

    how = dict(by_length=True, collate=collate_pairs, length=length)
    rows = [[tuple(encode_texts(p, tokenizer)) for p in part] for part in (train, valid, asked)]
    set_seed(0)
    model = EncoderDecoder.from_config(
        TransformerConfig(tokenizer.vocab_size, positions="rotary", **sizes)
    )
    config = TrainingConfig(steps=2000, lr=5e-3)
    fit(model, *(make_batches(part, n, True, **how) for part, n in zip(rows, (32, 250))), config)

    def measure(model):
        batches = make_batches(rows[2], 250, collate=collate_pairs)
        yield "nats per letter, 1,000 held-out numbers", evaluate(model, batches)
        small = [(german_number(n), english_number(n)) for n in range(1000)]
        for part, pairs in {"1,000 held-out": asked, "1,000 smallest": small}.items():
            said = translate(model, tokenizer, [german for german, _ in pairs], num_beams=1)
            right = sum(t.text == english for t, (_, english) in zip(said, pairs))
            yield f"right from end to end, {part} numbers, greedy", right / len(pairs)

    return model, tokenizer, measure, f"{len(train):,} draws of numbers below a million"


VOCABULARY = 1024  # tokens, three of them special
SCENE = 8  # speeches between two `<s>` of the text to learn from


def train_tokenizer(text):
    "Byte-level BPE as Llama's files have it: `<s>` before each text, and a token for each byte."
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<unk>", "<s>", "</s>"],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", BOS)]
    )
    return HuggingFaceTokenizer(json.loads(tokenizer.to_str()), VOCABULARY, [EOS])


def encode_scenes(text, tokenizer):
    "A row of tokens in which `<s>` and `</s>` stand around a few speeches each."
    speeches = text.split("\n\n")
    row = []
    for i in range(0, len(speeches), SCENE):
        scene = "\n\n".join(speeches[i : i + SCENE]) + "\n\n"
        row += [BOS, *tokenizer.encode(scene), EOS]
    return row


def read_plays():
    "The parts of Shakespeare's plays: to learn from, to choose by, held out."
    return split(read_text(fetch(SOURCES["tinyshakespeare"])), (0.9, 0.05, 0.05), seed=None)


def play_loss(model, tokenizer, text):
    "Nats per character; each token has half a window before it, where there is so much."
    row = tokenizer.encode(text)
    windows = text_windows(row, model.config.max_len, 32, context=model.config.max_len // 2)
    return evaluate(model, windows) * len(row) / len(text)


def make_shakespeare(folder):
    "Train a Llama on tokens of the plays; model, tokenizer, measure and what the data are."
    text, *held_out = read_plays()
    tokenizer = train_tokenizer(text)
    config = TransformerConfig(
        VOCABULARY,
        max_len=256,
        d_model=128,
        n_heads=4,
        n_layers=3,
        d_ff=344,
        dropout=0.0,
        positions="rotary",
        n_kv_heads=2,
        activation="swiglu",
        norm="rms",
        bias="none",
    )
    set_seed(0)
    model = LanguageModel.from_config(config)
    train = text_windows(encode_scenes(text, tokenizer), config.max_len, 8, shuffle=True)
    valid = text_windows(tokenizer.encode(held_out[0]), config.max_len, 32)
    settings = TrainingConfig(steps=2000, eval_every=250, pad=None)
    fit(model, train, valid, settings, device="cpu")

    def measure(model):
        for part, text in zip(("validation", "held-out"), held_out):
            loss = play_loss(model, tokenizer, text)
            yield f"nats per character, {len(text):,} {part} ones", loss

    n = len(text) + sum(map(len, held_out))
    source = f"tinyshakespeare (Karpathy 2015), {n:,} characters in the public domain"
    return model, tokenizer, measure, source


def save_llama(folder, model, tokenizer):
    "Write a folder as Hugging Face's library has it: configuration, weights and tokenizer."
    special = {"bos_token_id": BOS, "eos_token_id": EOS}
    to_hugging_face(model, folder, **special, torch_dtype="float16")
    text = json.dumps(tokenizer.saved, ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8", newline="\n")


MODELS = {
    "names": (make_names, save_model, NAMES, "- lt"),
    "numbers": (make_numbers, save_model, NUMBERS, "- de\n- en"),
    "shakespeare": (make_shakespeare, save_llama, SHAKESPEARE, "- en"),
}


def ship(name):
    "Train a model, keep it in half precision, and say what it can do."
    make, save, card, languages = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer, measure, source = make(Path(folder))
    n, before = sum(p.numel() for p in model.parameters()), dict(measure(model))
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    save(FOLDER / name, model.half(), tokenizer)
    after = dict(measure(load_model(FOLDER / name).model))
    for what, x in before.items():
        print(f"{x:.4f} -> {after[what]:.4f}  {what}")
        if abs(after[what] - x) > 1e-3:
            sys.exit(f"{name}: half precision is not enough, {what}")
    rows = "\n".join(f"| {what} | {x:.4f} | {after[what]:.4f} |" for what, x in before.items())
    text = HEAD.format(languages) + card.format(n=n, source=source)
    text += FOOT.format(rows=rows, name=name)
    (FOLDER / name / "README.md").write_text(text, encoding="utf-8", newline="\n")


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("name", nargs="?", choices=MODELS, help="all of them if left out")
    name = p.parse_args(argv).name
    for each in [name] if name else MODELS:
        ship(each)
    size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    print(f"{size / 1e6:.2f} MB in {FOLDER.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
