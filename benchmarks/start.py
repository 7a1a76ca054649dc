"""From nothing to an import, and to the first token of a saved model, each in a fresh process."""

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from . import peers, timing

NAMES = ["import", "first_token"]
OURS = """
from former_nb import load_model, Sampling
from former_nb.decoding.caches import generate
import torch
model, tokenizer, _ = load_model({folder!r})
generate(model, [[1]], 1, Sampling(seed=0))
"""
THEIRS = """
import torch
from transformers import GPT2LMHeadModel
model = GPT2LMHeadModel.from_pretrained({folder!r})
model.generate(torch.tensor([[1]]), max_new_tokens=1, do_sample=True, pad_token_id=0)
"""
IMPORTS = {
    "ours": "import former_nb",
    "ours again": "import former_nb",
    "ours, all of attention": "from former_nb import MultiHeadAttention",
    "torch": "import torch",
    "transformers": find_spec("transformers") and "from transformers import GPT2LMHeadModel",
}


def run(code: str):
    "Run a program in a fresh process. Raises `RuntimeError` with its last words."
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.splitlines() or ["its process was ended"])[-1])


def measure(name: str, budget: float) -> dict:
    "Seconds of fresh processes that take turns, at least five times."
    with TemporaryDirectory() as folder:
        codes = IMPORTS if name == "import" else save_models(Path(folder))
        runs = {who: lambda code=code: run(code) for who, code in codes.items() if code}
        runs = peers.that_run(runs)  # once before, for the files that the system keeps
        found, begin = {who: [] for who in runs}, time.perf_counter()
        while len(found["ours"]) < 5 or time.perf_counter() - begin < budget:
            for who, program in runs.items():
                start = time.perf_counter()
                program()
                found[who].append(time.perf_counter() - start)
    return timing.summary(found) | {"limit": None}


def save_models(folder: Path) -> dict:
    "Ours and GPT-2 of one size, saved; the programs that load them and draw a token."
    from former_nb.data.tokenization import CharTokenizer
    from former_nb.models.config import TransformerConfig
    from former_nb.models.savable import LanguageModel
    from former_nb.saving.saving import save_model

    from .workloads import SIZES

    tokenizer = CharTokenizer.train(["abcdefghijklmnopqrstuvwxyz"])
    c = TransformerConfig(tokenizer.vocab_size, **SIZES["10.8M"])
    save_model(folder / "ours", LanguageModel.from_config(c), tokenizer)
    peer = "Hugging Face GPT-2"
    theirs = peers.available({peer: lambda: peers.gpt2(c).save_pretrained(folder / "theirs")})
    ours = OURS.format(folder=str(folder / "ours"))
    code = THEIRS.format(folder=str(folder / "theirs"))
    return {"ours": ours, "ours again": ours, "torch": "import torch"} | dict.fromkeys(theirs, code)
