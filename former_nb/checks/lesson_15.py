"""Judges of the exercises on the page 15_subwords, and the mistakes that they know."""

from collections import Counter
from itertools import pairwise

from ..base.exercises import diagnose, diagnose_formula, edited, exercise, unnamed
from ..data.subwords import merge


def _from_the_right(row, pair):
    "The same merge, begun at the end."
    return [p[::-1] for p in merge([p[::-1] for p in row[::-1]], (pair[1][::-1], pair[0][::-1]))][
        ::-1
    ]


@exercise(
    "15.1",
    "Build a new list. Before you add a piece, look at the last one in it.",
    "`if out and (out[-1], piece) == pair: out[-1] += piece`, else append.",
)
def judge_15_1(answer):
    "A function of a row and a pair that returns a new row."
    cases = [
        ("h e n h e".split(), ("h", "e")),
        ("a a a".split(), ("a", "a")),
        ("o t he r".split(), ("t", "he")),
        ("a b a".split(), ("b", "a")),
        ("t h e".split(), ("e", "r")),
        ("e h a".split(), ("h", "e")),
        ("a a a a".split(), ("a", "a")),
        ("t ah e".split(), ("h", "e")),
        ("h er h e".split(), ("h", "e")),
        ("a bc ab c".split(), ("ab", "c")),
    ]
    wrong = []  # row, pair, what came and what is right
    for row, pair in cases:
        before = list(row)
        try:
            given = answer(before, pair)
        except Exception:
            if not wrong:
                raise
            break
        if before != row:
            return "your function changes the row that it is given; build a new list"
        if given != merge(row, pair):
            wrong.append((row, pair, given))
    if not wrong:
        return None
    row, pair, given = wrong[0]
    if not isinstance(given, list) or not all(isinstance(piece, str) for piece in given):
        if isinstance(given, list) and any(piece == pair for piece in given):
            return "the pair itself was added; `a + b` makes one piece of the two strings"
        return unnamed(f"expected a list of strings, got {given!r:.60}")
    for said, mistake in _MERGED_WRONGLY.items():
        if all(came == mistake(row, pair) for row, pair, came in wrong):
            return said
    if "".join(given) != "".join(row):
        return unnamed(f"your pieces spell {''.join(given)!r} instead of {''.join(row)!r}")
    return unnamed(f"for {row} and {pair} expected {merge(row, pair)}, got {given}")


def _unskipped(row, pair):
    "Each pair merged, and its second piece there once more."
    pieces = [a + b if (a, b) == pair else a for a, b in pairwise(row)]
    return pieces + row[-1:]


def _added(row, pair):
    "The merged piece behind the first of the pair, and nothing taken away."
    pieces = []
    for a, b in pairwise(row):
        pieces += [a, a + b] if (a, b) == pair else [a]
    return pieces + row[-1:]


def _once(row, pair):
    "Only the first pair merged."
    i = next((i for i in range(len(row) - 1) if (row[i], row[i + 1]) == pair), None)
    return row if i is None else [*row[:i], "".join(pair), *row[i + 2 :]]


_MERGED_WRONGLY = {  # what is said, and what comes of a row and a pair, wherever it isn't right
    "a piece that only ends or begins like one of the pair was joined, too; compare whole "
    "pieces, not text": lambda row, pair: (
        " ".join(row).replace(" ".join(pair), "".join(pair)).split()
    ),
    "go from the left: a a a becomes aa a": _from_the_right,
    "merge wherever the pair is, not only the first time": _once,
    "the row came back as it was": lambda row, pair: row,
    "the order counts: *h e* is the pair, and *e h* is another": lambda row, pair: merge(
        row, pair[::-1]
    ),
    "go through the row once: what was just merged is not merged again": lambda row, pair: merge(
        merge(row, pair), (pair[0] + pair[1],) * 2
    ),
    "the last piece is lost; it has no neighbour to its right, and it stays": (
        lambda row, pair: merge(row, pair)[:-1]
    ),
    "the second of a pair stays beside the merged piece; skip it": _unskipped,
    "the second of a pair stays beside it, and the last piece is lost": lambda row, pair: (
        _unskipped(row, pair)[:-1]
    ),
    "the merged piece was added, and its two pieces stayed": _added,
    "the merged pieces were left out; they take the place of the pair": lambda row, pair: [
        piece for piece in merge(row, pair) if piece != "".join(pair)
    ],
    "the pair was merged, and the rest of the row is lost": lambda row, pair: ["".join(pair)],
}


_PIECES = "those are pieces; each merge is a pair, a tuple of its two pieces"


def find_merges(words, n_merges):
    "Byte pair encoding of letters: pairs, in the order merged."
    rows = [list(word) for word in words]
    merges = []
    while len(merges) < n_merges:
        pairs = Counter(pair for row in rows for pair in pairwise(row))
        frequent = {pair: n for pair, n in pairs.items() if n > 1}
        if not frequent:
            break
        best = max(frequent, key=frequent.get)
        merges.append(best)
        rows = [merge(row, best) for row in rows]
    return merges


