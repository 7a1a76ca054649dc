"""`check("mine.py")`: the right file, another right file, 308 mistakes by name, and mistakes that
nobody foresaw; files that don't end, print or are no files; the command line."""

import ast
import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
import torch
from cli_tools import former

from former_nb.base.exercises import MistakeError
from former_nb.builds import process, search, steps
from former_nb.builds.steps import NOT_WRITTEN, RIGHT_FILE, STEPS, edited_module, judge_step
from former_nb.builds.your_file import NAMES, START, Verdict, judge_file, say_verdicts
from former_nb.checks.exercises import check

RIGHT = RIGHT_FILE.read_text(encoding="utf-8")
ANOTHER = Path(__file__).with_name("another_right_file.py")


def said(module, name):
    "The sentence about a definition, whether it is returned or raised."
    try:
        return judge_step(module, name)
    except MistakeError as error:
        return str(error)


def test_every_definition_of_the_right_file_is_a_step_and_each_is_right():
    assert {STEPS[name].definition for name in NAMES} == {*steps.right_order()}
    assert len(NAMES) == 44 and len(steps.right_order()) == 42
    assert [said(steps.right_module(), name) for name in NAMES] == [None] * len(NAMES)


def test_the_right_file_is_plain_pytorch():
    lines = [line for line in RIGHT.splitlines() if line.startswith(("import ", "from "))]
    wanted = {"json", "math", "collections", "pathlib", "torch", "torch.nn.functional"}
    assert {line.split()[1] for line in lines} == wanted
    for file in (RIGHT_FILE, ANOTHER):
        assert "former_nb" not in file.read_text(encoding="utf-8").replace("`former_nb", "")


@pytest.mark.parametrize("name", NAMES)
def test_each_mistake_is_told_by_name(name):
    chosen = STEPS[name]
    found = [said(edited_module(chosen.definition, m), name) for m in chosen.mistakes]
    assert found == [mistake.sentence for mistake in chosen.mistakes]


def test_there_are_many_mistakes_and_several_for_each_definition():
    numbers = [len(STEPS[name].mistakes) for name in NAMES]
    assert sum(numbers) >= 250 and min(numbers) >= 3


def module_of(source):
    module = ModuleType("a_readers_file")
    exec(compile(source, "a_readers_file", "exec"), module.__dict__)
    return module


def test_another_right_file_is_right_too():
    module = module_of(ANOTHER.read_text(encoding="utf-8"))
    assert {name: said(module, name) for name in NAMES} == dict.fromkeys(NAMES)


