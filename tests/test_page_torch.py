"""The small PyTorch that judges exercises in the page, beside PyTorch itself.

tests/page_tools.py runs the pages and their judges twice, each time in a process of its own.
"""

import atexit
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("docutils", reason="the site's requirements are not installed")
ROOT = Path(__file__).resolve().parents[1]
NOT_RUN = ROOT / "docs/_pyodide/not_run.json"
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import check_here
import page_answers
import small_torch_page
from thorough import some

LESSONS = list(check_here.PAGES)
SOLVED = [f"solutions/{name}" for name in LESSONS if not name.startswith("milestone")]
PAGES = [*some(LESSONS, 2), *some(SOLVED, 4, 1)]

RANDOM = "c06dropout"  # a cell that shows numbers which PyTorch draws by a library of Intel's
NUMPYS_WORDS = {  # answers that are no numbers, which NumPy refuses in words of its own
    *("16.4 function 27", "16.4 function 28"),
    "13.1 and of floats 15",  # an error of the small PyTorch, that another mistake has, too
}
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?|nan|inf")


@cache
def archive():
    "A folder with what the site's archive holds: all that Python has in the page."
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    check_here.write_course(folder / "course.zip")
    with zipfile.ZipFile(folder / "course.zip") as packed:
        packed.extractall(folder)
    return folder


def start(*command, small):
    "Start Python with what the page has and nothing else, or with PyTorch."
    home = archive() if small else ROOT
    env = os.environ | {"PYTHONPATH": str(home), "IN_TEST": "1"}
    env |= {"PYTHONUTF8": "1", "FORMER_NB_DEVICE": "cpu"}
    options = ["-W", "ignore", *(["-S"] if small else [])]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *options, *command], env=env, stdout=pipe, stderr=pipe, cwd=home
    )


def result(process):
    "What a process printed as JSON."
    out, error = process.communicate(timeout=1800)  # a full machine takes its time
    assert process.returncode == 0, error.decode()
    return json.loads(out)


@pytest.fixture(scope="module")
def both():
    "What PyTorch gives, and what the small one gives."
    what = (str(ROOT / "tests/page_tools.py"), str(archive()), " ".join(PAGES), *LESSONS)
    theirs, ours = map(result, [start(*what, small=small) for small in (False, True)])
    assert str(archive()) in ours["torch"] and str(archive()) not in theirs["torch"]
    return theirs, ours


def same(a, b):
    "Whether two results agree, up to the rounding of float32."
    numbers = [type(x) in (int, float) for x in (a, b)]
    if all(numbers):
        return a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=1e-4, abs_tol=2e-5)
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


def parts(text):
    "The words between the numbers of a text, and the numbers."
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)), [float(n) for n in NUMBER.findall(text)]


def alike(one, other):
    "Whether two texts say the same, their numbers up to rounding."
    (words, numbers), (other_words, other_numbers) = map(parts, (one, other))
    return words == other_words and same(numbers, other_numbers)


@pytest.mark.parametrize("page", PAGES)
def test_each_cell_gives_the_numbers_of_pytorch(page, both):
    theirs, ours = (run["pages"][page]["cells"] for run in both)
    assert theirs.keys() == ours.keys() and len(theirs) > 1
    for key, cell in theirs.items():
        assert "raised" not in cell and "raised" not in ours[key], (key, cell, ours[key])
        if key == RANDOM:
            continue
        assert same(cell["values"], ours[key]["values"]), key
        (words, numbers), (our_words, our_numbers) = map(
            parts, (cell["printed"], ours[key]["printed"])
        )
        assert words == our_words and same(numbers, our_numbers), (key, ours[key]["printed"])


def test_a_cell_that_does_not_run_is_listed_with_its_reason():
    listed = json.loads(NOT_RUN.read_text(encoding="utf-8"))
    assert listed.keys() <= {*LESSONS, *SOLVED}
    for page, cells in listed.items():
        notebook = json.loads((ROOT / f"nbs/{page}.ipynb").read_text(encoding="utf-8"))
        assert cells.keys() <= {cell["id"] for cell in notebook["cells"]}
        assert all(why.startswith("it ") for why in cells.values())


def test_each_entry_of_an_exercise_names_itself_in_the_page(both):
    assert {number: said for number, said in both[1]["faults"].items() if said} == {}
    assert len(both[1]["faults"]) > 20


