"""Paths, texts, tables and long work: what comes, and the right answer. See `test_door`."""

import ast
import codecs
import gzip
import io
import random
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest
from cli_tools import SMALL, former
from door_tools import Noted, Refused, Said

from former_nb import load_model, save_model
from former_nb.base.files import read_names, read_text, text_lines
from former_nb.base.results import make_once
from former_nb.base.source import your_path
from former_nb.data.data_sets import SOURCES, fetch
from former_nb.data.long_text_data import load_long_text
from former_nb.data.subwords import count_words, train_bpe
from former_nb.data.tokenization import SubwordTokenizer, load_tokenizer
from former_nb.decoding.classification import classification_report, read_labeled_csv
from former_nb.decoding.translating import read_pairs
from former_nb.grading import keeping
from former_nb.grading.check import begin_file, check
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, LanguageModel
from former_nb.saving.families import add_families
from former_nb.saving.hugging_face import from_hugging_face, to_hugging_face
from former_nb.training.resuming import Checkpoint, lock_folder, release_folder

# ---------------------------------------------------------------- paths


def at_home(call):
    "What `call` gives where `~` is the folder `home`. Nothing called `~` may be left anywhere."

    def found(folder):
        home = folder / "home"
        home.mkdir(exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(home))
            patch.setenv("USERPROFILE", str(home))  # of Windows
            result = call(home)
        assert not list(folder.rglob("~*")), "a folder is called ~"
        return result

    return found


def with_file(name, content, call):
    "What `call` gives, of a file that is there."

    def found(folder):
        folder.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        folder.joinpath(name).write_bytes(content if isinstance(content, bytes) else utf8(content))
        return call(folder)

    return found


def judged_model():
    "A classifier of two classes that has learned nothing."
    tokenizer = SubwordTokenizer.train(["good"], 260)
    config = TransformerConfig(tokenizer.vocab_size, 8, d_model=8, n_heads=2, n_layers=1)
    return Classifier.from_config(config, 2), tokenizer


RUN = '{"task": "names", "settings": {}}'  # of a run that did not end


def utf8(text):
    return text.encode("utf-8")


def home_file(name, content, call):
    "The same at home."
    return at_home(with_file(name, content, call))


@cache
def shipped():
    return load_model("names")


def saved_in(place):
    "Save the model of names under a path, and load it from there."
    save_model(place, *shipped())
    return load_model(place).tokenizer.to_dict() == shipped().tokenizer.to_dict()


def named(name, variable="FORMER_NB_MINE", call=your_path):
    "What `call` gives where an environment variable has this value."

    def found(_):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(variable, name)
            return call()

    return found


def there_and_back(folder):
    "To Hugging Face's files and back."
    to_hugging_face(shipped().model, "~/theirs")
    return from_hugging_face("~/theirs").config == shipped().model.config


def pretrained(folder):
    shipped().model.save_pretrained("~/model")
    return LanguageModel.from_pretrained("~/model").config == shipped().model.config


def tokens(folder):
    shipped().tokenizer.save("~/tokens")
    return load_tokenizer("~/tokens").to_dict() == shipped().tokenizer.to_dict()


COPY = ["--rows", 250, "--length", 5, "--symbols", 8, *SMALL]


def trained(*words):
    "Train for two steps, and go on from there."

    def found(folder):
        first = former("train", "copy", *COPY, "--steps", 2, *words)
        if first.returncode:
            return first
        again = former("train", "copy", *(word.replace("--out", "--resume") for word in words))
        assert (folder / "run" / "history.csv").exists(), again.stderr
        return again

    return found


def judged(folder):
    "Both commands of check, on a file that Python can't read."
    with redirect_stdout(io.StringIO()) as said:
        right = check("~/mine.py")
    assert not right and "cannot read line 1 of mine.py" in said.getvalue()
    result = former("check", "~/mine.py", "--csv=~/scores.csv")
    assert "not judged" in (folder / "scores.csv").read_text()
    return result.returncode