OTHER_WAYS = {  # right answers in another form: the step, what stands there, what stands instead
    "each row cut before it is filled up, as lesson 07 does": (
        "next_token_batch",
        "    tokens = pad(rows)\n    return (tokens[:, :-1],), tokens[:, 1:]",
        "    return (pad([row[:-1] for row in rows]),), pad([row[1:] for row in rows])",
    ),
    "each target cut before it is filled up, as lesson 13 does": (
        "pair_batch",
        "    tgt = pad([target for source, target in rows])\n"
        "    return (src, tgt[:, :-1]), tgt[:, 1:]",
        "    targets = pad([target[1:] for source, target in rows])\n"
        "    return (src, pad([target[:-1] for source, target in rows])), targets",
    ),
    "a warm-up in whole steps, as in lesson 08": (
        "rate",
        "    t = (step + 1) / n_steps\n    if t < warmup:\n        return highest * t / warmup\n"
        "    return highest * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (1 - warmup)))",
        "    rise = max(1, round(n_steps * warmup))\n"
        "    if step < rise:\n        return highest * (step + 1) / rise\n"
        "    share = (step - rise) / (n_steps - rise)\n"
        "    return highest * 0.5 * (1 + math.cos(math.pi * share))",
    ),
    "names for the three tokens": ("Letters", '["", "", "", *', '["<pad>", "<bos>", "<eos>", *'),
    "arguments that are handed on by name": (
        "Block",
        "def forward(self, x, mask=None, is_causal=False, attend=attention):\n"
        "        x = x + self.dropout("
        "self.attention(self.norm_attention(x), mask, is_causal, attend))",
        "def forward(self, x, **how):\n"
        "        x = x + self.dropout(self.attention(self.norm_attention(x), **how))",
    ),
    "an attend without defaults": (
        "rotary",
        "def attend_rotated(q, k, v, mask=None, is_causal=False):",
        "def attend_rotated(q, k, v, mask, is_causal):",
    ),
    "a cache without defaults": (
        "LayerCache",
        "def __call__(self, q, k, v, mask=None, is_causal=False):",
        "def __call__(self, q, k, v, mask, is_causal):",
    ),
    "a mean that is a tensor": (
        "evaluate",
        "return total / count",
        "return torch.tensor(total / count)",
    ),
    "a slower AdamW": ("fit", "weight_decay=0.1)", "weight_decay=0.1, foreach=False)"),
    "torch.dropout": (
        "make_block",
        "    def forward(self, x, mask=None, is_causal=False, attend=attention):\n"
        "        x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, "
        "attend))\n        return x + self.dropout(self.ff(self.norm_ff(x)))",
        "    def drop(self, x):\n        return torch.dropout(x, self.dropout.p, self.training)\n\n"
        "    def forward(self, x, mask=None, is_causal=False, attend=attention):\n"
        "        y = self.attention(self.norm_attention(x), mask, is_causal, attend)\n"
        "        x = x + self.drop(y)\n        return x + self.drop(self.ff(self.norm_ff(x)))",
    ),
    "no attend is attention": (
        "Stack",
        "is_causal=False, attend=attention):  # or a list, one a block",
        "is_causal=False, attend=None):",
    ),
}