def test_odd_answers_are_told_the_same(both):
    theirs, ours = (run["odd"] for run in both)
    assert len(theirs) > 120
    other = {key for key in theirs if not alike(theirs[key], ours[key])}
    assert other <= NUMPYS_WORDS


def test_what_a_reader_may_type_is_judged_as_with_pytorch(both):
    theirs, ours = (run["typed"] for run in both)
    assert [theirs[key] for key in theirs] == [ours[key] for key in theirs]
    assert sum(verdict["right"] for verdict in ours.values()) > 30


def test_the_right_answer_to_each_exercise_is_right_in_the_page(tmp_path):
    answers = page_answers.right_answers()
    assert len(answers) == 64 + 20  # of the sixteen lessons, and of the page on the paper
    (tmp_path / "answers.json").write_text(json.dumps(list(answers.values())), encoding="utf-8")
    code = f"""
import json, in_page
answers = json.load(open({str(tmp_path / "answers.json")!r}, encoding="utf-8"))
print(json.dumps([json.loads(in_page.judge_in_page(*answer))["sentence"] for answer in answers]))
"""
    sentences = result(start("-c", code, small=True))
    assert sentences == [f"{number} is right." for number in answers]


def test_the_page_about_it_is_made_from_its_code():
    page = small_torch_page.small_torch_page("https://example.org")
    assert "| `softmax` | Shares of 1 along an axis. | · |" in page
    assert "\n| `AdamW` |" in page and "`svd`" not in page
    for line in re.findall(r"^\| `(torch\S*)` \| (\d+) \| (\d+) \|$", page, re.M):
        assert 0 < int(line[1]) <= int(line[2]), line


def said(both, beginning):
    "What the page says to the last typed answer to an exercise that begins so."
    return [v for key, v in both[1]["typed"].items() if key.startswith(beginning)]


def test_an_answer_that_cannot_be_judged_is_answered_by_one_sentence(both):
    sentences = [verdict["sentence"] for verdict in said(both, "03.4")]
    assert sentences == [
        "03.4 is right.",
        "line 1, `def without_head_0(q, k, v)`: SyntaxError: expected ':'",
        "line 1: `numpy` is not here; the check in the page knows Python, torch and this course",
        "`without_head_0` is missing; the exercise asks for this name",
        "`measure` comes from a cell that does not run in the page, because it needs a network "
        "that was trained; do this in the notebook, or without it",
    ]


def test_numbers_that_are_still_dots_are_named(both):
    sentences = [verdict["sentence"] for verdict in said(both, "03.2")]
    assert sentences[-1] == "the three dots are still there; put your numbers in their place"


def test_an_error_names_the_line_of_the_answer(both):
    recursion = [verdict["sentence"] for verdict in said(both, "04.3")][-1]
    assert "line 2, `return reach(mask, n_layers)`: your code raised RecursionError" in recursion


def test_what_is_no_exception_is_answered_by_a_sentence(both):
    at_once, when_called = [verdict["sentence"] for verdict in said(both, "01.1")][-2:]
    assert at_once == "line 1, `raise KeyboardInterrupt`: KeyboardInterrupt"
    assert "line 4, `raise Odd" in when_called and "Odd: no Exception" in when_called


def test_heads_that_were_split_by_a_view_are_the_mistake_that_they_are_with_pytorch(both):
    assert "split and merged by `reshape` alone" in said(both, "03.1")[-1]["sentence"]


def test_output_of_a_megabyte_is_cut(both):
    (printed,) = [verdict for verdict in said(both, "01.3") if verdict["cut"]]
    assert len(printed["output"]) == 20_000 and "nothing is returned" in printed["sentence"]


def test_what_is_absent_says_so():
    code = """
import json, torch
said = []
for name in ("torch.histc", "torch.ones(2).histc", "torch.linalg.svd", "torch.nn.Conv2d"):
    try:
        eval(name)
    except AttributeError as error:
        said.append(str(error))
for call in ("torch.ones(2).to(torch.half)", "torch.zeros(10**9)", "torch.device('cuda')"):
    try:
        eval(call)
    except (NotImplementedError, RuntimeError) as error:
        said.append(str(error))
print(json.dumps(said))
"""
    sentences = result(start("-c", code, small=True))
    assert len(sentences) == 7
    assert all("a small part of it; the notebook has all" in said for said in sentences[:5])
    assert "too large for this page" in sentences[5] and "only the CPU" in sentences[6]


