"""The files of a tokenizer, as Hugging Face's programs of all years write them, read into one.

Since 2020 `tokenizer.json` has all that the library `tokenizers` needs. Older folders have
`vocab.json` and `merges.txt`, as GPT-2's, or `vocab.txt`, as BERT's. Beside them may lie
`tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`. They say which tokens
are special and how a text is prepared, and they win over `tokenizer.json`. What a text begins and
ends with is `tokenizer.json`'s own where there is one. All this is as in Transformers, and what we
read is one `tokenizer.json`.

Which tokens are special in a folder without any of these? Those that `config.json` names by their
number, unless they are pieces that texts are made of: many files name token 0 as padding where 0
is an exclamation mark.
"""

import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

from ..base.files import read_bytes, read_json
from ..base.guards import check_that, check_type

__all__ = ["byte_level", "tokens_around", "read_tokenizer"]

NAMED = [f"{word}_token" for word in "bos eos pad unk sep cls mask".split()]
LISTED = ("additional_special_tokens", "extra_special_tokens")
STEPS = {  # key of tokenizer_config.json -> the step of a tokenizer and its setting that it sets
    "add_prefix_space": ("ByteLevel", "add_prefix_space"),
    "do_lower_case": ("BertNormalizer", "lowercase"),
    "strip_accents": ("BertNormalizer", "strip_accents"),
    "tokenize_chinese_chars": ("BertNormalizer", "handle_chinese_chars"),
}
USED = {*NAMED, *LISTED, *STEPS, "added_tokens_decoder", "add_bos_token", "add_eos_token"}
HARMLESS = set(  # keys of tokenizer_config.json of which no value changes a token or a text of ours
    "model_max_length max_len padding_side truncation_side padding truncation max_length stride "
    "truncation_strategy pad_to_multiple_of pad_token_type_id model_input_names chat_template "
    "tokenizer_class processor_class name_or_path special_tokens_map_file tokenizer_file auto_map "
    "legacy legacy_behaviour sp_model_kwargs use_default_system_prompt use_fast from_slow backend "
    "clean_up_tokenization_spaces errors split_special_tokens spaces_between_special_tokens "
    "trim_offsets is_local local_files_only trust_remote_code transformers_version device_map "
    "never_split source_lang target_lang separate_vocabs response_schema return_token_type_ids "
    "tokenizer_type vocab_size model_type add_dummy_prefix_space do_basic_tokenize".split()
)