@pytest.mark.parametrize("name, old, new", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_a_right_answer_in_another_form_is_right(name, old, new):
    assert RIGHT.count(old) == 1 or name == "Letters"
    source = RIGHT.replace(old, new)
    if name == "Letters":  # what a text shows are its letters alone
        source = source.replace(
            "letters[n] for n in tokens", "letters[n] for n in tokens if n > EOS"
        )
    assert said(module_of(source), name) is None


@pytest.mark.parametrize("seed", [1, 6, 9, 10])
def test_a_token_may_be_drawn_by_python(seed):
    old = "return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]"
    assert RIGHT.count(old) == 1
    new = (
        "rows = logits.softmax(dim=-1).tolist()\n"
        "    return torch.tensor([DRAW.choices(range(len(row)), row)[0] for row in rows])"
    )
    source = f"import random\n\nDRAW = random.Random({seed})\n" + RIGHT.replace(old, new)
    assert said(module_of(source), "sample") is None


def test_a_folder_is_a_path():
    source = RIGHT.replace("Path(folder) / ", "folder / ")
    assert source.count("(folder / ") == 2
    assert said(module_of(source), "load_llama") is None


def test_fit_may_take_the_rate_of_lesson_08():
    old, new = OTHER_WAYS["a warm-up in whole steps, as in lesson 08"][1:]
    assert said(module_of(RIGHT.replace(old, new)), "fit") is None


BLOCK = "self.attention(self.norm_attention(x), None, True, attend)"
ONCE_RIGHT = [  # mistakes that no question found before: the step, the mistake, words that name it
    ("attention_weights", ("math.sqrt(q.shape[-1])", "(q.shape[-1] / 2)"), "the root of d_k"),
    ("fit", (", betas=(0.9, 0.95), weight_decay=0.1", ""), "yours has its defaults"),
    (
        "fit",
        (
            "AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1",
            "Adam(model.parameters(), lr=lr",
        ),
        "yours is Adam",
    ),
    (
        "fit",
        ("rate(step, n_steps, lr)", "lr * min(1, (step + 1) / (0.05 * n_steps))"),
        "never falls",
    ),
    ("DecoderBlock", ("norm_attention, norm_ff, dropout)", "norm_attention, norm_ff)"), "super()"),
    ("DecoderBlock", (f"self.dropout({BLOCK})", BLOCK), "what attention writes"),
    ("bleu", ("min(matches[n] for n in range(1, longest + 1)) == 0", "matches[1] == 0"), "no run"),
    ("train_bpe", ("in zip(row, row[1:])", "in set(zip(row, row[1:]))"), "counts twice"),
    (
        "merge",
        ("(merged[-1], piece) == pair", 'merged[-1] + piece == "".join(pair)'),
        "not their text",
    ),
    (
        "beam_search",
        ("beams[0][1] / max_len < best_score:", "best_score > -math.inf:"),
        "stops at the first finished row",
    ),
    (
        "beam_search",
        ("max_len - 1):\n        tokens", "max_len - 2):\n        tokens"),
        "max_len tokens",
    ),
    ("beam_search", ("n_beams=4", "n_beams=3"), "four beams"),
]


@pytest.mark.parametrize("name, edit, words", ONCE_RIGHT, ids=str)
def test_a_mistake_that_passed_once_is_named(name, edit, words):
    assert RIGHT.count(edit[0]) == 1
    assert words in said(module_of(RIGHT.replace(*edit)), name)


def test_an_argument_too_many_is_not_said_to_be_the_callers_fault():
    old, new = OTHER_WAYS["an attend without defaults"][1:]
    source = RIGHT.replace(old, new.replace("is_causal)", "is_causal, more)"))
    words = "around attention: a function was called with fewer arguments than it wants"
    assert said(module_of(source), "rotary").startswith(words)


def test_numbers_that_differ_too_little_for_a_reason_are_both_told():
    old, new = OTHER_WAYS["a warm-up in whole steps, as in lesson 08"][1:]
    source = RIGHT.replace(old, new.replace("/ (n_steps - rise)", "/ (n_steps - 1 - rise)"))
    assert "100 steps: part 4: got 1, which is too large" in said(module_of(source), "rate")
    wanted = 0.0001
    assert steps._difference(wanted + 2e-6, wanted) == "expected 0.0001, got 0.000102"


def test_a_name_that_nothing_defines_is_told_as_python_tells_it(tmp_path):
    file = tmp_path / "mine.py"
    lines = (
        "import torch\n\n\ndef padding_mask(tokens):\n    return (tokens != PAD)[:, None, None]\n"
    )
    file.write_text(lines, encoding="utf-8")
    [wrong] = [verdict.problem for verdict in judge_file(file) if verdict.wrong]
    assert "NameError: name 'PAD' is not defined" in wrong and "line 5" in wrong


def test_no_edit_that_is_tried_writes_into_pytorch():
    text = "class Part:\n    def __init__(self, stack):\n        self.stack = torch.relu(stack)\n"
    tree = ast.parse(text).body[0]
    [target] = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)][0].targets
    tried = list(search._edits_of_expressions(tree, tree))
    assert tried and not any(target.value in edit for edit in tried)


SCORES = "q @ k.mT / math.sqrt(q.shape[-1])"
GIVES = "    return attention_weights(q, k, mask, is_causal) @ v"
WRONG_ATTENTION = {  # what stands in the right file, and what stands instead
    "not divided": (SCORES, "q @ k.mT"),
    "divided by d_k": (SCORES, "q @ k.mT / q.shape[-1]"),
    "itself hidden": ("allowed.tril(S - T)", "allowed.tril(S - T - 1)"),
    "sum over queries": ("return scores.softmax(dim=-1)", "return scores.softmax(dim=-2)"),
    "is_causal dropped": (GIVES, GIVES.replace(", is_causal)", ")")),
    "exchanged": (GIVES, GIVES.replace("q, k", "k, q")),
    "no return": (GIVES, GIVES.replace("return ", "")),
    "raises": (GIVES, "    raise ValueError"),
    "without masks": (
        "def attention(q, k, v, mask=None, is_causal=False):\n" + GIVES,
        "def attention(q, k, v):\n    return attention_weights(q, k) @ v",
    ),
}
HANDS_ON = ["Block", "Stack", "DecoderBlock", "Decoder", "EncoderDecoder"]