def test_the_same_seed_gives_the_numbers_of_pytorch():
    code = """
import json, torch
torch.manual_seed(5)
draws = [torch.rand(3), torch.randn(3), torch.randn(4, 5), torch.randint(3, 90, (4,))]
draws += [torch.randn(2, 9, dtype=torch.double), torch.rand(2, dtype=torch.double)]
with torch.random.fork_rng():
    draws.append(torch.randn(7))
draws.append(torch.randn(1))
draws.append(torch.randn(5, generator=torch.Generator().manual_seed(0)))
draws += [torch.nn.Linear(3, 2).weight, torch.nn.Embedding(3, 4).weight]
print(json.dumps([draw.tolist() for draw in draws]))
"""
    theirs, ours = (result(start("-c", code, small=small)) for small in (False, True))
    assert same(theirs, ours)


def test_the_output_of_attention_lies_in_memory_as_pytorchs_does():
    code = """
import itertools, json, torch
import torch.nn.functional as F
from former_nb.attention import attention

def heads(layout, rows, width=4):
    if layout == "heads first":
        return torch.randn(2, 3, rows, width)
    if layout == "words first":
        return torch.randn(2, rows, 3 * width).view(2, rows, 3, width).transpose(1, 2)
    if layout == "a part":
        part = torch.randn(2, rows, 9 * width)[..., : 3 * width]
        return part.view(2, rows, 3, width).transpose(1, 2)
    return torch.randn(2, 3, width, rows).mT

layouts = ("heads first", "words first", "a part", "columns")
masks = (None, torch.ones(5, 7) > 0, torch.zeros(2, 1, 5, 7))
said = {}
for q, k, v, mask in itertools.product(layouts, layouts, layouts, range(3)):
    y = attention(heads(q, 5), heads(k, 7), heads(v, 7), masks[mask])
    said[f"{q}, {k}, {v}, {mask}"] = list(y.stride())
y = attention(heads("words first", 5), heads("words first", 5), heads("words first", 5, 6))
said["wide values"] = list(y.stride())
x = heads("words first", 5)
said["no heads"] = list(attention(x[:, 0], x[:, 1], x[:, 2]).stride())
said["shared keys"] = list(F.scaled_dot_product_attention(x, x[:, :1], x[:, :1]).stride())
print(json.dumps(said))
"""
    theirs, ours = (result(start("-c", code, small=small)) for small in (False, True))
    assert len(ours) == 195
    assert {key: strides for key, strides in ours.items() if theirs[key] != strides} == {}


JUDGED = """
import json, sys
import in_page
said = []
right = "def others_only(x):\\n    scores = x @ x.mT\\n"
right += "    scores.diagonal(dim1=1, dim2=2).fill_(-torch.inf)\\n    return scores.softmax(-1)"
def ask(source):
    verdict = json.loads(in_page.judge_in_page("01_self_attention", "01.3", "others_only", source))
    said.append(verdict["sentence"])
"""
PATCHES = """
torch.Tensor.softmax = lambda self, dim: self
torch.softmax = torch.nn.functional.softmax = None
torch.Tensor.__matmul__ = lambda self, other: self
del torch.Tensor.sum
torch.nn.Module = torch.Tensor.extra = 3
import former_nb.grading.compare as c; c.same = lambda *x: True
import former_nb.grading.ask as a; a.EXERCISES["01.3"] = a.EXERCISES["01.1"]
import math; math.sqrt = math.exp = None
__builtins__["len"] = None
import torch.new_one; torch.zeros = None
""".strip().splitlines()


def test_what_an_answer_changes_in_torch_in_the_judges_or_in_python_is_undone():
    code = JUDGED + "ask(right)\n"
    for patch in PATCHES:
        inside = f"def others_only(x):\n    {patch}\n    return x"
        code += "".join(
            f"ask({source!r})\n" for source in (f"{patch}\ndef others_only(x): return x", inside)
        )
        code += "ask(right)\n"
    code += "print(json.dumps(said))"
    first, *rest = result(start("-c", code, small=True))
    assert first == "01.3 is right."
    for i, patch in enumerate(PATCHES):
        at_once, when_called, after = rest[3 * i : 3 * i + 3]
        assert after == first, (patch, after)
        assert at_once != first, patch
