"""What trains a model of the ladder in the page: the lines of a cell, with a shorter `train`.

The small PyTorch is plain Python, so a rung gets fewer and smaller steps here than in the notebook.
What the page imports from `former_nb.yours` is the reader's, where the file has it right.
"""

import ast
import json
import linecache
from contextlib import redirect_stderr, redirect_stdout
from functools import partial

import torch
from file_in_page import loaded, run_step
from in_page import YOURS, Kept, Limited, cells_before, page_names, raised, read_cells, usual_names

STEPS, SIZE, RATE = 400, 32, 0.01  # of training: how many, examples in each, Adam's learning rate
FEWER = {"02_attention": (200, 16), "03_multi_head": (150, 16)}  # page -> the first two of them
SHOWN = 1000  # held-out letters that are measured where there are fewer steps
TOLD = 50  # steps between two lines


def train_in_page(page, source, mine, tell):
    """Run a cell that trains and measures a rung. What it printed, or what went wrong, as JSON.

    Of the page's own cells the imports run. `mine` is the text of the reader's file. `tell` is
    called every few steps with how many, of how many, and a line: the cost of what was just learned
    from, and four names.
    """
    source = source.expandtabs(4)
    linecache.cache[YOURS] = (len(source), None, source.splitlines(True), YOURS)
    names = names_of(page, tell)
    from former_nb.grading import your_file  # noqa: F401, before what the lines import is forgotten

    kept = Kept()
    output = Limited()
    problem = None
    with redirect_stdout(output), redirect_stderr(output):
        try:
            names |= yours_of(page, mine)
            exec(compile(ast.parse(source, YOURS), YOURS, "exec"), names)
        except BaseException as error:  # nobody interrupts a page: the reader's lines raised it
            problem = raised(error)
        finally:
            kept.restore()
    return json.dumps({"problem": problem, "output": output.getvalue(), "cut": output.cut})


def names_of(page, tell):
    """What a cell begins with: the page's imports, the examples, a short `train` and `rung`."""
    from former_nb.ladder import first_hour

    names = page_names(cells_before(read_cells(page), ""), set()) | usual_names()
    names |= {name: getattr(first_hour, name) for name in first_hour.__all__}
    inputs, targets = first_hour.contexts(first_hour.train_names)
    held_out = first_hour.contexts(first_hour.valid_names)
    few_steps, few = FEWER.get(page, (STEPS, SIZE))
    if page in FEWER:
        held_out = [part[:: len(part) // SHOWN] for part in held_out]

    def train(model, inputs, targets, steps=few_steps, lr=RATE, size=few):
        """Gradient descent, as in the first hour; it tells how far it is."""
        optimizer = torch.optim.Adam(model.parameters(), lr)
        costs = []
        for step in range(1, steps + 1):
            i = torch.randint(len(inputs), (size,))
            loss = first_hour.cost(model, inputs[i], targets[i])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            costs.append(loss.item())
            if step % TOLD == 0:
                recent = sum(costs[-TOLD:]) / TOLD
                written = ", ".join(first_hour.write(model, n=4))
                tell(step, steps, f"{recent:.2f} nats per character. It writes {written}.")

    def rung(key, what, model, prepare):
        """Measure a model on the held-out names, and let it write eight."""
        with torch.no_grad():
            nats = first_hour.cost(model, *held_out).item()
        print(f"{key}  {what}, trained here: {nats:.3f} nats per character on held-out names")
        print("It writes", ", ".join(name or "(nothing)" for name in first_hour.write(model)))

    return names | {"inputs": inputs, "targets": targets, "train": train, "rung": rung}


def yours_of(page, mine):
    """The reader's definitions that a page asks for and that are right. Says whose each is."""
    from former_nb.grading.errors import MistakeError
    from former_nb.grading.files import Judging

    asked = dict.fromkeys(names_asked(page))
    if not asked or not mine.strip():
        return {}
    try:
        file, space = loaded(mine)
    except MistakeError as error:
        print(f"{', '.join(asked)}: from the course. {error}.")
        return {}
    judging = Judging(file, partial(run_step, file, space, mine, lambda *where: None))
    found, lesson = {}, page[:2]
    for name in asked:
        wrong = [k for k in (name, *file.uses(name)) if judging.is_wrong(k, lesson)]
        if not wrong:
            found[name] = space[file.own(name)]
            print(f"{name}: yours, from mine.py")
        else:
            what = "it" if wrong[0] == name else wrong[0]
            print(f"{name}: from the course, until {what} is right in your file")
    return found


def names_asked(page):
    """What the cells of a page import from `former_nb.yours`."""
    for cell in read_cells(page):
        for node in ast.parse(cell.get("source", "")).body:
            if isinstance(node, ast.ImportFrom) and node.module == "former_nb.yours":
                yield from (alias.name for alias in node.names)
