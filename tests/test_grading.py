"""The judge of a reader's file: its mistakes by name, right files in other styles, files with other
names, and what strangers wrote."""

import ast
import hashlib
from pathlib import Path

import pytest
from grading_tools import judged
from thorough import THOROUGH
from torch import nn

from former_nb.exercises import lesson_02
from former_nb.grading import content, grade, prove
from former_nb.grading.apart import untouched
from former_nb.grading.ask import STEPS, Call, Draw
from former_nb.grading.compare import same
from former_nb.grading.content import definitions, read_definition, right_module, right_source
from former_nb.grading.copies import copied
from former_nb.grading.files import NOT_WRITTEN, STEP_NAMES, File
from former_nb.grading.observe import observe

RIGHT = right_source()
ANOTHER = Path(__file__).with_name("another_right_file.py").read_text(encoding="utf-8")
IMPORTS = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def with_one(old, new, source=RIGHT):
    "The right file with one edit."
    assert source.count(old) == 1, source.count(old)
    return source.replace(old, new)


def until(lesson):
    "The right file up to a lesson."
    parts = [one.source() for one in definitions().values() if one.lesson <= lesson]
    return IMPORTS + "\n\n".join(parts)


# ---------------------------------------------------------------- the right file


def test_the_right_file_has_the_definitions_that_were_decided():
    nodes = [n for n in ast.parse(RIGHT).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    assert [node.name for node in nodes] == [*definitions()] and len(nodes) == 45
    text = "\n".join(sorted(ast.dump(node) for node in nodes))
    assert hashlib.sha256(text.encode()).hexdigest() == DECIDED


# It changes only when a definition of the course is meant to.
DECIDED = "84d05a5027fe93dc3d313051e5628a33bd3af776578eefd6e50d79886345aa3b"


def test_the_right_file_is_plain_pytorch_without_annotations():
    lines = [line for line in RIGHT.splitlines() if line.startswith(("import ", "from "))]
    wanted = {"json", "math", "collections", "itertools", "pathlib"}
    assert {line.split()[1] for line in lines} == wanted | {"torch", "torch.nn.functional"}
    assert not any(content.MARK.fullmatch(line) for line in RIGHT.splitlines())
    assert "former_nb" not in RIGHT


@pytest.mark.parametrize("source", [RIGHT, ANOTHER], ids=["the course's", "another"])
def test_a_right_file_is_right(source):
    assert judged(source) == dict.fromkeys(STEP_NAMES)


@pytest.mark.parametrize("name", definitions())
def test_each_mistake_is_told_by_its_sentence_and_the_right_one_raises_nothing(name):
    "Of each definition every fourth, in turns; with FORMER_NB_THOROUGH all."
    turn = [*definitions()].index(name) % 4
    which = slice(None) if THOROUGH else slice(turn, None, 4)
    assert [*prove.faults_of(name, which)] == []


def test_each_definition_is_asked_about_in_its_lesson():
    asked = {(step.definition, step.lesson) for step in STEPS.values()}
    wanted = {(one.name, one.lesson) for one in definitions().values()}
    assert wanted - asked <= {("repeat_kv", "02")}  # 12 asks


# ---------------------------------------------------------------- a file that is begun


FIRST = """def attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v
"""
HEADS = """class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def forward(self, x):
        q, k, v = (
            w(x).unflatten(-1, (-1, self.d_k)).transpose(1, 2)
            for w in (self.w_q, self.w_k, self.w_v)
        )
        return self.w_o(attention(q, k, v).transpose(1, 2).flatten(2))
"""


def test_lessons_02_and_03_ask_for_no_masks_and_no_weights_function():
    said = judged(IMPORTS + FIRST + "\n\n" + HEADS)
    assert [name for name, problem in said.items() if problem is None] == [
        "attention",
        "MultiHeadAttention",
    ]
    assert {*said.values()} == {None, NOT_WRITTEN}


@pytest.mark.parametrize("lesson", ["02", "03", "04", "05", "06"])
def test_a_file_that_ends_at_a_lesson_is_right_so_far(lesson):
    said = judged(until(lesson), *[n for n in STEP_NAMES if STEPS[n].lesson <= lesson])
    masks = lesson in ("02", "03")  # the definitions have masks already
    assert said == dict.fromkeys(said) and (masks or len(said) > 6)


def test_a_wrong_definition_is_told_once():
    source = with_one("self.ff(self.norm_ff(x))", "self.ff(x)", until("06"))
    said = judged(source, *[n for n in STEP_NAMES if STEPS[n].lesson <= "06"])
    [wrong] = [name for name, problem in said.items() if problem]
    assert wrong == "Block" and said[wrong].startswith("the network lacks its norm")
    assert "in line " in said[wrong]


def test_masks_wait_for_an_attention_that_is_wrong_without_them():
    source = with_one("scores.softmax(dim=-1)", "scores.softmax(dim=-2)", until("04"))
    said = judged(source, "attention_weights", "attention_weights with masks", "attention")
    assert said["attention_weights"].startswith("the softmax runs over the queries")
    assert said["attention_weights with masks"] == "waits for attention_weights"
    assert said["attention"] is None


# ---------------------------------------------------------------- what strangers wrote


WEIGHTS = """def attention_weights(q, k, mask=None, is_causal=False):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    T, S = scores.shape[-2:]
    allowed = torch.ones(T, S, dtype=torch.bool)
    if is_causal:
        allowed = allowed.tril(S - T)
    if mask is not None:
        allowed = allowed & mask
    return LAST
"""
MASKED = {  # last line -> what is said at lesson 04
    "scores.masked_fill(~allowed, float('-inf')).softmax(-1)": "yours gets NaN",
    "scores.masked_fill(~allowed, -1e9).softmax(-1)": "yours spreads its weight evenly",
    "scores.masked_fill(~allowed, -10000.0).softmax(-1)": "yours spreads its weight evenly",
    "scores.masked_fill(~allowed, torch.finfo(q.dtype).min).softmax(-1)": "weight evenly",
    "scores.masked_fill(~allowed, 1e-9).softmax(-1)": "1e-9 is nearly 0",
    "scores.softmax(-1).masked_fill(~allowed, 0.0)": "no longer sum to 1",
    "scores.softmax(-1) * allowed": "no longer sum to 1",
    "(scores + allowed).softmax(-1)": "True adds 1",
}


@pytest.mark.parametrize("last", MASKED)
def test_the_fields_masks_are_named(last):
    name = "attention_weights with masks"
    said = judged(IMPORTS + WEIGHTS.replace("LAST", last), "attention_weights", name)
    assert said["attention_weights"] in (None, said[name]) or "NaN" in said[name]
    assert MASKED[last] in said[name]


SPLIT = "x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)"
MERGE = "y.transpose(1, 2).flatten(2)"
CUTS = {  # how heads are cut and joined -> what is said
    ("x.reshape(x.shape[0], -1, x.shape[1], self.d_k)", "y.reshape(y.shape[0], y.shape[2], -1)"): (
        "by `reshape` or `view` alone, which is no transpose"
    ),
    (
        "x.unflatten(-1, (self.d_k, -1)).permute(0, 3, 1, 2)",
        "y.permute(0, 2, 3, 1).flatten(2)",
    ): "`(d h)`, and joins",
    ("x.unflatten(-1, (-1, self.d_k))", "y.flatten(2)"): "without a transpose",
}


@pytest.mark.parametrize("split, merge", CUTS)
def test_the_fields_heads_are_named(split, merge):
    source = with_one(MERGE, merge, with_one(SPLIT, split, until("03")))
    assert CUTS[split, merge] in judged(source, "MultiHeadAttention")["MultiHeadAttention"]


BOTH = "        x = x + self.dropout(self.attention(self.norm_attention(x), mask, "
BOTH += "is_causal, attend))\n"
BOTH += "        return x + self.dropout(self.ff(self.norm_ff(x)))\n"
BLOCKS = {
    "        x = self.norm_attention(x)\n"
    "        x = x + self.dropout(self.attention(x, mask, is_causal, attend))\n"
    "        x = self.norm_ff(x)\n        return x + self.dropout(self.ff(x))\n": (
        "the stream itself is normed"
    ),
    BOTH.replace("self.dropout(", "F.dropout(", 1).replace("attend))", "attend), 0.1)"): (
        "two calls with the same input differ: dropout"
    ),
    "        x = x + self.dropout(self.attention(x, mask, is_causal, attend))\n"
    "        x = self.norm_attention(x)\n"
    "        return self.norm_ff(x + self.dropout(self.ff(x)))\n": "that is post-norm",
}


@pytest.mark.parametrize("body", BLOCKS, ids=BLOCKS.values())
def test_the_fields_blocks_are_named(body):
    assert BLOCKS[body] in judged(with_one(BOTH, body), "Block")["Block"]


def test_two_mistakes_at_once_are_both_named():
    source = with_one("self.ff(self.norm_ff(x))", "self.ff(x)", until("06"))
    old = "self.norm_attention(x), mask, is_causal, attend"
    source = with_one(old, old.replace("is_causal", "False"), source)
    said = judged(source, "Block")["Block"]
    assert "the network lacks its norm" in said and "is_causal is not passed on" in said


STRANGER = """
NAMES = {"attention": "scaled_dot_product_attention", "MultiHeadAttention": "CausalSelfAttention",
         "MultiHeadAttention.w_q": "q_proj", "MultiHeadAttention.w_k": "k_proj",
         "MultiHeadAttention.w_v": "v_proj", "MultiHeadAttention.w_o": "output_proj"}


def scaled_dot_product_attention(Q, K, V, attn_mask=None, causal=False):
    d_k = K.shape[-1]
    scores = torch.einsum("...qd,...kd->...qk", Q, K) / math.sqrt(d_k)
    ok = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if causal:
        ok = torch.tril(ok, diagonal=K.shape[-2] - Q.shape[-2])
    if attn_mask is not None:
        ok = ok & attn_mask
    scores = scores.masked_fill(~ok, float("-inf"))
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ V


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, use_bias=True):
        super().__init__()
        self.n_head = n_head
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (
            nn.Linear(n_embd, n_embd, use_bias) for _ in range(4)
        )

    def forward(self, hidden, attn_mask=None, causal=False, attend_fn=scaled_dot_product_attention):
        B, T, C = hidden.shape
        parts = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (f(hidden).view(B, T, self.n_head, -1).transpose(1, 2) for f in parts)
        y = attend_fn(q, k, v, attn_mask, causal)
        return self.output_proj(y.transpose(1, 2).contiguous().view(B, T, C))
"""
OF_STRANGER = ["attention", "attention with masks", "MultiHeadAttention"]
OF_STRANGER += ["MultiHeadAttention with masks"]


def test_a_file_may_say_its_own_names():
    assert judged(IMPORTS + STRANGER, *OF_STRANGER) == dict.fromkeys(OF_STRANGER)
    unnamed = judged(IMPORTS + STRANGER.replace("NAMES =", "OTHERS ="), *OF_STRANGER)
    assert {*unnamed.values()} == {NOT_WRITTEN}


def test_a_weight_with_another_name_is_told_with_the_entry_that_renames_it():
    source = until("06").replace("w_in", "first")
    said = judged(source, "FeedForward")["FeedForward"]
    words = "there is no weight called w_in.weight, of shape (10, 6); yours has first.weight"
    assert said.startswith(words) and 'NAMES = {"FeedForward.w_in": "first"}' in said
    named = judged(source + '\nNAMES = {"FeedForward.w_in": "first"}\n', "FeedForward")
    assert named == {"FeedForward": None}


# ---------------------------------------------------------------- other right answers


OTHER_WAYS = {  # right answers in another form: the step, what stands there, what stands instead
    "arguments that are handed on by name": (
        "Block",
        "def forward(self, x, mask=None, is_causal=False, attend=attention):\n" + BOTH,
        "def forward(self, x, **how):\n"
        "        x = x + self.dropout(self.attention(self.norm_attention(x), **how))\n"
        "        return x + self.dropout(self.ff(self.norm_ff(x)))\n",
    ),
    "torch.dropout": (
        "Block",
        BOTH,
        BOTH.replace("self.dropout(", "self.drop(")
        + "\n    def drop(self, x):\n"
        + "        return torch.dropout(x, self.dropout.p, self.training)\n",
    ),
    "no attend is attention": (
        "Stack",
        "attend=attention, positions=None):\n        for block, attend_here in zip("
        "self.blocks, self.attend_by_block(attend, positions)):\n            x = block(x, mask",
        "attend=None, positions=None):\n        for block, attend_here in zip("
        "self.blocks, self.attend_by_block(attend, positions)):\n            x = block(x, mask",
    ),
    "masks that are numbers inside": (
        "attention_weights with masks",
        'scores = scores.masked_fill(~allowed & ~empty, float("-inf"))',
        'scores = scores + torch.zeros_like(scores).masked_fill(~allowed & ~empty, float("-inf"))',
    ),
    "a table that is looked up by PyTorch": (
        "LearnedPositions",
        "return x + self.table[positions]",
        "return x + F.embedding(positions, self.table)",
    ),
}


@pytest.mark.parametrize("name, old, new", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_a_right_answer_in_another_form_is_right(name, old, new):
    assert judged(with_one(old, new), name) == {name: None}


# ---------------------------------------------------------------- what is seen, and what is said


def test_what_python_raises_is_told_with_its_line_and_what_is_usual():
    source = (
        IMPORTS + "def padding_mask(tokens, pad=0):\n    return (tokens != PAD)[:, None, None]\n"
    )
    said = judged(source, "padding_mask")["padding_mask"]
    assert said.startswith("tokens (2, 5): line 8, `return (tokens != PAD)[:, None, None]`: ")
    assert "nothing is called `PAD` here" in said and "NameError" in said


def test_what_nobody_foresaw_is_found_in_the_readers_lines():
    source = with_one("return x + self.table[positions]", "return x + self.table[positions - 1]")
    said = judged(source, "LearnedPositions")["LearnedPositions"]
    assert "`return x + self.table[positions - 1]`" in said and "`positions - 1`" in said


def test_numbers_by_default_are_asked_for():
    said = judged(
        with_one(
            "def make_block(d_model, n_heads, d_ff, dropout=0.0)",
            "def make_block(d_model, n_heads, d_ff, dropout=0.1)",
        ),
        "make_block",
    )
    assert said["make_block"] == "`dropout` is 0.1 if it isn't given; the page has 0.0"


def test_gradients_and_changed_arguments_are_seen():
    cut = with_one("return x + self.table[positions]", "return x + self.table.detach()[positions]")
    said = judged(cut, "LearnedPositions")["LearnedPositions"]
    assert "no gradient reaches table" in said or "self.table.detach()" in said
    inside = with_one(
        "    return (tokens != pad)[:, None, None]",
        "    tokens += 0 * pad + 1\n    return (tokens != pad + 1)[:, None, None]",
    )
    assert "is changed in place" in judged(inside, "padding_mask")["padding_mask"]


def test_a_layer_keeps_the_parts_that_it_is_given():
    clones = "import copy\n\n\ndef clones(blocks):\n    return nn.ModuleList("
    clones += "copy.deepcopy(blocks[0]) for _ in blocks)\n\n\nclass Stack(nn.Module)"
    source = with_one("self.blocks = nn.ModuleList(blocks)", "self.blocks = clones(blocks)")
    source = source.replace("class Stack(nn.Module)", clones)
    assert "keep the parts themselves" in judged(source, "Stack")["Stack"]


def test_an_edited_answer_leaves_pytorch_as_it_was():
    before = dict(vars(nn.Module))
    with untouched():
        nn.Module.weight = nn.Module.forward = None
    assert dict(vars(nn.Module)) == before


def test_a_loop_without_end_is_stopped_and_costs_no_other_step(monkeypatch):
    monkeypatch.setattr(grade, "LIMIT", 0.5)
    source = with_one("    return (tokens != pad)[:, None, None]", "    while True:\n        pass")
    said = judged(source, "padding_mask", "LearnedPositions")
    assert said["padding_mask"].startswith("this does not end: after 0.5 seconds of the processor")
    assert "line " in said["padding_mask"] and said["LearnedPositions"] is None


def test_a_verdict_is_the_same_twice():
    source = with_one("self.ff(self.norm_ff(x))", "self.ff(self.norm_attention(x))", until("06"))
    assert judged(source, "Block") == judged(source, "Block")


def test_the_verdicts_get_better_and_the_first_is_known_at_once():
    source = with_one("self.ff(self.norm_ff(x))", "self.ff(x)", until("06"))
    file = File(source)
    space = file.space_with(())
    found = [*grade.verdicts("Block", file.answer("Block", space))]
    assert [one.kind for one in found] == ["numbers", "named", "named"]
    assert found[2].said.startswith(f"{found[1].said}, in line ")


# ---------------------------------------------------------------- the parts of the engine


ANNOTATED = """def f(x):
    # ? a hint
    y = x + 1
    #! one
    #! sentence
    # ~ y = x
    #! another
    # ~0 y = y + 1
    #| y = y + 2
    return y
    #! nothing comes back
    # ~
    #! other names
    # ~ y -> z"""


def test_annotations_are_read():
    one = read_definition("f", "02", ANNOTATED)
    assert one.source() == "def f(x):\n    y = x + 1\n    return y\n" and one.hints == ("a hint",)
    assert [m.sentence for m in one.mistakes] == [
        "one sentence",
        "another",
        "nothing comes back",
        "other names",
    ]
    assert one.source(one.mistakes[0]) == "def f(x):\n    y = x\n    return y\n"
    wanted = "def f(x):\n    y = x + 1\n    y = y + 1\n    y = y + 2\n    return y\n"
    assert one.source(one.mistakes[1]) == wanted
    assert one.source(*one.mistakes[2:]) == "def f(x):\n    z = x + 1\n"
    with pytest.raises(ValueError, match="two mistakes in one line"):
        one.source(one.mistakes[0], one.mistakes[0])


def test_a_copy_of_a_layer_is_a_layer_of_its_own():
    right = right_module()
    layer = right.make_block(8, 2, 12)
    layer.again = layer.ff  # one thing in two places
    new = copied(layer)
    assert same([*new.state_dict().values()], [*layer.state_dict().values()])
    assert new.again is new.ff and new.ff is not layer.ff
    assert new.ff.w_in.weight is not layer.ff.w_in.weight and type(new) is type(layer)


def test_what_is_seen_of_a_call():
    call = Call("", lesson_02.heads(Draw(1), True, (2,), 3, 4), slopes=True)
    right = right_module().attention
    seen = observe(call, right, right)
    assert seen.error is None and [*seen.slopes] == ["argument 1", "argument 2", "argument 3"]
    assert same(seen.values, seen.again)
