"""Would a test notice? Fifty small faults in the numeric core, each against the tests of its part.

python tools/mutants.py             all of them, one after another: minutes on one core
python tools/mutants.py beam 12     those of files whose name holds "beam", and number 12
python tools/mutants.py --limit 60  with at most 60 seconds of computing for each

The package and its tests are copied to a temporary folder, a fault is planted there, and pytest
runs. A fault is killed if a test fails, and survives if none does. The exit status is 0 if all are
killed.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import hypothesis  # noqa: F401, as all imports here: every run has them from the start
import numpy  # noqa: F401
import pandas  # noqa: F401
import pytest
import torch  # noqa: F401
import transformers  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = [  # a file of former_nb, what is there, what is put in its place, the tests that run
    # ---- attention and masks
    (
        "attention/dot_product.py",
        ".softmax(dim=-1).masked_fill(empty, 0.0)",
        ".softmax(dim=-1)",
        "fused",
    ),
    (
        "attention/fused.py",
        ".softmax(dim=-1).masked_fill(empty, 0.0)",
        ".softmax(dim=-1)",
        "fused",
    ),
    (
        "attention/fused.py",
        "q / q.shape[-1] ** 0.5",
        "q / k.shape[-2] ** 0.5",
        "fused",
    ),
    (
        "attention/fused.py",
        "if mask is not None or q.shape[-2] != k.shape[-2]:",
        "if mask is not None:",
        "fused",
    ),
    (
        "attention/fused.py",
        "mask.to(torch.promote_types(mask.dtype, torch.float32))",
        "mask",
        "fused",
    ),
    (
        "attention/dot_product.py",
        "nn.Linear(d_model, d_v or d_k, bias=False)",
        "nn.Linear(d_model, d_k, bias=False)",
        "fused",
    ),
    ("attention/masks.py", "key <= query", "key < query", "masks"),
    ("attention/masks.py", "tokens != pad", "tokens > pad", "properties"),
    ("attention/mask_patterns.py", "past.tril(S - T - window)", "past.tril(-window)", "properties"),
    ("attention/mask_patterns.py", "< open_to_all)", "<= open_to_all)", "masks"),
    ("attention/fused.py", "a & b if b", "a | b if b", "fused"),
    (
        "attention/dot_product.py",
        "t.repeat_interleave(q.shape[1] // t.shape[1], dim=1)",
        "t.repeat(1, q.shape[1] // t.shape[1], 1, 1)",
        "multi_head",
    ),
    (
        "attention/multi_head.py",
        "x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)",
        "x.unflatten(-1, (self.d_k, -1)).permute(0, 3, 1, 2)",
        "multi_head",
    ),
    # ---- positions
    (
        "attention/positions.py",
        "angle.cos()[:, : d_model // 2]",
        "angle.cos().half()[:, : d_model // 2]",
        "positions",
    ),
    (
        "attention/positions.py",
        "0.02 * torch.randn(max_len, d_model)",
        "0.2 * torch.randn(max_len, d_model)",
        "build",
    ),
    (
        "attention/positions.py",
        "x + self.table[positions]",
        "x + self.table[: x.shape[1]]",
        "caches",
    ),
    (
        "attention/positions.py",
        "[a * cos - b * sin, a * sin + b * cos]",
        "[a * cos + b * sin, b * cos - a * sin]",
        "angle_tables properties hugging_face",
    ),
    (
        "attention/angle_tables.py",
        "rotary_table(at, self.frequency)",
        "rotary_table(at - 1, self.frequency)",
        "angle_tables",
    ),
    ("attention/relative_positions.py", "distance.abs()", "-distance", "relative_positions"),
    (
        "attention/relative_positions.py",
        "clamp(-self.max_distance, self.max_distance)",
        "clamp(-self.max_distance, 0)",
        "relative_positions",
    ),
    (
        "attention/relative_positions.py",
        "self.frequency = scale(self.frequency)",
        "scale(self.frequency)",
        "angle_tables relative_positions",
    ),
    # ---- blocks and models
    (
        "models/layers.py",
        "return x + self.dropout(self.ff(self.norm_ff(x)))",
        "return x + self.dropout(self.ff(x))",
        "layers savable",
    ),
    (
        "models/post_norm.py",
        "x = self.norm_cross(x + self.dropout(self.cross(x, memory, memory_mask)))",
        "x = x + self.dropout(self.norm_cross(self.cross(x, memory, memory_mask)))",
        "layers encoder_decoder",
    ),
    ("models/parts.py", "self.tokens(tokens) * self.scale", "self.tokens(tokens)", "parts"),
    (
        "models/modern_decoder.py",
        "F.silu(self.w_gate(x)) * self.w_in(x)",
        "F.silu(self.w_in(x)) * self.w_gate(x)",
        "modern_decoder hugging_face",
    ),
    ("decoding/fast_copy.py", "F.silu(gate) * value", "F.silu(value) * gate", "fast_copy"),
    ("models/initialization.py", "writes = 3", "writes = 2", "build encoder_decoder"),
    (
        "models/language_model.py",
        "embed(tokens, positions)",
        "embed(tokens, positions - positions.min())",
        "caches",
    ),
    (
        "models/encoder_decoder.py",
        "self.decode(tgt, self.encode(src), padding_mask(src))",
        "self.decode(tgt, self.encode(src))",
        "encoder_decoder",
    ),
    (
        "models/encoder_decoder.py",
        "self.cross(self.norm_cross(x), memory, memory_mask)",
        "self.cross(self.norm_cross(x), memory)",
        "layers encoder_decoder",
    ),
    ("models/build.py", "std=config.d_model**-0.5", "std=0.02", "encoder_decoder build"),
    # ---- losses and steps
    (
        "training/losses.py",
        "loss / (targets != IGNORE).sum().clamp(min=1)",
        "loss / max(targets.numel(), 1)",
        "losses",
    ),
    (
        "training/losses.py",
        "right = has_target & ~wrong.any(-1)",
        "right = ~wrong.any(-1)",
        "losses",
    ),
    (
        "training/losses.py",
        "count += (targets != IGNORE).sum()",
        "count += targets.numel()",
        "language_model",
    ),
    ("training/training.py", "(step - rise) / (steps - rise)", "step / steps", "training"),
    ("training/optimization.py", "(rise / (step + 1)) ** 0.5", "rise / (step + 1)", "optimization"),
    (
        "training/optimization.py",
        "weights(nn.Linear) - weights(nn.Embedding)",
        "weights(nn.Linear)",
        "optimization",
    ),
    (
        "training/optimization.py",
        "nothing = torch.full_like(targets[:1], IGNORE)",
        "nothing = targets[:1]",
        "optimization",
    ),
    # ---- decoding
    ("decoding/sampling.py", "rest <= 1 - top_p", "rest < 1 - top_p", "sampling"),
    ("decoding/sampling.py", "logits < least", "logits <= least", "sampling"),
    ("decoding/sampling.py", "manual_seed((seed + i) % 2**64)", "manual_seed(seed)", "caches"),
    (
        "decoding/beam_search.py",
        "penalty: ((5 + length) / 6)",
        "penalty: ((5 + length) / 5)",
        "beam_search",
    ),
    (
        "decoding/beam_search.py",
        "n = texts[0].num_beams * (1 + len(texts[0].ends))",
        "n = texts[0].num_beams + 1",
        "beam_search encoder_decoder",
    ),
    (
        "decoding/beam_search.py",
        "bound = self.score(best, self.steps)",
        "bound = now",
        "beam_search",
    ),
    (
        "decoding/caches.py",
        "self.end - self.window + 1)",
        "self.end - self.window + 2)",
        "caches",
    ),
    (
        "decoding/caches.py",
        "not set(sources).isdisjoint(targets)",
        "False",
        "caches",
    ),
    # ---- data
    ("data/batches.py", 'f"{self.seed} {self.epoch}"', 'f"{self.seed}"', "batches"),
    ("data/subwords.py", "(-pairs[p], number[p[0]]", "(-pairs[p], -number[p[0]]", "subwords"),
    (
        "data/subwords.py",
        "min(learned, key=lambda pair: rank[pair])",
        "learned[0]",
        "subwords",
    ),
    # ---- n-grams and scores
    ("inspection/ngrams.py", "if counter[token] > 1:", "if False:", "ngrams"),
    ("inspection/scores.py", "drawn <= 0 if b > a else drawn >= 0", "drawn >= 0", "scores"),
]


def plant(package, file, old, new):
    "Exchange the first `old` for `new` in a file. Raises `ValueError` if it isn't there."
    path = package / file
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise ValueError(f"the list expects {old!r}, which isn't there")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path, text


def run_tests(folder, tests, limit):
    "pytest in a process that has PyTorch already and ends itself after so many seconds of its own."
    log = folder / "log.txt"
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        os.environ["PYTHONPATH"] = str(folder)  # for processes that tests start
        files = [f"tests/test_{name}.py" for name in tests.split()]
        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files]))
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), log.read_text(errors="replace").splitlines()


def judge(folder, tests, limit):
    "A verdict, and the first test that failed."
    code, lines = run_tests(folder, tests, limit)
    last = lines[-1] if lines else ""
    if code == 0:
        return "survived", last
    failed = [line for line in lines if line.startswith("FAILED")]
    if code == 1 and failed:
        return "killed", failed[0][len("FAILED tests/") :]
    return "no verdict", f"pytest ended with {code}: {last}"


def main(args):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chosen", nargs="*", help="numbers, or parts of the names of files")
    parser.add_argument("--limit", type=int, default=120, help="seconds of computing for each")
    options = parser.parse_args(args)
    sys.dont_write_bytecode = True  # a fault may be as long as what it replaces, in the same second
    counts = {"killed": 0, "survived": 0, "no verdict": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("former_nb", "tests"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / part, folder / part, ignore=ignore)
        shutil.copy(ROOT / "pytest.ini", folder)
        for number, (file, old, new, tests) in enumerate(MUTANTS, 1):
            matches = [str(number) == word or word in file for word in options.chosen]
            if options.chosen and not any(matches):
                continue
            try:
                path, text = plant(folder / "former_nb", file, old, new)
            except (OSError, ValueError) as error:  # the list is older than the code
                verdict, why = "no verdict", str(error)
            else:
                verdict, why = judge(folder, tests, options.limit)
                path.write_text(text, encoding="utf-8")
            counts[verdict] += 1
            print(f"{number:2} {verdict:10} {file}: {new!r:.60}  {why:.160}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    return int(counts["survived"] + counts["no verdict"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
