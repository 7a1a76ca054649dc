"""The page about the small PyTorch of the browser: what it has and what not, read from its code."""

import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

SMALL = Path(__file__).resolve().parents[1] / "small_torch"
MODULES = """torch torch.Tensor torch.nn torch.nn.functional torch.nn.init torch.nn.utils
torch.nn.utils.rnn torch.optim torch.autograd torch.autograd.functional torch.linalg torch.special
torch.testing""".split()
INTRODUCTION = """\
Below the exercises and beside your file, the site checks what you type in your browser. PyTorch
itself is hundreds of megabytes of machine code and doesn't run there, so the site brings a small
one of its own, in plain Python, [docs/small_torch]({repository}). It has what the pages, their
judges and likely answers use, and it speaks PyTorch's words where something does not fit, because
judges know mistakes by them.

- **Gradients** are there: what you compute is written on a tape, and `backward` goes back along
  it. There are no gradients of gradients and no hooks, and `autograd.grad` takes no views.
- **Numbers** are those of PyTorch to rounding, and with the same seed `randn`, `rand` and
  `randint` draw the same ones. `dropout` and `multinomial` draw others.
- **Not there**: devices but the CPU, complex numbers, half precision, `compile`, `utils.data`,
  saving and loading. What is absent says so in a sentence.

Each operation and its gradient is compared with PyTorch on random cases
([test_page_gradients.py]({tests}/test_page_gradients.py)), and so are all cells that run and all
right and wrong answers of the sixteen lessons ([test_page_torch.py]({tests}/test_page_torch.py)).

The tables are made from the code. A dot marks an operation that has a rule of its own for its
gradient; the others are made of these, or have none."""
LISTING = """
import json, sys
from importlib import import_module
import torch
found = {}
for module in sys.argv[1:]:
    owner = torch.Tensor if module == "torch.Tensor" else import_module(module)
    found[module] = {}
    for name in dir(owner):
        value = getattr(owner, name, None)
        if callable(value) and not name.startswith("_") and (value is not torch.Tensor):
            first = (value.__doc__ or "").strip().partition("\\n")[0]
            found[module][name] = [first, torch.has_rule(name, value)]
print(json.dumps(found))
"""


def small_names():
    """module -> name -> its first sentence, and whether it has a rule for its gradient."""
    command = [sys.executable, "-S", "-c", LISTING, *MODULES]
    made = subprocess.run(command, env={"PYTHONPATH": str(SMALL)}, capture_output=True, check=True)
    return json.loads(made.stdout)


def real_names(module):
    """The public functions and classes of PyTorch's own module, and of `Tensor` its methods."""
    import torch

    owner = torch.Tensor if module == "torch.Tensor" else import_module(module)
    names = {n for n in dir(owner) if not n.startswith("_") and callable(getattr(owner, n, None))}
    return {n for n in names if not inspect.ismodule(getattr(owner, n))}


def small_torch_page(repository):
    """The Markdown of the page; `repository` is the address of its files."""
    links = dict(repository=f"{repository}/docs/small_torch", tests=f"{repository}/tests")
    lines = ["# The small PyTorch of the page", "", INTRODUCTION.format(**links), ""]
    small = small_names()
    real = {module: real_names(module) for module in MODULES}
    has = {module: sorted(small[module].keys() & real[module]) for module in MODULES}
    lines += ["| module | names here | of PyTorch's |", "|---|---|---|"]
    lines += [f"| `{m}` | {len(has[m])} | {len(real[m])} |" for m in MODULES]
    for module in MODULES:
        lines += ["", f"## `{module}`", "", "| name | what it gives | gradient |", "|---|---|---|"]
        for name in has[module]:
            first, rule = small[module][name]
            first = first.replace("|", "\\|").replace("*", "\\*") or "As PyTorch's."
            lines.append(f"| `{name}` | {first} | {'·' if rule else ''} |")
    return "\n".join(lines) + "\n"
