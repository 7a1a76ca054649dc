"""The runs that the figure of lesson 08 shows: nine rates, with and without warm-up, three seeds.

python tools/valley.py   trains 54 times, some minutes, and writes docs/_ext/the_valley.json

Model, batches and loop are the lesson's own cells. While a model learns, it is asked now and then
to reverse one word of the test set, as it reads the right letters.
"""

import json
import sys
from functools import partial
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT)]

from course_figures import from_page  # noqa: E402

from former_nb.training.losses import token_loss  # noqa: E402

RATES = [3e-4, 1e-3, 3e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 3e-1]
SEEDS = [0, 1, 2]
STEPS = 200
EVERY = 20  # steps between two looks at the word; losses are means of half as many
NAMES = "texts tokenizer rows answers_only valid Reverser new_model batch_loss train_step evaluate"
NAMES = f"{NAMES} warmup_cosine batches train_by".split()


def record():
    """All runs: losses and the word on the way, and the loss on valid at the end."""
    page = dict(zip(NAMES, from_page("08_training", *NAMES)))
    tokenizer, batches = page["tokenizer"], page["batches"]
    question, answer = page["answers_only"](page["rows"][:1])
    asked = answer[0] >= 0  # the targets that count
    runs = []
    for warmup in (0.05, 0.0):
        for rate in RATES:
            for seed in SEEDS:
                model, losses, words = page["new_model"](seed), [], []

                def look(module, inputs, output, losses=losses, words=words):
                    if not module.training:
                        return
                    if len(losses) % EVERY == 0:
                        words.append(say(module))
                    losses.append(token_loss(output.detach(), batches[len(losses)][1]).item())

                def say(module):
                    with torch.no_grad():
                        guess = module.forward(question)[0].argmax(dim=-1)[asked]
                    return "".join(tokenizer.decode([i]) or "\u00b7" for i in guess.tolist())

                handle = model.register_forward_hook(look)
                schedule = partial(page["warmup_cosine"], steps=STEPS, warmup=warmup)
                end = page["train_by"](schedule, model, rate)
                handle.remove()
                means = torch.tensor(losses).view(-1, EVERY // 2).mean(dim=1)
                run = {"warmup": warmup, "rate": rate, "seed": seed}
                run["losses"] = [round(loss, 3) for loss in means.tolist()]
                run["words"] = [*words, say(model)]
                run["end"] = float(f"{end:.3g}")
                runs.append(run)
                print(warmup, rate, seed, run["end"], run["words"][-1], flush=True)
    word = "".join(tokenizer.decode([i]) or "\u00b7" for i in answer[0][asked].tolist())
    return {"made": "python tools/valley.py", "steps": STEPS, "word": word, "runs": runs}


if __name__ == "__main__":
    text = json.dumps(record(), ensure_ascii=False, separators=(",", ":"))
    (ROOT / "docs" / "_ext" / "the_valley.json").write_text(text + "\n", encoding="utf-8")