@pytest.mark.parametrize("wrong", WRONG_ATTENTION)
def test_a_layer_that_hands_on_a_wrong_attention_waits_for_it(wrong):
    old, new = WRONG_ATTENTION[wrong]
    assert RIGHT.count(old) == 1
    module = module_of(RIGHT.replace(old, new))
    found = {name: said(module, name) for name in HANDS_ON}
    allowed = {None, "waits for attention", "waits for attention with masks"}
    allowed |= {f"waits for attention_weights{more}" for more in ("", " with masks")}
    assert set(found.values()) <= allowed and any(found.values()), found


@pytest.mark.parametrize("name, mistake", [("Block", 0), ("Stack", 0), ("Decoder", 0)])
def test_a_layer_beside_a_right_attention_is_wrong_by_itself(name, mistake):
    "And one that hands on no attention of the file is judged, whatever the file's is."
    mistake = STEPS[name].mistakes[mistake]
    source = RIGHT.replace(mistake.old, mistake.new)
    assert said(module_of(source), name) == mistake.sentence
    old, new = WRONG_ATTENTION["not divided"]
    module = module_of(source.replace(old, new))
    assert said(module, name).startswith("waits for attention")
    forward = getattr(module, name).forward
    forward.__defaults__ = tuple(
        None if value is module.attention else value for value in forward.__defaults__
    )
    assert said(module, name) == mistake.sentence


def test_of_a_file_with_a_wrong_attention_attention_alone_is_wrong(tmp_path):
    "Whatever else is asked waits, and the lesson is told so."
    wrong = [WRONG_ATTENTION["itself hidden"], WRONG_ATTENTION["raises"]]
    wrong.append((SCORES, "q @ k.mT / (q.shape[-1] * 0.5)"))  # the same where d_k is 4
    for number, edit in enumerate(wrong):
        file = tmp_path / f"mine{number}.py"
        file.write_text(RIGHT.replace(*edit), encoding="utf-8")
        verdicts = judge_file(file)
        [name] = [v.name for v in verdicts if v.wrong]
        assert name.startswith("attention")
        assert sum(v.waits for v in verdicts) > 10


def test_a_list_of_another_length_is_shown():
    letters = 'sorted(set("".join(texts)))'
    source = RIGHT.replace(f'["", "", "", *{letters}]', letters)
    source = source.replace("enumerate(self.letters)}", "enumerate(self.letters, 3)}")
    source = source.replace("self.letters[n] for n", '["", "", "", *self.letters][n] for n')
    problem = said(module_of(source), "Letters")
    assert "the first three for PAD, BOS and EOS: expected ['0', '1', '2'," in problem


SCHEDULE = "(step + 1) % every == 0 or step + 1 == n_steps"


@pytest.mark.parametrize(
    "schedule, is_right",
    [
        ("step % every == 0 or step + 1 == n_steps", False),  # after 1, 4 and 7 steps of 7
        ("(step + 1) % every == 0", False),
        (f"step == 0 or {SCHEDULE}", True),  # once more is no mistake
        ("step % every == every - 1 or step == n_steps - 1", True),
    ],
)
def test_when_fit_asks_the_validation_batches(schedule, is_right):
    assert SCHEDULE in RIGHT
    verdict = said(module_of(RIGHT.replace(SCHEDULE, schedule)), "fit")
    assert (verdict is None) is is_right and (is_right or "step" in verdict), verdict


def test_a_verdict_is_the_same_twice_and_the_readers_draws_change_nothing():
    mistake = STEPS["Block"].mistakes[0]
    module = edited_module("Block", mistake)
    first = said(module, "Block")
    torch.manual_seed(7)
    torch.rand(3)
    assert said(module, "Block") == first == mistake.sentence


