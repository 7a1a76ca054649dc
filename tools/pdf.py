"""The path of the course as one PDF, printed from the built site by Chromium.

make site && python tools/pdf.py     write _site/former_nb.pdf, and offer it on the home page

Pages are printed with their scripts off: figures and charts as their still pictures, folds open,
exercises with room to write. What is printed how is said in `@media print` of course.css,
check.css and figures.css.
"""

import argparse
import re
import sys
import tempfile
from base64 import b64decode
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DecodedStreamObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    TextStringObject,
)

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tests")]

from browser_tools import DRIVER, set_screen, start_browser, without_scripts  # noqa: E402
from nbdev_myst import SETTINGS  # noqa: E402

NAME = f"{SETTINGS['lib_name']}.pdf"
HOST = f"{SETTINGS['doc_host']}{SETTINGS['doc_baseurl']}/"
A4 = {"paperWidth": 8.27, "paperHeight": 11.69}  # inches
MARGINS = {"marginTop": 0.7, "marginBottom": 0.8, "marginLeft": 0.75, "marginRight": 0.75}
PRINT = {**A4, **MARGINS, "printBackground": True, "generateDocumentOutline": True}
OFFER = re.compile(r'<p class="on-paper">.*?</p>\n')
PLACE = re.compile(r'<section id="the-path">.*?</p>\n', re.S)


def path_pages():
    """The home page and the pages of the path, in the order of the site."""
    contents = yaml.safe_load((ROOT / "docs" / "_toc.yml").read_text(encoding="utf-8"))
    path = contents["subtrees"][0]["entries"]
    return [contents["root"], *(entry["file"] for entry in path)]


# ---------------------------------------------------------------- one page


def print_page(browser, path):
    """A page of the site as a PDF of its own: its title and the bytes."""
    browser.get(path.as_uri())
    browser.execute_cdp_cmd("Page.bringToFront", {})
    made = browser.execute_cdp_cmd("Page.printToPDF", PRINT)
    return browser.title, b64decode(made["data"])


def links(page):
    """The links of a page of a PDF."""
    for link in page.get("/Annots") or []:
        if link.get_object().get("/Subtype") == "/Link":
            yield link.get_object()


def settle(reader):
    """Give links within a page their place: their names would meet those of other pages."""
    named = reader.named_destinations
    for page in reader.pages:
        for link in links(page):
            name = link.get("/Dest")
            if isinstance(name, str) and f"{name}" in named:
                link[NameObject("/Dest")] = ArrayObject(named[f"{name}"].dest_array)


def sections(reader):
    """The sections of a printed page, those right below its title, with the sheet of each."""
    below = [item for item in reader.outline if isinstance(item, list)]
    for item in below[0] if below else []:
        if not isinstance(item, list):
            title, half = item.title, len(item.title) // 2
            title = (
                title[:half] if title[:half] == title[half:] else title
            )  # Chromium says it twice
            yield title, reader.get_destination_page_number(item)


# ---------------------------------------------------------------- all of them


def lead(book, starts, site):
    """Links to printed pages lead to their place in the book, others to the site on the web."""
    for page in book.pages:
        for link in links(page):
            address = (link.get("/A") or {}).get("/URI", "")
            if not address.startswith("file:"):
                continue
            parts = urlsplit(address)
            target = Path(unquote(parts.path))
            name = target.relative_to(site).as_posix() if target.is_relative_to(site) else ""
            if name in starts:
                there = book.pages[starts[name]].indirect_reference
                place = ArrayObject([there, NameObject("/XYZ"), *[NumberObject(0)] * 3])
                place[3] = NumberObject(int(book.pages[starts[name]].mediabox.top))
                del link["/A"]
                link[NameObject("/Dest")] = place
            else:
                fragment = f"#{parts.fragment}" if parts.fragment else ""
                link["/A"][NameObject("/URI")] = TextStringObject(HOST + name + fragment)