_BPE_MISTAKES = edited(
    find_merges,
    {
        "pairs = Counter( -> pairs = pairs if merges else Counter(; "
        "merges.append(best) -> merges.append(best)\n        del pairs[best]": "the pairs were "
        "counted once; count again after each merge, with the new piece",
        " if n > 1 -> ": "pairs that occur once were merged, too; stop where no pair occurs twice",
        "max( -> min(": "that merges the rarest pair; take the one that occurs most",
        "in words -> in [''.join(words)]": "a pair joins the end of a word and the beginning of "
        "the next; count word by word",
        "pairwise(row) -> set(pairwise(row))": "a word that has a pair twice counts twice",
        "in words -> in dict.fromkeys(words)": "each word was counted once; a word that is there "
        "three times counts three times",
        "return merges -> return rows": "those are the words, cut into pieces; return the merges",
        "rows = [merge(row, best) for row in rows] -> continue": "the same pair comes again; the "
        "rows have to be merged before you count again",
        "< n_merges -> < min(n_merges, 1)": "that is one merge; repeat it, up to `n_merges` times",
        "< n_merges -> < n_merges + 1": "that is one merge too many; `n_merges` is the most that "
        "you may make",
        "return merges -> return merges[::-1]": "the merges are in reverse; the first one that "
        "you made comes first",
        "return merges -> return [''.join(pair) for pair in merges]": _PIECES,
    },
)


def _is_bpe(words, n_merges, merges):
    "Is each pair among the most frequent ones when it is merged, and none left out?"
    rows = [list(word) for word in words]
    for pair in merges:
        pairs = Counter()
        for row in rows:
            pairs.update(pairwise(row))
        if pairs[pair] < 2 or pairs[pair] < max(pairs.values()):
            return False
        rows = [merge(row, pair) for row in rows]
    left = Counter()
    for row in rows:
        left.update(pairwise(row))
    finished = max(left.values(), default=0) < 2
    return len(merges) == n_merges or (len(merges) < n_merges and finished)


@exercise(
    "15.2",
    "Keep a row of pieces for each word. A `while` loop counts the pairs of all rows, merges one "
    "pair in all rows, and notes it.",
    "`pairs.most_common(1)[0]` is the most frequent pair and its count, if there is a pair.",
    "rows = [merge(row, pair) for row in rows], and then count again, from nothing.",
)
def judge_15_2(
    answer,  # my_bpe(words, n_merges) -> list of pairs
) -> str | None:  # None if right, else what it looks like
    "Judge the merges of a few words. Of equally frequent pairs, any may come first."
    cases = [
        (["the", "there", "other", "mother", "hen"], 9),
        (["banana", "bandana", "cabana", "an"], 3),
        (["low", "lower", "lowest", "newest", "widest"], 2),
        (["abc", "bcd"], 5),
        (["abab", "cd", "cd", "cd"], 2),
        (["ta", "ta", "ta"], 3),
        (["a", "b"], 3),
    ]
    for words, n_merges in cases:
        given = answer(list(words), n_merges)
        if given is None or given is ...:
            return "your function returned nothing; end it with `return` and the list of pairs"
        if isinstance(given, (set, dict)):
            return f"expected a list of pairs, got {type(given).__name__}; merges have an order"
        if isinstance(given, tuple) and all(isinstance(piece, str) for piece in given):
            return "that is one pair; return a list of them, in the order in which you merged"
        if not isinstance(given, list):
            return f"expected a list of pairs, got {type(given).__name__}"
        pairs = [tuple(pair) if isinstance(pair, list) else pair for pair in given]
        right = find_merges(words, n_merges)
        for sentence, mistake in _BPE_MISTAKES.items():
            if mistake(words, n_merges) in (given, pairs) and pairs != right:
                are_pairs = all(isinstance(pair, tuple) for pair in pairs)
                if not are_pairs or not _is_bpe(words, n_merges, pairs):
                    return sentence
        if any(
            isinstance(pair, tuple)
            and len(pair) == 2
            and (isinstance(pair[0], tuple) or isinstance(pair[1], int))
            for pair in pairs
        ):
            return "the counts came along; `most_common(1)[0][0]` is the pair alone"
        pieces = [piece for pair in pairs if isinstance(pair, tuple) for piece in pair]
        are_strings = all(isinstance(piece, str) for piece in pieces)
        if are_strings and any(" " in piece for piece in pieces):
            return "a space was counted as a letter; count word by word, without joining them"
        if pairs and all(isinstance(pair, str) for pair in pairs):
            return _PIECES
        are_pairs = all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs)
        if not are_pairs or not are_strings:
            return "expected pairs, tuples of two strings"
        if not _is_bpe(words, n_merges, pairs):
            if len(pairs) > n_merges and _is_bpe(words, len(pairs), pairs):
                return "`n_merges` is the most that you may make; yours goes on"
            if pairs == right[:-1] or (
                pairs and len(pairs) < len(right) and _is_bpe(words, len(pairs), pairs)
            ):
                return (
                    "merges are missing at the end: make `n_merges`, and stop early only if no "
                    "pair occurs twice"
                )
            if pairs and not _is_bpe(words, 1, pairs[:1]):
                return "your first pair isn't the most frequent one; `max` of the counts finds it"
            if pairs and len(pairs) <= len(right):
                return (
                    "the counts of the letters were kept; count the new rows from nothing, after "
                    "all of them are merged"
                )
            return unnamed(f"for {words} and {n_merges} merges expected {right}, got {pairs}")
    return None


