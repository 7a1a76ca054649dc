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
from former_nb import load_model, generate, Sampling
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


def measure(name: str, rounds: int) -> dict:
    "Seconds of fresh processes that take turns."
    with TemporaryDirectory() as folder:
        codes = IMPORTS if name == "import" else save_models(Path(folder))
        codes = {who: code for who, code in codes.items() if code}
        found = {who: [] for who in codes}
        for _ in range(max(1, rounds // 3)):
            for who, code in codes.items():
                begin = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
                found[who].append(time.perf_counter() - begin)
    return timing.summary(found) | {"flop": None}


def save_models(folder: Path) -> dict:
    "Ours and GPT-2 of one size, saved; the programs that load them and draw a token."
    from former_nb.config import TransformerConfig
    from former_nb.generator import LanguageModel
    from former_nb.saving import save_model
    from former_nb.text import CharTokenizer

    from .workloads import SIZES

    tokenizer = CharTokenizer.train(["abcdefghijklmnopqrstuvwxyz"])
    c = TransformerConfig(tokenizer.vocab_size, **SIZES["10.8M"])
    save_model(folder / "ours", LanguageModel(c), tokenizer)
    peer = "Hugging Face GPT-2"
    theirs = peers.available({peer: lambda: peers.gpt2(c).save_pretrained(folder / "theirs")})
    ours = OURS.format(folder=str(folder / "ours"))
    code = THEIRS.format(folder=str(folder / "theirs"))
    return {"ours": ours, "ours again": ours, "torch": "import torch"} | dict.fromkeys(theirs, code)