def dry(*words):
    sizes = COPY if "copy" in words else SMALL
    return lambda folder: former("train", *words, "--dry-run", *sizes)


def out(place):
    "A run that must not begin."

    def found(folder):
        result = former("train", "copy", "--steps", 1, *SMALL, f"--out={place}")
        assert "step" not in result.stdout, "it has trained"
        return result

    return found


NAMES = "".join(f"{a}{b}na\n" for a in "abcdef" for b in "aeiou")


CSV = "text,label\n" + "".join(f"good {i},pos\nbad {i},neg\n" for i in range(20))


OWN = "class Own: ...\n"


BAD = "def broken(:\n"


PATHS: list = [  # that a user gives: arguments, options, settings
    ("save_model ~/m", at_home(lambda home: saved_in("~/m") and (home / "m").is_dir()), bool),
    ("save_model of a Path with ~", at_home(lambda home: saved_in(Path("~/m"))), True),
    ("to and from Hugging Face in ~", at_home(there_and_back), True),
    ("save_pretrained ~/model", at_home(pretrained), True),
    ("a tokenizer in ~/tokens", at_home(tokens), True),
    ("Checkpoint ~/r", at_home(lambda home: Checkpoint("~/r").folder == home / "r"), True),
    (
        "make_once ~/kept",
        at_home(lambda home: make_once("~/kept", "n", {}, lambda: ({}, {}))),
        bool,
    ),
    ("lock_folder ~/r", at_home(lambda home: release_folder(lock_folder("~/r"))), None),
    ("read_text ~/a", home_file("a", "text", lambda home: read_text("~/a")), "text"),
    ("read_pairs ~/a", home_file("a", "b\n", lambda _: read_pairs("~/a", "~/a")), [("b", "b")]),
    ("read_labeled_csv ~/t", home_file("t", CSV, lambda _: len(read_labeled_csv("~/t")[0])), 40),
    ("load_long_text ~/a", home_file("a", "text", lambda _: load_long_text("~/a")[0]), "text"),
    ("add_families ~/f.toml", home_file("f", "", lambda _: add_families("~/f")), None),
    ("check ~/mine.py", home_file("mine.py", BAD, judged), 1),
    (
        "begin_file ~/m.py",
        at_home(lambda home: begin_file("~/m.py") or (home / "m.py").is_file()),
        True,
    ),
    ("FORMER_NB_MINE=~/m.py", at_home(lambda home: named("~/m.py")(0) == home / "m.py"), True),
    (
        "FORMER_NB_DATA=~/data",
        at_home(named("~/data", "FORMER_NB_DATA", lambda: fetch(SOURCES["tinyshakespeare"]))),
        Refused("FORMER_NB_DATA", ("home", "data")),
    ),
    ("--out=~/run", at_home(trained("--out=~/run")), Said(("Right from end to end",))),
    ("--file=~/n", home_file("n", NAMES, dry("names", "--file=~/n")), Said(("24 to learn from",))),
    ("--csv=~/t", home_file("t", CSV, dry("classify", "--csv=~/t")), Said(("40 texts",))),
    ("--config=~/c", home_file("c", "lr = 0.5", dry("copy", "--config=~/c")), Said(("lr = 0.5",))),
    (
        "a file in TOML",
        home_file("c", "csv = '~/c.csv'", with_file("c.csv", CSV, dry("classify", "--config=~/c"))),
        Said(("40 texts",)),
    ),
    (
        "translate --file=~/a",
        home_file("a", "eins\n", lambda _: former("translate", "--file=~/a")),
        Said(("one",)),
    ),
    (
        "view --out=~/a",
        at_home(lambda home: former("view", "Jo", "--out=~/a.html")),
        Said(("home",)),
    ),
    (
        "--model=~/m",
        at_home(lambda _: saved_in("~/m") and former("generate", "--n=1", "--model=~/m")),
        Said(()),
    ),
    (
        "same ~/m.py:f",
        home_file("m.py", BAD, lambda _: former("same", "names", "~/m.py:f")),
        Refused("m.py"),
    ),
    (
        "train ~/m.py",
        home_file("m.py", OWN, lambda _: former("train", "~/m.py")),
        Refused("m.py", ("dataclass",)),
    ),
    ("--out is here", out("."), Refused("out", ("current",))),
    ("--out is here, absolute", lambda folder: out(folder)(folder), Refused("out", ("current",))),
    ("--out is home", at_home(out("~")), Refused("out", ("home",))),
    ("--out is a file", with_file("f", "", out("f")), Refused("out", ("is a file",))),
    (
        "--out is inside a file",
        with_file("f", "", out("f/a/run")),
        Refused("out", ("is a file",)),
    ),
    (
        "a new task where a link leads nowhere",
        lambda folder: (folder / "a.py").symlink_to("no/b") or former("new", "a"),
        Refused("name", ("a.py is there",)),
    ),
    (
        "a place among the settings",
        with_file("c", "resume = 1", dry("copy", "--config=c")),
        Refused("resume", ("command line, --resume",)),
    ),
    (
        "answers to fewer texts",
        lambda _: classification_report(["a", "b"], ["a"]),
        Refused("predicted", ("['a']",)),
    ),
    ("a folder of texts", lambda _: former("translate", "--file=."), Refused("file", ("folder",))),
    ("a path of bytes", lambda _: saved_in(b"m"), Refused("folder", ("b'm'",))),
    ("an empty path", lambda _: saved_in(""), Refused("folder", ("''",))),
    (
        "a page in a folder to come",
        lambda _: former("view", "Jo", "--out=new/a.html"),
        Refused("out", ("No such file",)),
    ),
    (
        "a page over a folder",
        with_file("a/b", "", lambda _: former("view", "Jo", "--out=a")),
        Refused("out"),
    ),
    ("a file called ~x", with_file("~x", "text", lambda _: read_text("~x")), "text"),
    ("a file called $x", with_file("$x", "text", lambda _: read_text("$x")), "text"),
    (
        "data in names/, by command",
        with_file("names/a.csv", "", lambda _: former("generate", "--n=1")),
        Said(()),
    ),
    (
        "./names without a model",
        with_file("names/a", "", lambda _: load_model("./names")),
        Refused("model", ("config.json",)),
    ),
    (
        "a broken model in names/",
        with_file("names/config.json", "{", lambda _: load_model("names")),
        Refused("model"),
    ),
    (
        "a run in names/",
        with_file("names/run.json", RUN, lambda _: former("generate")),
        Refused("model", ("did not end",)),
    ),
    (
        "a file called names",
        with_file("names", "a", lambda _: former("generate", "--n=1")),
        Said(()),
    ),
]


