"""The files of a tokenizer, as Hugging Face's programs of all years write them, read into one.

Since 2020 `tokenizer.json` has all that the library `tokenizers` needs. Older folders have
`vocab.json` and `merges.txt`, as GPT-2's, or `vocab.txt`, as BERT's. Beside them may lie
`tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json`. They say which tokens
are special, and how a text of an older folder is prepared. What we read is one `tokenizer.json`.

Which tokens are special in a folder without any of these? Those that `config.json` names by their
number, unless they are pieces that texts are made of: many files name token 0 as padding where 0
is an exclamation mark.
"""

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.implementations import BertWordPieceTokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing

from ..base.files import read_json
from ..base.guards import check_that

__all__ = ["byte_level", "tokens_around", "read_tokenizer"]

NAMED = [f"{word}_token" for word in "bos eos pad unk sep cls mask".split()]
LISTED = ("additional_special_tokens", "extra_special_tokens")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")  # of a token in a file
BERT = {  # key of tokenizer_config.json -> what the library calls it
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


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
    "What the files of a folder say of its tokenizer. Raises `ValueError` where there are none."
    folder = Path(folder)
    settings = _optional(folder / "tokenizer_config.json")
    names = _special_names(settings) | _special_names(_optional(folder / "special_tokens_map.json"))
    pieces = [file.name for end in ("model", "spm") for file in folder.glob(f"*.{end}")]
    file = folder / "tokenizer.json"
    older = not file.exists()
    if older and (folder / "vocab.json").exists() and not pieces:  # Marian has both
        tokenizer, special = _read_merges(folder, config, settings)
        names |= special
    elif older and (folder / "vocab.txt").exists():
        given = {BERT[key]: value for key, value in settings.items() if key in BERT}
        vocabulary = WordPiece.read_file(str(folder / "vocab.txt"))
        tokenizer = BertWordPieceTokenizer(vocabulary, **given)
    else:
        fits = file.exists() or not pieces
        check_that(fits, "tokenizer", "tokenizer.json, or older files of JSON and text", pieces)
        tokenizer = Tokenizer.from_str(json.dumps(read_json(file.name, file)))
    _add_tokens(tokenizer, folder, settings)
    known = [text for text in sorted(names) if tokenizer.token_to_id(text) is not None]
    tokenizer.add_special_tokens([text for text in known if len(text) > 1])
    return json.loads(tokenizer.to_str())


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


def _read_merges(folder, config, settings):
    "As GPT-2's and BART's. BART's texts stand between two tokens, others where a file says so."
    files = [str(folder / name) for name in ("vocab.json", "merges.txt")]
    vocabulary, merges = BPE.read_file(*files)
    tokenizer = byte_level(vocabulary, merges, bool(settings.get("add_prefix_space")))
    pieces = {*ByteLevel.alphabet(), *(a + b for a, b in merges)}
    special = {}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        number = config.get(key)
        for i in number if isinstance(number, list) else [number]:
            text = tokenizer.id_to_token(i) if isinstance(i, int) else None
            if text not in (None, *pieces):
                special.setdefault(key, text)
    around = []
    for name in ("bos_token", "eos_token"):
        text = _text_of(settings.get(name)) or special.get(f"{name}_id")
        framed = config.get("model_type") == "bart" or settings.get(f"add_{name}")
        around.append([text] if framed and text in vocabulary else [])
    before, after = around
    if before or after:
        tokenizer.post_processor = TemplateProcessing(
            single=[*before, "$A", *after],
            special_tokens=[(text, vocabulary[text]) for text in {*before, *after}],
        )
    return tokenizer, set(special.values())


def _add_tokens(tokenizer, folder, settings):
    """Enter the tokens that files beside the vocabulary list, by their numbers.

    A single character of the vocabulary is none, because texts have it: some files name `!` as
    padding.
    """
    entries = {i: {"content": text} for text, i in _optional(folder / "added_tokens.json").items()}
    entries |= {int(i): e for i, e in (settings.get("added_tokens_decoder") or {}).items()}
    for i, entry in sorted(entries.items()):
        text = entry["content"]
        flags = {flag: entry[flag] for flag in FLAGS if flag in entry}
        if len(text) > 1 or tokenizer.token_to_id(text) is None:
            tokenizer.add_tokens([AddedToken(text, **{"normalized": False, **flags})])
        number = tokenizer.token_to_id(text)
        check_that(number == i, "added_tokens", f"{number} for {text!r}, its number", i)
