"""Files under names of their own: which definitions look like the course's; how they are judged."""

import json
import re
from pathlib import Path

from cli_tools import former

from former_nb.grading.content import definitions, right_source
from former_nb.grading.files import File
from former_nb.grading.lookalikes import lookalikes

HERE = Path(__file__).parent
OTHER = HERE / "another_course.py"
NAMES = {
    "attention": "scaled_dot_product_attention",
    "MultiHeadAttention": "MultiheadSelfAttention",
    "SwiGLU": "SwiGLUFeedForward",
    "RMSNorm": "RMSNormLayer",
    "warmup_cosine": "cosine_schedule",
}


def renamed(source):
    "A file whose definitions have names that say nothing, and these names."
    names = {}
    for number, key in enumerate(definitions()):
        if re.search(rf"^(?:def|class) {key}\b", source, re.M):
            names[key] = f"thing_{number}"
            source = re.sub(rf"\b{key}\b", names[key], source)
    return source, names


def test_most_definitions_are_known_without_their_names():
    source, names = renamed(right_source())
    found = lookalikes(File(source))
    assert len(found) > 38 and found.items() <= names.items()
    source, names = renamed((HERE / "another_right_file.py").read_text(encoding="utf-8"))
    found = lookalikes(File(source))
    right = found.items() & names.items()
    assert len(found) > 20 and len(right) > 0.85 * len(found)


def test_a_file_of_this_course_is_not_asked_about_its_helpers():
    assert lookalikes(File(right_source())) == {}
    assert lookalikes(File("def helper(x):\n    return x + 1\n")) == {}


def test_a_file_of_another_course_is_told_what_looks_like_what(tmp_path):
    assert lookalikes(File(OTHER.read_text(encoding="utf-8"))) == NAMES
    said = former("check", OTHER).stdout
    assert "MultiheadSelfAttention like MultiHeadAttention" in said
    table = re.search(r"NAMES = (\{.*\})", said)[1]
    assert json.loads(table) == NAMES


def test_a_file_of_another_course_is_judged_under_its_own_names(tmp_path):
    table = tmp_path / "names.json"
    weights = {"RMSNorm.weight": "gain", "SwiGLU.w_gate": "w1", "SwiGLU.w_in": "w3"}
    table.write_text(json.dumps(NAMES | weights | {"SwiGLU.w_out": "w2"}), encoding="utf-8")
    said = former("check", OTHER, "--names", table).stdout
    assert "right: attention\n" in said and "right: RMSNorm\n" in said
    assert "look like" not in said


def test_a_table_of_names_that_is_none_is_one_sentence(tmp_path):
    table = tmp_path / "names.json"
    for text in ("[1]", "{", '{"nobody": "x"}', '{"attention": 3}'):
        table.write_text(text, encoding="utf-8")
        done = former("check", OTHER, "--names", table)
        assert done.returncode == 2 and done.stderr.startswith("Error: names: "), done.stderr
