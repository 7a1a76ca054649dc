"""How time and memory grow with what is put in, each case in a process of its own.

python -m benchmarks.growth                     some five minutes on a core
python -m benchmarks.growth steps lines         these kinds of growth only
python -m benchmarks.growth --largest           also 100,000 lines, and gigabytes
python -m benchmarks.growth --name before       the name of the two files that are written

`seconds` are those of the processor, `first` the seconds until the first line is there, and
`megabytes` what the process takes at its peak beyond what it had after its imports. Where
transformers is installed, its pipeline classifies the same lines with the same weights.
"""

import argparse
import json
import platform
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

RESULTS = Path(__file__).parent / "results" / "growth"
BEGIN = """
import resource, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)

def peak():
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

def report(first=None):
    print(time.process_time() - begin, peak() - before, first or 0.0)
"""
STEP = """
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.losses import token_loss
config = TransformerConfig({vocabulary}, {length}, 128, 4, 4, d_ff=512, dropout=0.0)
model = LanguageModel.from_config(config)
before, begin = peak(), time.process_time()
tokens = torch.randint(4, {vocabulary}, ({batch}, {length}))
token_loss(model(tokens), tokens).backward()
report()
"""
LINES = """
from itertools import islice
from former_nb.decoding.classification import predict
from former_nb.decoding.translating import stream_translations
from former_nb.saving.saving import load_model
model, tokenizer, labels = load_model({folder!r})
lines = (line.rstrip("\\n") for line in open({file!r}, encoding="utf-8"))
before, begin, start = peak(), time.process_time(), time.perf_counter()
first = None
if labels is None:
    for _ in stream_translations(model, tokenizer, lines, 1):
        first = first or time.perf_counter() - start
else:
    size = 1
    while some := list(islice(lines, size)):
        predict(model, tokenizer, some, labels)
        first = first or time.perf_counter() - start
        size = min(8 * size, 500)
report(first)
"""
PIPELINE = """
from transformers import pipeline
classify = pipeline("text-classification", {folder!r}, device="cpu")
lines = (line.rstrip("\\n") for line in open({file!r}, encoding="utf-8"))
before, begin, start = peak(), time.process_time(), time.perf_counter()
first = None
for _ in classify(lines, batch_size=64):
    first = first or time.perf_counter() - start
report(first)
"""
TEXT = """
from former_nb.data.long_text_data import load_long_text, long_text_data
before, begin = peak(), time.process_time()
text, _, shares = load_long_text({file!r})
data = long_text_data(text, shares=shares)
report()
"""
LOAD = """
from former_nb.saving.saving import load_model
load_model("names")
before, begin = peak(), time.process_time()
load_model({folder!r})
report()
"""
SAVE = """
from former_nb.data.tokenization import CharTokenizer
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import save_model
tokenizer = CharTokenizer("abc")
config = TransformerConfig(tokenizer.vocab_size, 64, 1024, 16, {layers}, d_ff=4096)
save_model({folder!r}, LanguageModel.from_config(config), tokenizer)
"""
BERT = """
from pathlib import Path
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from former_nb.models.bert import BertClassifier
from former_nb.saving.hugging_face import to_hugging_face
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefghijklmnopqrstuvwxyzäöüß"]
words += ["##" + letter for letter in words[4:]]
tokenizer = Tokenizer(models.WordPiece({{w: i for i, w in enumerate(words)}}, unk_token="[UNK]"))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
sizes = dict(d_model=128, n_heads=4, n_layers=4, d_ff=512, norm_first=False)
config = TransformerConfig(len(words), 128, **sizes, tied_head=True)
model = BertClassifier(config, 2, n_segments=2)
to_hugging_face(model, {folder!r})
tokenizer.save(str(Path({folder!r}, "tokenizer.json")))
Path({folder!r}, "tokenizer_config.json").write_text(
    '{{"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}}'
)
"""


def run(code: str) -> list[float]:
    "The numbers that a program prints. Raises `RuntimeError` with its last words."
    words = [sys.executable, "-W", "ignore", "-c", BEGIN + code]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.splitlines() or ["its process was ended"])[-1])
    return [float(number) for number in done.stdout.split()]