# ---------------------------------------------------------------- texts


def lines_of(content):
    "The lines of a text by both readers, which must agree: of pairs, and of what is answered."

    def found(folder):
        (folder / "a").write_bytes(content)
        lines = list(text_lines(folder / "a"))
        if not content.startswith(b"\x1f\x8b"):  # standard input isn't unpacked
            assert lines == list(text_lines(io.BufferedReader(io.BytesIO(content))))
        pairs = read_pairs(folder / "a", folder / "a")
        assert [line.strip() for line in lines] == [line for line, _ in pairs]
        return lines

    return found


def by_every_reader(content):
    "All that read texts must refuse this one, in the same words."

    def found(folder):
        (folder / "a").write_bytes(content)
        said = set()
        readers = [read_text, read_names, read_labeled_csv, lambda a: list(text_lines(a))]
        for read in [*readers, lambda a: read_pairs(a, a)]:
            with pytest.raises(ValueError) as raised:
                read(folder / "a")
            said.add(str(raised.value))
        assert len(said) == 1, said
        raise raised.value

    return found


def answered(content, *words):
    "What translate writes about standard input."
    return lambda _: former("translate", "--num-beams=1", *words, stdin=content).stdout


def packed(pack, *words):
    return pack(utf8("eins\nzwei\n"), *words)


