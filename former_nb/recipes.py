"""What each task of the command line needs: settings that work, data, and a model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import settings as of_task
from .guards import check_int, check_that, check_type
from .settings import Job, Task, build


def sizes(parts, words=("to learn from", "to choose by", "held out")) -> str:
    "How much there is of each part."
    return ", ".join(f"{len(part):,} {word}" for part, word in zip(parts, words))


def file_name(settings, name) -> str:
    "A setting that names a file."
    check_that(settings[name] and isinstance(settings[name], str), name, "a file", settings[name])
    return settings[name]


def name_texts(settings):
    "Three parts of the names, and where they come from."
    from former_nb.data_sets import load_names, split
    from former_nb.files import read_names
    from former_nb.tokenization import normalise

    check_type("file", file := settings["file"], str)
    names, source = (read_names(file), f"names from {Path(file).name}") if file else load_names()
    spelling = partial(normalise, lowercase=True)  # Ona and ona go into one part
    return split(names, (0.8, 0.1, 0.1), group=spelling), source


def language_job(settings, texts, source, tokenizer, collate, report) -> Job:
    "A language model of short texts."
    from former_nb.batches import make_batches
    from former_nb.config import TransformerConfig
    from former_nb.generator import LanguageModel
    from former_nb.saving import save_model
    from former_nb.text import encode_texts

    rows = [encode_texts(part, tokenizer) for part in texts]
    longest = max(len(row) for part in rows for row in part) - 1
    config = build(TransformerConfig, settings, vocab_size=tokenizer.vocab_size, max_len=longest)
    order = dict(shuffle=True, seed=settings["seed"], collate=collate)
    return Job(
        source,
        sizes(texts),
        make_batches(rows[0], settings["batch_size"], **order),
        make_batches(rows[1], 512, collate=collate),
        partial(LanguageModel, config),
        partial(save_model, tokenizer=tokenizer),
        partial(report, texts=texts, rows=rows),
    )


def prepare_names(settings: dict) -> Job:
    "A language model of names."
    from former_nb.reports import report_names
    from former_nb.text import CharTokenizer, collate

    texts, source = name_texts(settings)
    tokenizer = CharTokenizer.train(texts[0], lowercase=True)
    report = partial(report_names, tokenizer=tokenizer, seed=settings["seed"])
    return language_job(settings, texts, source, tokenizer, collate, report)


def prepare_toy(settings: dict, task: str) -> Job:
    "A language model of questions with their answers."
    from former_nb.reports import report_toy
    from former_nb.text import CharTokenizer
    from former_nb.toy_data import SEPARATOR, collate_answers, toy_texts

    check_int("rows", settings["rows"])
    if settings["rows"] > 1_000_000:
        raise ValueError(f"rows: expected at most 1,000,000 questions, got {settings['rows']:,}")
    n, symbols, length = settings["rows"] + 1500, settings["symbols"], settings["length"]
    texts = toy_texts(task, n, symbols, length, seed=settings["seed"])
    texts = [texts[1500:], texts[:500], texts[500:1500]]
    tokenizer = CharTokenizer.train([*texts[0], SEPARATOR])
    collate = collate_answers(tokenizer.encode(SEPARATOR)[0])
    source = f"{task}, {length} letters of {symbols}"
    report = partial(report_toy, collate=collate)
    return language_job(settings, texts, source, tokenizer, collate, report)


def prepare_long_text(settings: dict, name: str | None = None) -> Job:
    "A language model of one long text."
    from former_nb.config import TransformerConfig
    from former_nb.generator import LanguageModel
    from former_nb.long_text_data import load_long_text, long_text_data
    from former_nb.reports import report_long
    from former_nb.saving import save_model

    text, source, shares = load_long_text(name or file_name(settings, "file"))
    length, most = settings["length"], min(int(min(shares) * len(text)), 250_000)
    check_int("length", length)
    check_that(length <= most, "length", f"at most {most:,}, as the parts allow", length)
    data = long_text_data(text, length, settings["batch_size"], settings["seed"], shares)
    vocab_size = data.tokenizer.vocab_size
    config = build(TransformerConfig, settings, vocab_size=vocab_size, max_len=length)
    return Job(
        source,
        f"{sizes(data.rows)}, in windows of {length}",
        data.train,
        data.valid,
        partial(LanguageModel, config),
        partial(save_model, tokenizer=data.tokenizer),
        partial(report_long, data=data, settings=settings, tested=len(data.rows) > 2),
    )


def review_parts(settings):
    "Training, validation and test reviews as (text, label), and where they come from."
    from former_nb.data_sets import load_reviews, split

    reviews, source = load_reviews()
    names = ("negative", "positive")
    named = {part: [(t, names[y]) for t, y in pairs] for part, pairs in reviews.items()}
    train = split(named["train"], seed=None, stratify=lambda row: row[1])  # the file goes by film
    return [*train, named["test"]], source


def table_parts(settings):
    "Training, validation and test rows of a table as (text, label), and where they come from."
    from former_nb.data_sets import split
    from former_nb.labels import label_names, read_labeled_csv

    file = file_name(settings, "csv")
    pairs = list(zip(*read_labeled_csv(file, settings["text"], settings["label"])))
    label_names([label for _, label in pairs])
    keys = dict(group=lambda pair: pair[0], stratify=lambda pair: pair[1])
    empty = sum(not text.strip() for text, _ in pairs)
    odd = f", {empty:,} of them empty" if empty else ""
    source = f"{len(pairs):,} texts from {Path(file).name}{odd}"
    return split(pairs, (0.8, 0.1, 0.1), settings["seed"], **keys), source


def prepare_labels(settings: dict, find_parts: Callable) -> Job:
    "A classifier of texts."
    from former_nb.bigrams import BigramClassifier
    from former_nb.config import TransformerConfig
    from former_nb.labels import label_names
    from former_nb.reports import report_labels
    from former_nb.saving import save_model
    from former_nb.tokenization import SubwordTokenizer

    for name, least in (("max_tokens", 4), ("vocabulary", 260), ("pairs", 0)):
        check_int(name, settings[name], least)
    parts, source = find_parts(settings)
    names = label_names([label for _, label in parts[0]])
    texts, kwargs = [text for text, _ in parts[0]], dict(lowercase=True, strip_html=True)
    tokenizer = SubwordTokenizer.train(texts, settings["vocabulary"], **kwargs)
    V = tokenizer.vocab_size
    config = build(TransformerConfig, settings, vocab_size=V, max_len=settings["max_tokens"])
    return Job(
        source,
        f"{sizes(parts)}; labels {', '.join(names):.200}",
        *review_batches(settings, parts, tokenizer, names),
        partial(BigramClassifier, config, len(names), settings["embed_dropout"], settings["pairs"]),
        partial(save_model, tokenizer=tokenizer, labels=names),
        partial(report_labels, tokenizer=tokenizer, names=names, parts=parts),
    )


def review_batches(settings, parts, tokenizer, names):
    "Training and validation batches of texts with labels."
    from former_nb.labels import label_batches, label_rows, oversample

    longest, seed = settings["max_tokens"], settings["seed"]
    train, valid = (label_rows(*zip(*part), tokenizer, names) for part in parts[:2])
    how = dict(shuffle=True, seed=seed, word_dropout=settings["word_dropout"])
    yield label_batches(oversample(train, seed), settings["batch_size"], longest, **how)
    yield label_batches(valid, 256, longest)


def hold_out(pairs, seed):
    "Training, validation and test part, the last two a twentieth or 1,000 sentences each."
    from former_nb.data_sets import split

    n = len({source for source, _ in pairs})
    if n < 3:
        raise ValueError(f"src: expected at least three different sentences, got {n}")
    share = max(1, min(1000, n // 20)) / n
    return split(pairs, (1 - 2 * share, share, share), seed, group=lambda pair: pair[0])


def caption_parts(settings):
    "The three parts of Multi30k, and where they come from."
    from former_nb.data_sets import load_translations

    found, source = load_translations()
    return list(found.values()), source


def file_parts(settings):
    "Pairs of two files, and of two more to choose by."
    from former_nb.translating import read_pairs

    src, tgt = (file_name(settings, name) for name in ("src", "tgt"))
    pairs, own = read_pairs(src, tgt), [settings["val_src"], settings["val_tgt"]]
    source = f"{len(pairs):,} pairs from {Path(src).name} and {Path(tgt).name}"
    if any(own):
        check_that(all(own), "val_src, val_tgt", "both or neither", own)
        return [pairs, read_pairs(*own)], source
    return hold_out(pairs, settings["seed"]), source


def prepare_pairs(settings: dict, find_parts: Callable) -> Job:
    "A translator."
    from former_nb.config import TransformerConfig
    from former_nb.encoder_decoder import EncoderDecoder
    from former_nb.reports import KeepLast, report_translations
    from former_nb.tokenization import SubwordTokenizer
    from former_nb.translation import pair_rows

    for name, least in (("vocabulary", 260), ("batch_tokens", 1), ("longest", 4), ("average", 1)):
        check_int(name, settings[name], least)
    parts, source = find_parts(settings)
    longest, texts = settings["longest"], [text for pair in parts[0] for text in pair]
    tokenizer = SubwordTokenizer.train(texts, settings["vocabulary"])
    rows = [pair_rows(part, tokenizer, longest) for part in parts[:2]]
    if left_out := len(parts[0]) - len(rows[0]):
        source += f"; {left_out:,} left out, empty or of more than {longest - 2} tokens"
    config = build(TransformerConfig, settings, vocab_size=tokenizer.vocab_size, max_len=longest)
    keep = KeepLast(tokenizer, settings["average"])
    return Job(
        source,
        sizes(parts),
        *pair_batches(settings, rows),
        partial(EncoderDecoder, config),
        keep,
        partial(report_translations, keep=keep, parts=parts, tested=len(parts) > 2),
    )


def pair_batches(settings, rows):
    "Training and validation batches of pairs, each of so many tokens."
    from former_nb.batches import make_batches
    from former_nb.encoder_decoder import collate_pairs

    most = max(settings["batch_tokens"], settings["longest"] + 1)
    how = dict(max_tokens=most, collate=collate_pairs, length=lambda row: max(map(len, row)))
    yield make_batches(rows[0], shuffle=True, seed=settings["seed"], **how)
    yield make_batches(rows[1], **how)


_TOY = dict(epochs=1, d_model=32, n_heads=2, n_layers=1, dropout=0.0, lr=1e-2, muon_lr=0.05)
_TOY |= dict(eval_every=100)
_LONG = dict(minutes=5.0, d_model=128, n_heads=4, n_layers=4, dropout=0.0, eval_every=500)
_LONG |= dict(positions="rotary", lr=3e-3, muon_lr=0.02)
_LABELS = dict(epochs=3, d_model=128, n_heads=4, n_layers=1, d_ff=256, dropout=0.0, pad=None)
_LABELS |= dict(lr=1.5e-3, muon_lr=0.02, eval_every=175, label_smoothing=0.1, word_dropout=0.5)
_TABLE = _LABELS | dict(vocabulary=4000, pairs=0, epochs=10, lr=5e-3, eval_every=None)
_TABLE |= dict(label_smoothing=0.0, word_dropout=0.3)
_PAIRS = dict(minutes=10.0, d_model=160, n_heads=5, n_layers=3, d_ff=640, dropout=0.0)
_PAIRS |= dict(label_smoothing=0.1, positions="rotary", lr=3e-3, muon_lr=0.02, eval_every=100)

_SHAKESPEARE, _ENWIK8 = (partial(prepare_long_text, name=n) for n in ("shakespeare", "enwik8"))
_REVIEWS, _TABLES = (partial(prepare_labels, find_parts=f) for f in (review_parts, table_parts))
_CAPTIONS, _FILES = (partial(prepare_pairs, find_parts=f) for f in (caption_parts, file_parts))
_ROWS = [
    ("names", "Invent names.", prepare_names, of_task.NameData, dict(epochs=40, lr=1e-2)),
    ("copy", "Repeat letters.", partial(prepare_toy, task="copy"), of_task.ToyData, _TOY),
    ("reverse", "Reverse letters.", partial(prepare_toy, task="reverse"), of_task.ToyData, _TOY),
    (
        "sort",
        "Sort letters.",
        partial(prepare_toy, task="sort"),
        of_task.ToyData,
        _TOY | {"rows": 64_000},
    ),
    ("shakespeare", "Write like Shakespeare.", _SHAKESPEARE, of_task.LongData, _LONG),
    ("enwik8", "Model the bytes of Wikipedia.", _ENWIK8, of_task.LongData, _LONG),
    ("text", "Write like a text of your own.", prepare_long_text, of_task.OwnLongData, _LONG),
    ("imdb", "Classify film reviews.", _REVIEWS, of_task.LabelData, _LABELS),
    ("classify", "Classify texts of your own.", _TABLES, of_task.TableData, _TABLE),
    ("multi30k", "Translate German captions.", _CAPTIONS, of_task.PairData, _PAIRS),
    ("translate", "Translate sentences of your own.", _FILES, of_task.FilePairData, _PAIRS),
]
TASKS = {row[0]: Task(*row) for row in _ROWS}


def prepare(
    task: str,  # a key of TASKS
    settings: dict,  # from `choose_settings`
) -> Job:
    "Data, model and report of a task. Raises `ValueError` or `TypeError`, naming the setting."
    return TASKS[task].prepare(settings)