def steps(folder: Path, largest: bool):
    "One step of learning: the length of a row, rows, and words."
    usual = {"length": 256, "batch": 4, "vocabulary": 1000}
    sizes = {
        "length": (256, 1024, 4096),
        "batch": (4, 16, 64),
        "vocabulary": (1000, 8000, 32000),
    }
    for name, values in sizes.items():
        for value in values:
            yield name, value, STEP.format(**{**usual, name: value})


def number_words(file: Path, n: int) -> None:
    "Write German numbers, one a line."
    from former_nb.data.toy_data import german_number

    rng = random.Random(0)
    lines = [german_number(rng.randrange(1_000_000)) for _ in range(n)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def lines(folder: Path, largest: bool):
    "Lines that are translated by the model that ships, and classified by a BERT of four blocks."
    run(BERT.format(folder=str(folder / "bert")))
    for n in (1_000, 4_000, 100_000) if largest else (1_000, 4_000):
        file = folder / f"{n}.txt"
        number_words(file, n)
        yield "lines translated", n, LINES.format(folder="numbers", file=str(file))
        where = {"folder": str(folder / "bert"), "file": str(file)}
        yield "lines classified", n, LINES.format(**where)
        if find_spec("transformers"):
            yield "lines classified by the pipeline", n, PIPELINE.format(**where)


def texts(folder: Path, largest: bool):
    "Megabytes of text that become tokens."
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 9))) for _ in range(5_000)]
    for n in (10, 100, 1_000) if largest else (10, 100):
        file = folder / f"{n}.megabytes"
        with open(file, "w", encoding="utf-8") as out:
            size = 0
            while size < n * 10**6:
                size += out.write(" ".join(rng.choices(words, k=10_000)) + "\n")
        yield "megabytes of text", n, TEXT.format(file=str(file))


def weights(folder: Path, largest: bool):
    "Megabytes of weights that are loaded."
    for n_layers in (2, 7, 20) if largest else (2, 7):
        where = str(folder / f"{n_layers} layers")
        run(SAVE.format(folder=where, layers=n_layers))
        size = Path(where, "model.safetensors").stat().st_size
        yield "megabytes of weights", round(size / 1e6), LOAD.format(folder=where)


KINDS = {"steps": steps, "lines": lines, "texts": texts, "weights": weights}


def table(rows: list[dict]) -> str:
    "What was measured, in Markdown."
    head = "| | | seconds | first | megabytes |\n|---|--:|--:|--:|--:|\n"
    text = ""
    for row in rows:
        first = f"{row['first']:.2f}" if row["first"] else "–"
        text += f"| {row['kind']} | {row['size']:,} | {row['seconds']:.2f} | {first} "
        text += f"| {row['megabytes']:,.0f} |\n"
    return head + text


def main(words: list[str] | None = None) -> None:
    "Measure, and write a file of JSON and a table after each case."
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("benchmarks.growth", description=__doc__, formatter_class=form)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all if left out")
    parser.add_argument("--largest", action="store_true", help="also what takes many minutes")
    parser.add_argument("--name", default=platform.machine(), help="of the files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of the files")
    args = parser.parse_args(words)
    unknown = [kind for kind in args.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"kinds: expected some of {', '.join(KINDS)}, got {unknown[0]!r}")
    args.results.mkdir(parents=True, exist_ok=True)
    rows = []
    for kind in args.kinds or KINDS:
        with TemporaryDirectory() as folder:
            for name, size, code in KINDS[kind](Path(folder), args.largest):
                seconds, megabytes, first = run(code)
                row = {"kind": name, "size": size, "seconds": seconds}
                rows.append({**row, "first": first, "megabytes": megabytes})
                print(table(rows[-1:]).splitlines()[-1], flush=True)
                text = json.dumps(rows, indent=1)
                (args.results / f"{args.name}.json").write_text(text, encoding="utf-8")
                (args.results / f"{args.name}.md").write_text(table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