FED = 'x = "\u2028"\n\f\ndef answer():\n    ...\n\n\ny = 2\n'


TWO = "one\ntwo\n"  # what `translate` says about eins and zwei


PLAIN = ["eins", "zwei"]


ZIP = b"PK\x03\x04"


TEXTS: list = [  # encodings, line ends, compression
    ("LF", lines_of(b"eins\nzwei\n"), PLAIN),
    ("CRLF", lines_of(b"eins\r\nzwei\r\n"), PLAIN),
    ("no end of the last line", lines_of(b"eins\r\nzwei"), PLAIN),
    ("a mark of UTF-8", lines_of(codecs.BOM_UTF8 + b"eins\nzwei\n"), PLAIN),
    ("a bare CR", lines_of(b"ei\rns\nzwei\n"), ["ei\rns", "zwei"]),
    ("CR CR LF", lines_of(b"eins\r\r\nzwei\n"), ["eins\r", "zwei"]),
    ("empty lines", lines_of(b"\n\neins\n\n"), ["", "", "eins", ""]),
    ("U+2028", lines_of(utf8("ei\u2028ns\nzwei\n")), ["ei\u2028ns", "zwei"]),
    ("U+2029", lines_of(utf8("ei\u2029ns\nzwei\n")), ["ei\u2029ns", "zwei"]),
    ("NEL", lines_of(utf8("ei\x85ns\nzwei\n")), ["ei\x85ns", "zwei"]),
    ("VT and FF", lines_of(b"ei\vns\nz\fwei\n"), ["ei\vns", "z\fwei"]),
    ("FS, GS and RS", lines_of(b"ei\x1cn\x1ds\nz\x1ewei\n"), ["ei\x1cn\x1ds", "z\x1ewei"]),
    ("gzip by content", lines_of(packed(gzip.compress)), PLAIN),
    ("gzip in two parts", lines_of(gzip.compress(b"eins\n") + gzip.compress(b"zwei\n")), PLAIN),
    ("gzip of CRLF with a mark", lines_of(gzip.compress(codecs.BOM_UTF8 + b"eins\r\nzwei")), PLAIN),
    ("translate: a bare CR", answered(b"eins\rzwei\nzwei\n"), lambda said: said.count("\n") == 2),
    ("translate: CRLF", answered(b"eins\r\nzwei\r\n"), TWO),
    ("translate: a mark", answered(codecs.BOM_UTF8 + b"eins\nzwei"), TWO),
    (
        "translate: .gz that isn't packed",
        with_file("a.gz", "eins\nzwei\n", lambda _: former("translate", "--file=a.gz").stdout),
        TWO,
    ),
    (
        "translate: packed without .gz",
        with_file("a", packed(gzip.compress), lambda _: former("translate", "--file=a").stdout),
        TWO,
    ),
    ("UTF-16", by_every_reader("eins\n".encode("utf-16")), Refused("file", ("UTF-16",))),
    ("UTF-16, the other end first", by_every_reader(b"\xfe\xff\0e"), Refused("file", ("UTF-16",))),
    (
        "UTF-16 in gzip",
        by_every_reader(gzip.compress("e".encode("utf-16"))),
        Refused("file", ("UTF-16",)),
    ),
    ("UTF-16 without a mark", by_every_reader(b"e\0i\0"), Refused("file", ("NUL in line 1",))),
    ("zip", by_every_reader(ZIP), Refused("file", ("zip", "xlsx"))),
    ("gzip that is cut", by_every_reader(packed(gzip.compress)[:-9]), Refused("file")),
    ("a folder", lambda folder: read_text(folder), Refused("file", ("directory",))),
    (
        "an answer kept behind a form feed and U+2028",
        lambda _: keeping._with(FED, ast.parse(FED), "answer", "def answer():\n    return 1\n"),
        FED.replace("...", "return 1"),
    ),
    ("an empty file", with_file("a", "", lambda _: read_text("a")), Refused("file", ("empty",))),
    (
        "Latin-1",
        with_file("a", b"a\nn\xe9\n", lambda _: read_text("a")),
        Refused("file", ("0xe9", "line 2")),
    ),
    (
        "settings with a mark",
        with_file("c", codecs.BOM_UTF8 + b"lr = 0.5\r\n", dry("copy", "--config=c")),
        Said(("lr = 0.5",)),
    ),
    (
        "settings of PowerShell",
        with_file("c", "lr = 1".encode("utf-16"), dry("copy", "--config=c")),
        Refused("config", ("UTF-16",)),
    ),
    (
        "settings in a folder",
        lambda _: dry("copy", "--config=.")(_),
        Refused("config", ("directory",)),
    ),
    (
        "a text of three characters",
        with_file("a", "abc", dry("text", "--file=a")),
        Refused("file", ("3 characters",)),
    ),
    (
        "a prompt of lines",
        lambda _: former("generate", "-", "--n=1", stdin=b"J\0"),
        Refused("file", ("NUL",)),
    ),
]