@exercise(
    "15.3",
    "Count the pairs of neighbours. Which one is in all five words?",
    "A merge shortens the words by one token wherever its pair is.",
    "The vocabulary is what was there before the first merge, and one piece "
    "for each merge. What was there before?",
)
def judge_15_3(answer):
    "Two numbers: tokens of the five words, and vocab_size."
    problem = diagnose(
        answer,
        [13, 263],
        {"the two numbers are in the other order: tokens first": [263, 13]},
    )
    if problem is None or not problem.startswith("the numbers differ"):
        return problem
    tokens = {
        "a merge saves one token wherever its pair is, not one in all": 22,
        "that is after one merge": 20,
        "that is after two merges": 16,
        "the third merge is another: *ing* and *s* meet three times, *t* and *h* twice": 14,
        "that is after four merges": 11,
        "there is no `<eos>` in it; the texts alone are counted": 18,
        "there are no special tokens in it, <bos> or <eos>; the texts alone are counted": 23,
        "that is how many different letters there are": 8,
        "*sang* and *s* and *r* keep their pieces: a merge shortens a word by one": 10,
        "that is how many letters there are; the merges make them fewer": 25,
        "count the letters again, and take one off for each pair that a merge joins": 24,
        "that is how many tokens the merges save": 12,
    }
    size = {
        "the four special tokens count too": 259,
        "the 256 bytes are in the vocabulary, also those that the words do not use": 7,
        "a byte-level tokenizer knows all 256 bytes, not only the letters of its words": 15,
        "all 256 bytes are known, and the four special tokens count too": 11,
        "that is without the merges": 260,
        "those are the bytes alone; merges and special tokens count too": 256,
        "three merges make three pieces, not two": 262,
        "three merges make three pieces, not four": 264,
        "the four special tokens count once": 267,
        "there are four special tokens, and three merges": 265,
        "a byte-level tokenizer knows all 256 bytes, not only the letters; and the special tokens "
        "are four": 12,
        "a merge takes no piece away: its halves stay in the vocabulary": 257,
    }
    for name, given, right, mistakes in (
        ("tokens", answer[0], 13, tokens),
        ("vocab_size", answer[1], 263, size),
    ):
        if said := diagnose(given, right, mistakes):
            return f"{name}: {said}"


@exercise(
    "15.4",
    "What is the sum of the losses over all tokens, and what does it say about the whole text?",
    "The sum is -ln p(text). Divide it by what does not depend on the tokenizer.",
    "One bit is ln 2 nats.",
)
def judge_15_4(answer):
    "A function of a loss in nats per token, and of two counts, that returns bits per character."
    cases = [(2.0, 310, 1000), (1.3, 1500, 1200)]
    return diagnose_formula(
        answer,
        "loss, t, c",
        cases,
        "loss * t / c / log(2)",
        {
            "loss * t / c": "those are nats; a bit is ln 2 nats",
            "loss * t / c * log(2)": "a bit is ln 2 nats, so divide by ln 2",
            "loss / log(2)": "that is per token still",
            "loss * c / t / log(2)": "you multiplied by characters per token; the loss of one "
            "token is spread over its characters",
            "loss * c / t": "you multiplied by characters per token, and nats are no bits",
            "loss / c / log(2)": "the loss is a mean over tokens; the whole text has n_tokens "
            "times as much",
            "loss * t / log2(c)": "the number of characters is no logarithm; ln 2 turns nats into "
            "bits",
            "2**loss * t / c": "the loss is a logarithm, and a power of it is a perplexity; "
            "divide by ln 2",
            "log2(loss * t / c)": "you took the logarithm of a loss, which is a logarithm already",
            "loss": "the loss itself came back; it is in nats, and per token",
            "log2(loss) * t / c": "the loss is a logarithm already; divide it by ln 2 instead of "
            "taking log2",
            "loss * t / c / log10(2)": "a bit is ln 2 nats, with the natural logarithm; yours is "
            "to base 10",
            "loss * t / c / 2": "a bit is ln 2 nats, not 2",
            "loss * t * log(2)": "that is for the whole text, and multiplied by ln 2; divide by "
            "both",
            "exp(loss) * t / c": "that is the perplexity of a token; the loss itself is spread "
            "over characters",
            "loss * t / c / log(2) / 8": "bits were asked for, not bytes; there is no 8 in it",
            "loss * c / t * log(2)": "tokens and characters are exchanged, and a bit is ln 2 nats",
            "c / (loss * t) * log(2)": "those are characters per bit; turn it round",
            "2 ** (loss * t / c)": "that is 2 to the power of it; bits are the exponent",
            "loss * t / log(2)": "that is for the whole text; divide by its characters",
            "exp(loss * t / c)": "that is the perplexity per character; its logarithm to base 2 "
            "is asked for",
        },
    )
