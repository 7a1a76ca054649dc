"""What trains a model of the ladder in the page: the lines of a cell, with a shorter `train`.

The small PyTorch is plain Python, so a rung gets fewer and smaller steps here than in the notebook.
"""

import ast
import json
import linecache
from contextlib import redirect_stderr, redirect_stdout

import torch
from in_page import YOURS, Kept, Limited, cells_before, page_names, raised, read_cells, usual_names

STEPS, SIZE, RATE = 400, 32, 0.01  # of training: how many, examples in each, Adam's learning rate
TOLD = 50  # steps between two lines


def train_in_page(page, source, tell):
    """Run a cell that trains and measures a rung. What it printed, or what went wrong, as JSON.

    Of the page's own cells the imports run. `tell` is called every few steps with how many, of how
    many, and a line: the cost of what was just learned from, and four names.
    """
    source = source.expandtabs(4)
    linecache.cache[YOURS] = (len(source), None, source.splitlines(True), YOURS)
    names = names_of(page, tell)
    kept = Kept()
    output = Limited()
    problem = None
    with redirect_stdout(output), redirect_stderr(output):
        try:
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

    def train(model, inputs, targets, steps=STEPS, lr=RATE, size=SIZE):
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