# ---------------------------------------------------------------- tables


def table(content, *columns):
    "Texts and labels of a table."
    return with_file("t.csv", content, lambda _: read_labeled_csv("t.csv", *columns))


def refused_table(*pieces):
    return Refused("file", pieces)


ONE_QUOTE = 'text,label\n"a,pos\nb,neg\n"c,pos\nd,neg\n'


LABEL_FIRST = 'label,text\npos,"a\nneg,b\npos,"c\nneg,d\n'


AB = (["a", "b"], ["x", "y"])


TABLES: list = [  # CSV: quotes, headings, separators, labels
    ("quotes, commas, lines", table('text,label\n"a, ""b""\nc",x\n'), (['a, "b"\nc'], ["x"])),
    ("CRLF, and a mark", table("\ufefftext,label\r\na,x\r\nb,y\r\n"), AB),
    ("a mark before a quoted heading", table('\ufeff"text","label"\na,x\nb,y\n'), AB),
    ("a bare CR in a cell", table("text,label\na\rc,x\n"), (["a c"], ["x"])),
    ("U+2028 and NEL in a cell", table("text,label\na\u2028b\x85,x\n"), (["a\u2028b\x85"], ["x"])),
    ("gzip, whatever its name", table(gzip.compress(b"text,label\na,x\nb,y\n")), AB),
    ("headings with spaces, more columns", table(" id , text,label \n1,a,x\n2,b,y\n"), AB),
    (
        "labels NA, None, numbers",
        table("text,label\na,NA\nb,None\nc,1\n"),
        (["a", "b", "c"], ["NA", "None", "1"]),
    ),
    ("an empty text", table("label,text\nx,\ny,b\n"), (["", "b"], ["x", "y"])),
    ("rows of commas alone", table("text,label\na,x\n,\n\nb,y\n ,,\n"), AB),
    ("a comma at the end of rows", table("text,label\na,x,\nb,y\n"), AB),
    (
        "a quote in the middle",
        table('text,label\n5" a,x\nb "c" d,y\n'),
        (['5" a', 'b "c" d'], ["x", "y"]),
    ),
    (
        "a lone quote",
        table(ONE_QUOTE),
        Noted((["a,pos\nb,neg\nc", "d"], ["pos", "neg"]), ("line 2", "doubled")),
    ),
    (
        "a lone quote behind the label",
        table(LABEL_FIRST),
        Noted(lambda t: len(t[0]) == 2, ("line 2", "doubled")),
    ),
    (
        "a quote that isn't doubled",
        table('text,label\na,x\n"b "c" d",y\n'),
        Noted(lambda t: len(t[0]) == 2, ("line 3", "doubled")),
    ),
    (
        "a long text without such lines",
        table('text,label\n"a\nb, c\nd",x\ne,y\n'),
        (["a\nb, c\nd", "e"], ["x", "y"]),
    ),
    (
        "labels that differ by capitals",
        table("text,label\na,Pos\nb,pos\n"),
        Noted((["a", "b"], ["Pos", "pos"]), ("'Pos'", "'pos'", "different classes")),
    ),
    (
        "labels that differ by spaces",
        table("text,label\na,x \nb,x\nc,y\n"),
        Noted((["a", "b", "c"], ["x", "x", "y"]), ("'x '", "one class")),
    ),
    (
        "a quote that is never closed",
        table('text,label\na,x\n"b,y\nc,x\n'),
        refused_table("end of the file"),
    ),
    ("semicolons", table("text;label\na;x\n"), refused_table("semicolons")),
    ("tabs", table("text\tlabel\na\tx\n"), refused_table("tabs")),
    ("no heading", table("a,x\nb,y\n"), refused_table("['a', 'x']", "first row")),
    (
        "a heading twice",
        table("text,text,label\na,b,x\n"),
        refused_table("['text', 'text', 'label']"),
    ),
    ("another column", table("Text,label\na,x\n", "Text"), (["a"], ["x"])),
    (
        "a column that isn't there",
        table("text,label\na,x\n", "words"),
        refused_table("['text', 'label']"),
    ),
    ("a carriage return alone", table("text,label\ra,x\rb,y\r"), refused_table("return")),
    ("many cells in a heading", table("a" + ",a" * 9999), refused_table("first row")),
    (
        "one column for both",
        table("text,label\na,x\n", "text", "text"),
        Refused("label", ("'text'",)),
    ),
    ("JSON lines", table('{"text": "a", "label": "x"}\n'), refused_table("JSON")),
    ("a workbook", table(ZIP), refused_table("xlsx")),
    ("a comma without quotes", table("text,label\na,x\nb, c,y\n"), refused_table("'b', ' c', 'y'")),
    ("a row that ends early", table("text,label\na,x\nb\n"), refused_table("['b']")),
    ("no label", table("text,label\na,x\nb, \n"), refused_table("' '")),
    ("a heading alone", table("text,label\n"), refused_table("None")),
    ("nothing but commas", table(",\n,\n"), refused_table("empty rows")),
    (
        "train says what looks wrong",
        with_file("t.csv", CSV + "a,Pos\nb,Pos\nc,Pos\n", dry("classify", "--csv=t.csv")),
        Said(("Note: file: ", "'Pos'")),
    ),
]


