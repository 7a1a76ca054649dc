"""The glossary: each term is found where its entry leads, and no entry stands twice."""

import json
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("sphinx", reason="the site's requirements are not installed")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_glossary as glossary

TEXT = (ROOT / "nbs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = list(glossary.entries(TEXT))


@cache
def sections(page):
    "Heading's anchor -> what stands below it, code included; all of the page under the empty one."
    cells = json.loads((ROOT / "nbs" / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells)
    parts = re.split(r"^#{2,3} (.*)$", text, flags=re.M)
    slug = lambda heading: re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
    return {"": text} | {slug(head): head + body for head, body in zip(parts[1::2], parts[2::2])}


def is_in(name, text):
    "Does a text use a name? Words may have an ending, letters stand alone; d_k may be d_{k}."
    text = re.sub(r"[{}$*\\]", "", text)
    if len(name) < 4 or "_" in name:
        return re.search(rf"(?<!\w){re.escape(name)}(?![^\W_])", text) is not None
    stem = re.escape(name.removesuffix("s").removesuffix("ing"))
    return re.search(rf"\b{stem}".replace(r"\ ", r"[\s-]"), text, re.I) is not None


def test_every_line_of_the_glossary_is_an_entry():
    assert len(ENTRIES) == len(re.findall("^- ", TEXT, re.M)) > 60
    anchors = [glossary.anchor(names[0]) for names, *_ in ENTRIES]
    assert len(set(anchors)) == len(anchors)
    terms = [names[0].lower() for names, *_ in ENTRIES if f"**{names[0]}**" in TEXT]
    assert terms == sorted(terms)


@pytest.mark.skipif(not (ROOT / "_site").exists(), reason="_site is not built: `make site` first")
def test_entries_and_pages_lead_to_each_other():
    read = cache(lambda page: (ROOT / "_site" / f"{page}.html").read_text(encoding="utf-8"))
    for names, _, links in ENTRIES:
        anchor = glossary.anchor(names[0])
        assert f'id="{anchor}"' in read("glossary"), anchor
        for page, _ in links:
            assert f'href="{page}.html' in read("glossary")
            assert f'glossary.html#{anchor}"' in read(page), (page, anchor)


@pytest.mark.parametrize("names, meaning, links", ENTRIES, ids=[e[0][0] for e in ENTRIES])
def test_a_term_is_found_where_its_entry_leads(names, meaning, links):
    assert links and meaning.endswith(".") and len(meaning.split()) <= 30
    for page, anchor in links:
        assert anchor in sections(page), f"{page} has no section #{anchor}: {list(sections(page))}"
        assert any(is_in(name, sections(page)[anchor]) for name in names), (page, anchor)