def number(book):
    """Write its number below each page of the book."""
    face = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    face = DictionaryObject({NameObject(k): NameObject(v) for k, v in face.items()})
    face = book._add_object(face)
    for n, page in enumerate(book.pages, 1):
        if n == 1:
            continue  # the cover
        box, text = page.mediabox, str(n)
        left = float(box.width) / 2 - 2.5 * len(text)
        words = DecodedStreamObject()
        words.set_data(f"q BT 0 g /Number 9 Tf {left:.1f} 28 Td ({text}) Tj ET Q".encode())
        fonts = page["/Resources"].get_object().setdefault(NameObject("/Font"), DictionaryObject())
        fonts.get_object()[NameObject("/Number")] = face
        before, after = DecodedStreamObject(), book._add_object(words)
        before.set_data(b"q\n")  # what the page sets up ends with it
        end = DecodedStreamObject()
        end.set_data(b"\nQ\n")
        old = page.raw_get("/Contents")
        old = old if isinstance(old.get_object(), ArrayObject) else ArrayObject([old])
        parts = [book._add_object(before), *old.get_object(), book._add_object(end), after]
        page[NameObject("/Contents")] = ArrayObject(parts)


def bind(printed, site):
    """The book of printed pages: {address: (title, bytes)} -> a `PdfWriter`."""
    book, starts = PdfWriter(), {}
    for name, (title, data) in printed.items():
        starts[name] = len(book.pages)
        reader = PdfReader(BytesIO(data))
        settle(reader)
        book.append(reader, import_outline=False)
        words = dict(title=title.rpartition(" · ")[0] or title, page_number=starts[name])
        lesson = book.add_outline_item(**words, is_open=False)
        for section, at in sections(reader):
            book.add_outline_item(title=section, page_number=starts[name] + at, parent=lesson)
    lead(book, starts, site)
    number(book)
    facts = {"/Title": f"{SETTINGS['title']}: {SETTINGS['description']}"}
    book.add_metadata({**facts, "/Author": SETTINGS["author"]})
    book.page_mode = "/UseOutlines"
    book.compress_identical_objects(remove_unreferenced=True)
    return book


def offer(home, path, pages):
    """Say on the home page that the book is there."""
    text = OFFER.sub("", home.read_text(encoding="utf-8"))
    size = f"{pages} pages, {path.stat().st_size / 1e6:.0f} MB"
    link = f'<a href="{path.name}" download>the path as one PDF</a>'
    line = f'<p class="on-paper">On paper: {link}, {size}.</p>\n'
    place = PLACE.search(text)
    if not place:
        raise SystemExit(f"{home} has no section “The path” to offer {path.name} in.")
    home.write_text(text[: place.end()] + line + text[place.end() :], encoding="utf-8")


def make(site, pages):
    """Print these pages of a built site, bind them and write the book; returns its path."""
    printed = {}
    with tempfile.TemporaryDirectory() as profile, start_browser(profile) as browser:
        set_screen(browser)
        with without_scripts(browser):
            for page in pages:
                printed[f"{page}.html"] = print_page(browser, site / f"{page}.html")
    book = bind(printed, site)
    path = site / NAME
    book.write(path)
    return path, len(book.pages)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", default=ROOT / "_site", type=Path, help="the built site")
    parser.add_argument("pages", nargs="*", help="pages without .html; the whole path otherwise")
    args = parser.parse_args(argv)
    site = args.site.resolve()
    pages = args.pages or path_pages()
    missing = [page for page in pages if not (site / f"{page}.html").exists()]
    if missing:
        raise SystemExit(f"{site} has no page {missing[0]}.html: build the site first, make site.")
    if not DRIVER:
        raise SystemExit("The book is printed by Chromium: install it and chromedriver.")
    path, count = make(site, pages)
    offer(site / "index.html", path, count)
    print(f"{path}: {count} pages, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
