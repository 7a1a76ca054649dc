"""The right answers to the exercises as a reader would type them into the page."""

import ast
import inspect
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "docs" / "_pyodide"), str(ROOT / "docs" / "_ext")]
import check_here
import in_page

from former_nb.grading import prove
from former_nb.grading.ask import EXERCISES
from former_nb.grading.content import definition

NUMBERS = {  # answers that are numbers; the solutions pages compute most of them
    "01.2": "number = 1 / 5",
    "02.2": "number = 4",
    "03.2": "parameters, multiplications, weights = 1, 1, 2",
    "04.2": "number = 10 + 9 + 4",
    "05.3": "a, b, c, d = 1, 3, 3, 6",
    "06.2": "attention, feed_forward, norms = 624, 1012, 48",
    "07.2": "width, targets_that_count = 11, 26",
    "08.2": "steps, evaluations, calls = 48, 3, 192",
    "09.2": "a, b, c, d = 5, 5, 1, 5",
    "10.2": "number = math.log(10) / 2",
    "11.2": "again, kept = 4 * sum(range(5, 12)), 4 * (5 + 6)",
    "12.2": "embeddings, attention, networks, norms, cache = 600, 1152, 2160, 84, 24",
    "13.3": "a, b, c, d = math.log(8) / 2, 0, 0, math.log(8)",
    "14.2": "a = b = 0.99**40",
    "15.3": "tokens, vocab_size = 13, 263",
    "16.3": "p1 = p2 = p3 = p4 = 1\nbleu = 100 * math.exp(-1)",
    "16.6": "a, b, c, d = True, False, False, True",
    "paper.2": "number = 6 + 6 * 2",
    "paper.3": 'name = "cross-attention"',
    "paper.4": "base, big = 512 / 8, 1024 / 16",
    "paper.5": "variance, spread, after = 64, 8, 1",
    "paper.6": "number = math.sqrt(64 * 4 * 4)",
    "paper.7": "number = 2 * 512 * 2048 + 2048 + 512",
    "paper.9": "V = 41_000",
    "paper.11": "self_attention, recurrent, convolutional, restricted = 1, 1024, 5, 16",
    "paper.12": "equal, ratio = 512, 2048 / 512",
    "paper.13": "r, path = 1000, 10",
    "paper.15": "at_1000, at_16000, big_over_base = 0.25, 0.5, 0.707",
    "paper.17": "base, big = 3.3, 23",
    "paper.18": "big, base = 28.4 - 26.36, 27.3 - 26.36",
    "paper.19": "a, b, c, d, e, f = True, False, True, False, True, True",
}


def sources(path):
    "The sources of a notebook's cells, each with its kind."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield cell["cell_type"], "".join(cell["source"])


def asked(page):
    "The exercises of a page: number -> what it hands to `check`."
    found = {}
    for kind, source in sources(ROOT / f"nbs/{page}.ipynb"):
        pairs = re.findall(r'`check\("((?:\d\d|paper)\.\d+)", (.*?)\)`', source)
        if kind == "code" and (match := check_here.EXERCISE.search(source)):
            pairs = [match.groups()]
        for number, expression in pairs:
            found.setdefault(number, expression)
    return found


def with_imports(number):
    "A right answer with the imports that its module gives it."
    source = definition(number).source()
    module = sys.modules[EXERCISES[number].made.__module__]
    tree, needed, lines = ast.parse(inspect.getsource(module)), in_page.free_names(source), []
    for node in tree.body:
        names = [a for a in getattr(node, "names", []) if (a.asname or a.name) in needed]
        if isinstance(node, (ast.Import, ast.ImportFrom)) and names:
            level = getattr(node, "level", 0)
            package = module.__name__.rsplit(".", level)[0] + "." if level else ""
            where = f"from {package}{node.module} " if isinstance(node, ast.ImportFrom) else ""
            lines.append(where + "import " + ", ".join(map(ast.unparse, names)))
        elif getattr(node, "name", "") in needed:
            lines.append(ast.unparse(node))
    return "\n".join([*lines, source]).strip()


def right_answers():
    "Of the lessons and of the paper: number -> page, number, what it hands to `check`, lines."
    prove.load()
    answers = {}
    for page in (page for page in check_here.PAGES if page >= "01"):
        for number, expression in sorted(asked(page).items()):
            lines = NUMBERS.get(number) or with_imports(number)
            head = "import math\n" if "math." in lines and "import math" not in lines else ""
            answers[number] = (page, number, expression, head + lines)
    return answers