RUN = "from former_nb.cli import main; main()"  # a command in a process of its own
UNFORESEEN = [  # what stands in the right file, what stands there instead, words that name it
    ("x = x + self.positions[positions]", "x = x + self.positions[positions + 1]", "positions + 1"),
    ("self.attention(self.norm_attention(x)", "self.attention(self.norm_ff(x)", "self.norm_ff"),
    ("total += n * batch_loss", "total += n * n * batch_loss", "n * n"),
    ("return highest * t / warmup", "return highest * t * warmup", "t * warmup"),
    ("k = torch.cat([self.k, k], dim=2)", "k = torch.cat([self.v, k], dim=2)", "self.v"),
    ("start = start + new.shape[1]", "start = start + new.shape[0]", "`0`"),
    ("merged.append(piece)", "merged.append(pair)", "`pair`"),
    ("x.square().mean(dim=-1, keepdim=True)", "x.square().mean(dim=1, keepdim=True)", "`1`"),
    ("/ there.sum(dim=1)", "/ there.sum()", "there.sum()"),
]


@pytest.mark.parametrize("old, new, words", UNFORESEEN, ids=[row[1] for row in UNFORESEEN])
def test_what_nobody_foresaw_is_found_in_the_readers_lines(old, new, words, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT.replace(old, new, 1), encoding="utf-8")
    [wrong] = [v for v in judge_file(file) if v.problem and not v.waits]
    lines = file.read_text(encoding="utf-8").splitlines()
    [line] = [number for number, text in enumerate(lines, start=1) if new in text]
    assert f"line {line}, `" in wrong.problem and words in wrong.problem, wrong


def test_a_file_that_is_half_written(tmp_path, capsys):
    file = tmp_path / "mine.py"
    half = RIGHT[: RIGHT.index("# 07 ")].replace("self.ff(self.norm_ff(x))", "self.ff(x)")
    file.write_text(half.replace("def make_block", "def later"), encoding="utf-8-sig")
    assert check(str(file)) is False
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Checking mine.py …"
    assert lines[1] == "02  right: attention_weights, attention"
    block = next(line for line in lines if line.startswith("    Block: "))
    assert "the network reads what its norm has made of x" in block and "in line 1" in block
    assert f"    {NOT_WRITTEN}: make_block" in lines
    assert f"07 to 16  {NOT_WRITTEN}" in lines
    assert lines[-1] == "11 of 44 steps are right. Next: mend Block."


def test_a_right_file_in_a_notebook_and_in_a_terminal(capsys):
    assert check(str(ANOTHER)) is True
    assert capsys.readouterr().out.endswith("All 44 steps are right. The file is yours.\n")
    done = former("check", ANOTHER)
    assert done.returncode == 0 and "All 44 steps are right" in done.stdout


ODD = {
    "an empty file": ("", "0 of 44 steps are right. Next: write attention_weights"),
    "no Python": ("def f(:\n", "Python cannot read line 1 of mine.py"),
    "ours": ("from former_nb import attention\n", "imports former_nb; write it yourself"),
    "it ends Python": ("import sys\nsys.exit(3)\n", "SystemExit"),
    "it raises": ("import torch\n1 / 0\n", "ZeroDivisionError"),
    "a number": ("attention_weights = 3\n", "expected a function, got int"),
    "other arguments": (
        "def greedy(x, y):\n    return x\n",
        "expected greedy(logits), yours is greedy(x, y)",
    ),
    "a name too few": (
        "import torch\nfrom torch import nn\nclass FeedForward(nn.Module):\n"
        "    def __init__(self, d_model, d_ff):\n        super().__init__()\n"
        "        self.first = nn.Linear(d_model, d_ff)\n"
        "    def forward(self, x):\n        return x\n",
        "there is no weight called w_in.weight, of shape (12, 8); yours has first.weight",
    ),
    "it changes what it is given": (
        "def merge(row, pair):\n    row.clear()\n    return row\n",
        "an argument is changed in place",
    ),
    "nothing comes back": ("def pad(rows):\n    rows = rows\n", "nothing is returned"),
}