def byte_level(
    vocabulary: dict[str, int],  # piece -> its number
    merges: list[tuple[str, str]],  # in the order learned
    add_prefix_space: bool = False,  # before a text that begins with none
) -> Tokenizer:
    "A tokenizer of the library for pieces that are made of bytes, as GPT-2's are."
    tokenizer = Tokenizer(BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer


def tokens_around(
    tokenizer: Tokenizer,
) -> tuple[list[int], list[int]]:
    """The tokens that a tokenizer of the library puts before and after every text.

    Their kinds of template differ, and several can follow each other. So we do not read them, but
    encode the letter a without and with them, and look for the first result in the second.
    """
    letter = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    if letter:
        for start in range(len(whole)):
            end = start + len(letter)
            if whole[start:end] == letter:
                return whole[:start], whole[end:]
    expected = "tokens for the letter a, with others around them"
    raise ValueError(f"tokenizer: expected {expected}, got {whole!r:.200}")


def read_tokenizer(
    folder: str | Path,
    config: dict,  # what config.json of the model holds, or {}
) -> dict:  # as tokenizer.json
    "What the files of a folder say of its tokenizer. Raises `ValueError`, naming file and reason."
    folder = Path(folder)
    settings = _optional(folder / "tokenizer_config.json")
    names = _special_names(settings) | _special_names(_optional(folder / "special_tokens_map.json"))
    entries = settings.get("added_tokens_decoder") or {}
    check_type("added_tokens_decoder", entries, dict)
    for i, entry in entries.items():
        fits = i.isdecimal() and isinstance(entry, dict) and "content" in entry
        check_that(fits, "added_tokens_decoder", "a number and its content", {i: entry})
    added = {str(entry["content"]): (int(i), entry) for i, entry in entries.items()}
    if (folder / "tokenizer.json").exists() or not _older_files(folder):
        pieces = [file.name for end in ("model", "spm") for file in folder.glob(f"*.{end}")]
        readable = (folder / "tokenizer.json").exists() or not pieces
        check_that(readable, "tokenizer", "tokenizer.json, or older files of JSON and text", pieces)
        backend = read_json("tokenizer.json", folder / "tokenizer.json")
    else:
        for content, i in _optional(folder / "added_tokens.json").items():
            added.setdefault(content, (int(i), {}))
        backend, special = _read_older(folder, config, settings)
        names |= special
    _set_steps(backend, settings)
    _add_tokens(backend, names, added)
    unknown = [key for key in settings if key not in USED | HARMLESS and key[0] != "_"]
    told = [key for key in unknown if settings[key] not in (None, False, "", [], {})]
    if told:
        said = ", ".join(f"{key} = {settings[key]!r:.40}" for key in told)
        known = "tokenizer_config.json has keys that this library doesn't know"
        warnings.warn(f"{known}: {said}", stacklevel=2)
    return backend


def _optional(file):
    "What a file of JSON holds; nothing where there is none."
    return read_json(file.name, file) if file.exists() else {}


def _text_of(token):
    "A token is its text, or an entry with flags."
    return token.get("content") if isinstance(token, dict) else token


def _special_names(settings):
    "The texts of the special tokens that a file names."
    tokens = [settings.get(key) for key in NAMED]
    for key in LISTED:
        more = settings.get(key) or []
        tokens += more.values() if isinstance(more, dict) else more
    return {text for text in map(_text_of, tokens) if isinstance(text, str)}


# ---- files before 2020


def _older_files(folder):
    "Whether there are those of GPT-2 or BERT; Marian's vocab.json lies beside SentencePiece's."
    merges = (folder / "vocab.json").exists() and not list(folder.glob("*.spm"))
    return merges or (folder / "vocab.txt").exists()


def _lines(file):
    "The lines of a text, which may begin with a BOM and end in CRLF."
    text = read_bytes(file.name, file).decode("utf-8-sig")
    return text.replace("\r\n", "\n").split("\n")


def _read_older(folder, config, settings):
    "A tokenizer as tokenizer.json has it, and the texts of its special tokens."
    if (folder / "vocab.json").exists():
        return _read_merges(folder, config, settings)
    vocabulary = {word: i for i, word in enumerate(_lines(folder / "vocab.txt")) if word}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.decoder = WordPieceDecoder()
    backend = json.loads(tokenizer.to_str())
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    lacking = {"[UNK]", "[CLS]", "[SEP]"} - vocabulary.keys()
    check_that(
        not lacking, "vocab.txt", "the tokens [UNK], [CLS] and [SEP]", sorted(vocabulary)[:5]
    )
    backend["post_processor"] = _frame(vocabulary, ["[CLS]"], ["[SEP]"])
    return backend, special


def _read_merges(folder, config, settings):
    "As GPT-2's and BART's. BART's texts stand between two tokens, others where a file says so."
    vocabulary = read_json("vocab.json", folder / "vocab.json")
    merges = []
    for number, line in enumerate(_lines(folder / "merges.txt"), 1):
        if line and not line.startswith("#version"):
            pair = tuple(line.split(" "))
            check_that(len(pair) == 2, "merges.txt", f"two pieces in line {number}", line)
            merges.append(pair)
    backend = json.loads(byte_level(vocabulary, merges).to_str())
    pieces = {*ByteLevel.alphabet(), *(a + b for a, b in merges)}
    texts = {i: text for text, i in vocabulary.items()}
    special = {}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        number = config.get(key)
        for i in number if isinstance(number, list) else [number]:
            if isinstance(i, int) and texts.get(i) not in (None, *pieces):
                special.setdefault(key, texts[i])
    ends = dict(bos_token=special.get("bos_token_id"), eos_token=special.get("eos_token_id"))
    framed = config.get("model_type") == "bart"
    around = []
    for name, text in ends.items():
        text = _text_of(settings.get(name)) or text
        wanted = (framed or settings.get(f"add_{name}")) and text in vocabulary
        around.append([text] if wanted else [])
    if around != [[], []]:
        backend["post_processor"] = _frame(vocabulary, *around)
    return backend, set(special.values())


# ---- what the files beside it change


def _numbers(backend):
    "Text of each token -> its number."
    vocabulary: Any = backend["model"]["vocab"]
    if isinstance(vocabulary, list):
        vocabulary = {piece: i for i, (piece, *_) in enumerate(vocabulary)}
    added = {token["content"]: token["id"] for token in backend.get("added_tokens") or []}
    return {**vocabulary, **added}


def _add_tokens(backend, names, added):
    """Enter the special tokens, and those beyond the vocabulary. A name without a token is none.

    A single character is none either, because texts have it: some files name `!` as padding.
    """
    numbers = _numbers(backend)
    listed = {token["content"]: token for token in backend.get("added_tokens") or []}
    for text, (i, _) in sorted(added.items(), key=lambda item: item[1][0]):
        number = numbers.setdefault(text, i)
        check_that(number == i, "added_tokens", f"{number} for {text!r}, its number", i)
    for text in {**added, **dict.fromkeys(sorted(names))}:
        if text not in numbers or (text not in listed and len(text) == 1):
            continue
        _, entry = added.get(text, (None, {}))
        token = listed.get(text)
        if token is None:
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            flags |= {flag: bool(entry[flag]) for flag in flags if flag in entry}
            token = {"id": numbers[text], "content": text, **flags, "special": False}
            listed[text] = token
        if text in names or entry.get("special"):
            token["special"] = True
    backend["added_tokens"] = sorted(listed.values(), key=lambda token: token["id"])


def _steps(backend, part):
    "The steps of a part of a tokenizer, those within others among them."
    steps = [backend.get(part) or {}]
    for step in steps:  # which grows while it is read
        for inner in ("normalizers", "pretokenizers"):
            steps += step.get(inner, ())
    return steps


def _set_steps(backend, settings):
    "What a tokenizer_config.json says of the steps before the pieces."
    for key, (kind, setting) in STEPS.items():
        if settings.get(key) is None:
            continue
        check_type(key, settings[key], bool)
        for step in _steps(backend, "normalizer") + _steps(backend, "pre_tokenizer"):
            if step.get("type") == kind:
                step[setting] = settings[key]
    basic = settings.get("do_basic_tokenize", True)
    check_that(basic is not False, "do_basic_tokenize", "True", basic)


def _frame(numbers: dict, before: Iterable[str], after: Iterable[str]) -> dict:
    "A step that puts special tokens before and after each text."
    single: list[dict] = [{"Sequence": {"id": "A", "type_id": 0}}]
    single[:0] = [{"SpecialToken": {"id": text, "type_id": 0}} for text in before]
    single += [{"SpecialToken": {"id": text, "type_id": 0}} for text in after]
    special = {}
    for text in [*before, *after]:
        special[text] = {"id": text, "ids": [numbers[text]], "tokens": [text]}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return dict(type="TemplateProcessing", single=single, pair=pair, special_tokens=special)