# ---------------------------------------------------------------- work that would take very long


def long_word(word):
    "Train on one long word, whose pieces then spell it again."

    def found(_):
        tokenizer = SubwordTokenizer.train([word], 300)
        assert tokenizer.decode(tokenizer.encode(word[:100_000])) == word[:100_000]
        return tokenizer.vocab_size

    return found


def more_than_bytes(n):
    return 260 < n <= 300


DNA = "".join(random.Random(0).choices("ACGT", k=400_000))


WORDS = ["low lower lowest", "new newer newest"] * 3


LONG: list = [  # work that would take a very long time
    ("subwords of one word of DNA", long_word(DNA), more_than_bytes),
    ("subwords of one letter", long_word("a" * 400_000), more_than_bytes),
    ("subwords of spaces", long_word(" " * 400_000), more_than_bytes),
    ("subwords of signs", long_word("=" * 400_000), more_than_bytes),
    ("subwords of Chinese without a space", long_word("變形金剛" * 100_000), more_than_bytes),
    (
        "a long word among others",
        lambda _: SubwordTokenizer.train([*WORDS, "a" * 400_000], 280).merges[-1] != ("a", "a"),
        True,
    ),
    (
        "words that aren't long are cut nowhere",
        lambda _: SubwordTokenizer.train(WORDS, 280).merges == train_bpe(count_words(WORDS), 20),
        True,
    ),
    (
        "a cell of base64",
        table(f"text,label\n{DNA},x\nb,y\n"),
        lambda found: found == ([DNA, "b"], ["x", "y"]),
    ),
    ("one line of 20 MB", lines_of(b"a" * 20_000_000), lambda found: len(found[0]) == 20_000_000),
    (
        "many rows",
        table("text,label\n" + "a,x\n" * 20_000),
        lambda found: len(found[0]) == 20_000,
    ),
]