@pytest.mark.parametrize("source, words", ODD.values(), ids=ODD)
def test_an_odd_file_gets_a_sentence(source, words, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(source, encoding="utf-8")
    done = former("check", file)
    assert done.returncode == 1, done.stdout
    assert words in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_a_file_that_prints_and_one_that_never_ends(tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text("print('x' * 10_000)\n" + RIGHT, encoding="utf-8")
    assert all(verdict.problem is None for verdict in judge_file(loud))
    endless = tmp_path / "endless.py"
    text = RIGHT.replace("    return logits.argmax(dim=-1)", "    while True:\n        pass", 1)
    endless.write_text(text, encoding="utf-8")
    found = {verdict.name: verdict.problem for verdict in judge_file(endless, limit=8.0)}
    assert "this does not end" in found["greedy"] and found["attention"] is None


def test_a_process_that_does_not_start_is_tried_again(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT, encoding="utf-8")
    begun = []

    class Once(process._Child):
        def start(self):
            begun.append(self)
            if len(begun) == 1:
                raise RuntimeError("it did not start")
            super().start()

    monkeypatch.setattr(process, "_Child", Once)
    assert all(verdict.problem is None for verdict in judge_file(file))
    assert len(begun) == 2 and begun[0].process.returncode is not None

    class Never(process._Child):
        def start(self):
            raise RuntimeError("it did not start")

    monkeypatch.setattr(process, "_Child", Never)
    done = former("check", file, file)  # each costs itself
    assert done.returncode == 1 and done.stdout.count("it did not start") == 2, done.stderr


def test_a_class_in_one_table(tmp_path):
    files = [tmp_path / f"{name}.py" for name in ("ada", "bob", "eve")]
    files[0].write_text(RIGHT, encoding="utf-8")
    files[1].write_text(RIGHT.replace("tokens != 0", "tokens == 0", 1), encoding="utf-8")
    files[2].write_text("def f(:\n", encoding="utf-8")
    table = tmp_path / "scores.csv"
    done = former("check", *files, "--csv", table)
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert table.exists(), done.stdout
    head, *rows = csv.reader(table.read_text(encoding="utf-8").splitlines())
    assert head == ["file", "right", *NAMES, "first to mend"]
    by_name = {Path(row[0]).stem: dict(zip(head, row)) for row in rows}
    assert by_name["ada"]["right"] == "44" and by_name["ada"]["first to mend"] == ""
    assert by_name["bob"]["padding_mask"] == "wrong" and by_name["bob"]["Classifier"] == "waits"
    assert "True means that a token may be attended to" in by_name["bob"]["first to mend"]
    assert (
        by_name["eve"]["right"] == "0" and "cannot read line 1" in by_name["eve"]["first to mend"]
    )


def test_a_file_to_begin_with_is_open_and_never_written_over(tmp_path):
    file = tmp_path / "mine.py"
    done = former("check", file, "--begin")
    assert done.returncode == 1 and f"02 to 16  {NOT_WRITTEN}" in done.stdout
    assert "Next: write attention_weights, of lesson 02." in done.stdout
    file.write_text(RIGHT, encoding="utf-8")
    done = former("check", file, "--begin")
    assert done.returncode == 0 and "left as it is" in done.stdout
    assert file.read_text(encoding="utf-8") == RIGHT
    assert "without masks" not in done.stdout


UTF8 = os.environ | {"PYTHONUTF8": "1"}
PAGES = sorted((RIGHT_FILE.parents[2] / "nbs").glob("[01][0-9]_*.ipynb"))
LESSONS = [page for page in PAGES if page.stem >= "02"]


@pytest.mark.parametrize("page", LESSONS, ids=lambda page: page.stem)
def test_a_lesson_shows_what_check_prints_and_names_what_it_asks_for(page):
    lesson = page.stem[:2]
    cells = nbformat.read(page, 4).cells
    [begin] = [n for n, cell in enumerate(cells) if "## Into your file" in cell.source]
    [end] = [n for n, cell in enumerate(cells) if cell.source.startswith("## Recap")]
    text = "\n".join(cell.source for cell in cells[begin:end])
    verdicts = []
    for name in NAMES:
        problem = None if STEPS[name].lesson <= lesson else NOT_WRITTEN
        verdicts.append(Verdict(STEPS[name].lesson, name, problem))
    shown = re.search(r"```text\n(.*?)```", text, re.S)[1].splitlines()
    assert shown == ["Checking mine.py …", *say_verdicts(verdicts)]
    assert 'check("mine.py")' in text
    for name in NAMES:
        if STEPS[name].lesson == lesson:
            assert f"`{STEPS[name].definition}(" in text, name


def test_the_file_becomes_a_program_with_what_lesson_16_gives(tmp_path):
    cells = nbformat.read(LESSONS[-1], 4).cells
    [text] = [cell.source for cell in cells if "Now make it a program" in cell.source]
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert program.count("2000") == 2 and len(program.splitlines()) < 30
    program = program.replace("2000", "4").replace("// 50", "* 10")
    file = tmp_path / "mine.py"
    file.write_text(f"{RIGHT}\n\n{program}", encoding="utf-8")
    (tmp_path / "text.txt").write_text("to be or not\n\n  to be\n" * 240, encoding="utf-8")
    command = [sys.executable, "-W", "error", "mine.py", "text.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=UTF8)
    assert done.returncode == 0, done.stderr.decode()
    shown = done.stdout.decode().replace("\r\n", "\n").rpartition("\r")[2].splitlines()
    assert shown[0] == "█" * 40 + " step 4 of 4" and len(shown) == 9
    verdicts = judge_file(file)  # it stays right, and is not run as a program
    assert [v.problem for v in verdicts] == [None] * len(NAMES)


def test_lesson_02_asks_for_no_masks_and_lesson_04_does(tmp_path):
    file = tmp_path / "mine.py"
    lines = "(q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)", "attention_weights(q, k) @ v"
    text = START
    for line in lines:
        text = text.replace("    ...", f"    return {line}", 1)
    without = text.replace(", mask=None, is_causal=False", "")
    for source in (text, without):
        file.write_text(source, encoding="utf-8")
        found = {verdict.name: verdict.problem for verdict in judge_file(file)}
        assert found["attention_weights"] is found["attention"] is None
        assert found["attention_weights with masks"] == NOT_WRITTEN
        assert found["attention with masks"] == NOT_WRITTEN
    file.write_text(without.replace("attention(q, k, v)", "attention(q, k, v, m, c)"), "utf-8")
    found = {verdict.name: verdict.problem for verdict in judge_file(file)}
    wanted = "expected attention(q, k, v, mask=None, is_causal=False), yours is "
    assert found["attention"].startswith(wanted)


def test_one_lesson_alone_and_a_lesson_that_is_none():
    done = former("check", RIGHT_FILE, "--step", "6")
    assert done.returncode == 0 and "FeedForward, Block, Stack, make_block" in done.stdout
    assert "attention_weights" not in done.stdout
    wrong = former("check", RIGHT_FILE, "--step", "99")
    assert wrong.returncode == 2 and "step: expected one of" in wrong.stderr


def test_watch_checks_again_when_the_file_was_saved(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("", encoding="utf-8")
    command = [sys.executable, "-c", RUN, "check", str(file), "--watch"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        for line in process.stdout:
            if line.startswith("Save the file"):
                break
        file.write_text("def greedy(logits):\n    return logits.argmax(dim=-1)\n", encoding="utf-8")
        for line in process.stdout:
            if line.startswith("1 of 44"):
                break
        else:
            pytest.fail("it ended")
    finally:
        process.kill()


def test_an_edit_that_never_ends_is_not_the_readers_fault(tmp_path):
    "A loop by `while` has many edits that leave its counter where it is."
    slip = """def merge(row, pair):
    merged = []
    i = 0
    while i < len(row):
        if i + 1 < len(row) and (row[i], row[i + 1]) == pair:
            merged.append(row[i] + row[i + 1])
            i += 1
        else:
            merged.append(row[i])
            i += 1
    return merged
"""
    file = tmp_path / "mine.py"
    file.write_text(RIGHT.partition("# 15 ")[0] + slip, encoding="utf-8")
    [verdict] = [v for v in judge_file(file) if v.name == "merge"]
    assert "does not end" not in verdict.problem and "line " in verdict.problem
