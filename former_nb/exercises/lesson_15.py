"Lesson 15: subwords."

import math
from collections import Counter
from functools import partial
from itertools import pairwise

from ..grading.ask import Call, exercise, question
from ..grading.compare import loosened


def merge(row, pair):  # a list of pieces -> a shorter one
    # ? Build a new list. Before you add a piece, look at the last one in it.
    merged = []
    for piece in row:
        if merged and (merged[-1], piece) == pair:
            #! a piece just merged was merged again, because it only ends with the first of the pair;
            #! compare whole pieces
            # ~ if merged and merged[-1].endswith(pair[0]) and piece == pair[1]:
            #! the text of both was compared, but ("a", "bc") isn't ("ab", "c"): compare the pieces
            # ~ if merged and merged[-1] + piece == pair[0] + pair[1]:
            #! the pair is (left, right); yours compares it the other way round
            # ~ if merged and (piece, merged[-1]) == pair:
            #! the first of the pair alone decides; both pieces have to be those of the pair
            # ~ if merged and merged[-1] == pair[0]:
            #! the second of the pair alone decides; both pieces have to be those of the pair
            # ~ if merged and piece == pair[1]:
            merged[-1] = merged[-1] + piece
            #! the merged piece was added, and the first of the pair stayed
            # ~ merged.append(merged[-1] + piece)
            #! the pair itself was added; `a + b` makes one piece of two strings
            # ~ merged[-1] = pair
            #! the first of the pair is lost; the new piece is both together
            # ~ merged[-1] = piece
            #! the second of the pair is lost; the new piece is both together
            # ~ pass
            #! the pieces are joined in the wrong order
            # ~ merged[-1] = piece + merged[-1]
        else:
            merged.append(piece)
    return merged
    #! a piece that only ends or begins like one of the pair was joined, too, because text was
    #! replaced; compare whole pieces
    # ~ return " ".join(row).replace(" ".join(pair), "".join(pair)).split()
    #! go from the left: a a a becomes aa a
    # ~ i, back = len(row) - 1, []
    #| while i >= 0:
    #|     both = i > 0 and (row[i - 1], row[i]) == pair
    #|     back.append(row[i - 1] + row[i] if both else row[i])
    #|     i -= 2 if both else 1
    #| return back[::-1]
    #! merge wherever the pair is, not only the first time
    # ~ at = [i for i in range(len(row) - 1) if (row[i], row[i + 1]) == pair][:1]
    #| return [*row[: at[0]], "".join(pair), *row[at[0] + 2 :]] if at else list(row)
    #! a piece that was merged is used once more; after a merge go on two pieces further
    # ~ pieces = [a + b if (a, b) == pair else a for a, b in zip(row, row[1:])]
    #| return pieces + row[-1:]
    #! a piece that was merged is used once more, as the first of the next pair; go on two pieces further
    # ~ out, used = [], False
    #| for i, piece in enumerate(row):
    #|     if i + 1 < len(row) and (piece, row[i + 1]) == pair:
    #|         out.append(piece + row[i + 1])
    #|         used = True
    #|     elif used:
    #|         used = False
    #|     else:
    #|         out.append(piece)
    #| return out
    #! the last piece is lost, because a loop over neighbours has one turn fewer than pieces
    # ~ i, out = 0, []
    #| while i < len(row) - 1:
    #|     both = (row[i], row[i + 1]) == pair
    #|     out.append(row[i] + row[i + 1] if both else row[i])
    #|     i += 2 if both else 1
    #| return out
    #! the second of a pair stays beside it, and the last piece is lost
    # ~ return [a + b if (a, b) == pair else a for a, b in zip(row, row[1:])]
    #! the row that it is given is changed; build a new list
    # ~ row[:] = merged
    #| return row
    #! a text came back; a list of pieces is asked for
    # ~ return " ".join(merged)


def train_bpe(words, n_merges):  # a Counter of words -> pairs of pieces, in the order learned
    # ? Count the pairs of all words, each as often as its word comes; merge the most frequent; again.
    # ? Of equally frequent pairs take the one whose pieces have the lowest numbers.
    rows = {word: list(word) for word in words}
    number = {letter: i for i, letter in enumerate(sorted(set("".join(words))))}
    #! letters have their numbers in the order of the alphabet; yours are numbered as they come, so the
    #! result depends on the order of the words
    # ~ number = {letter: i for i, letter in enumerate(dict.fromkeys("".join(words)))}
    merges = []
    for _ in range(n_merges):
        pairs = Counter()
        for word, row in rows.items():
            for pair in pairwise(row):
                #! a pair counts as often as a word has it, not once a word
                # ~ for pair in set(pairwise(row)):
                #! the last pair of each word is lost
                # ~ for pair in pairwise(row[:-1]):
                #! pairs don't overlap in yours; b a n has (b, a) and (a, n)
                # ~ for pair in zip(row[::2], row[1::2]):
                pairs[pair] += words[word]
                #! a word counts as often as it comes, words[word]; yours counts each word once
                # ~ pairs[pair] += 1
        if max(pairs.values(), default=0) < 2:
            #! it stops when no pair comes twice; yours goes on until no pair is left
            # ~ if not pairs:
            #! a pair that comes twice is merged; yours asks for three
            # ~ if max(pairs.values(), default=0) < 3:
            #! it stops when no pair comes twice; yours stops when only one pair is left
            # ~ if len(pairs) < 2:
            break
            #! a pair that comes once is no reason to go on, but the merges so far have to come back
            # ~ return []
        first, second = min(pairs, key=lambda p: (-pairs[p], number[p[0]], number[p[1]]))
        #! of equally frequent pairs the one with the lowest numbers is taken: letters come first, then
        #! pieces in the order in which they were learned; yours compares their text
        # ~ first, second = min(pairs, key=lambda p: (-pairs[p], p))
        #! of equally frequent pairs the one with the lowest numbers is taken; yours takes the last in the
        #! alphabet
        # ~ first, second = max(pairs, key=lambda p: (pairs[p], p))
        #! of equally frequent pairs the one with the lowest numbers is taken, so that the result doesn't
        #! depend on the order of words; yours takes the first it met
        # ~ first, second = max(pairs, key=pairs.get)
        #! of equally frequent pairs the one with the lowest numbers is taken, so that the result doesn't
        #! depend on the order of words; yours takes the last it met
        # ~ first, second = max(reversed(list(pairs)), key=pairs.get)
        #! of equally frequent pairs the one with the lowest numbers is taken; yours compares the merged
        #! text
        # ~ first, second = min(pairs, key=lambda p: (-pairs[p], p[0] + p[1]))
        #! of equally frequent pairs yours takes the one with the highest numbers; take the lowest
        # ~ first, second = max(pairs, key=lambda p: (pairs[p], number[p[0]], number[p[1]]))
        #! equally frequent pairs are told apart by the left piece first, then by the right one
        # ~ first, second = min(pairs, key=lambda p: (-pairs[p], number[p[1]], number[p[0]]))
        #! equally frequent pairs with the same left piece are told apart by the right one
        # ~ first, second = min(pairs, key=lambda p: (-pairs[p], number[p[0]]))
        #! equally frequent pairs are told apart by the left piece first, then by the right one
        # ~ first, second = min(pairs, key=lambda p: (-pairs[p], number[p[1]]))
        #! the rarest pair is merged; merge the most frequent
        # ~ first, second = min(pairs, key=lambda p: (pairs[p], number[p[0]], number[p[1]]))
        rows = {word: merge(row, (first, second)) for word, row in rows.items()}
        #! text was replaced, so pieces that only end or begin like the pair were joined, too: merge whole
        #! pieces
        # ~ rows = {w: " ".join(row).replace(f"{first} {second}", first + second).split() for w, row in rows.items()}
        #! the rows aren't merged, or the pairs are those of letters, so the same pair is found again and again
        # ~
        #! each merge begins with the letters again; merge the rows that are merged already
        # ~ rows = {word: merge(list(word), (first, second)) for word, row in rows.items()}
        merges.append((first, second))
        #! the merged text is noted; a merge is the pair
        # ~ merges.append(first + second)
        #! a merge is noted with its count; a merge is the pair alone
        # ~ merges.append(((first, second), pairs[first, second]))
        number.setdefault(first + second, len(number))
    return merges
    #! only the merges that were asked for come back: n_merges counts them, not the pieces
    # ~ return merges[: max(0, n_merges - len(set("".join(words))))]
    #! the pieces came back; the merges are asked for, in the order in which they were learned
    # ~ return list(number)
    #! the merges come back in the order in which they were learned; yours are sorted
    # ~ return sorted(merges)


# ---------------------------------------------------------------- exercises

exercise("15.1")(merge)


@exercise("15.2")
def my_bpe(words, n_merges):
    # ? Keep a row of pieces for each word. A `while` loop counts the pairs of all rows, merges one pair in all rows, and notes it.
    # ? `pairs.most_common(1)[0]` is the most frequent pair and its count, if there is a pair.
    # ? rows = [merge(row, pair) for row in rows], and then count again, from nothing.
    rows = [list(word) for word in words]
    #! a pair joins the end of a word and the beginning of the next; count word by word
    # ~ rows = [list("".join(words))]
    #! a space is counted as a letter; count word by word, without joining them
    # ~ rows = [list(" ".join(words))]
    #! each word is counted once; a word that is there three times counts three times
    # ~ rows = [list(word) for word in dict.fromkeys(words)]
    merges = []
    while len(merges) < n_merges:
        #! that is one merge; repeat it, up to `n_merges` times
        # ~ while len(merges) < min(1, n_merges):
        #! that is one merge too many; `n_merges` is the most that you may make
        # ~ while len(merges) <= n_merges:
        pairs = Counter()
        #! the counts of the letters are kept; count the new rows from nothing
        # ~ pairs = pairs if merges else Counter()
        for row in rows:
            pairs.update(pairwise(row))
            #! a word that has a pair twice counts twice
            # ~ pairs.update(set(pairwise(row)))
            #! the pairs are counted once; count again after each merge, with the new piece
            # ~3 pairs = Counter(p for word in words for p in pairwise(word) if p not in merges)
        if not pairs:
            break
        pair, n = pairs.most_common(1)[0]
        #! that merges the rarest pair; take the one that occurs most
        # ~ pair, n = pairs.most_common()[-1]
        if n < 2:
            #! pairs that occur once are merged, too; stop where no pair occurs twice
            # ~ if n < 1:
            #! a pair that occurs twice is merged, too
            # ~ if n < 3:
            break
        merges.append(pair)
        #! the counts came along; `most_common(1)[0][0]` is the pair alone
        # ~ merges.append((pair, n))
        #! those are pieces; each merge is a pair, a tuple of its two pieces
        # ~ merges.append("".join(pair))
        rows = [merge(row, pair) for row in rows]
        #! the same pair comes again; the rows have to be merged before you count again
        # ~
        #! only one row is merged; merge the pair in all of them
        # ~ rows[0] = merge(rows[0], pair)
    return merges
    #! those are the words, cut into pieces; return the merges
    # ~ return rows
    #! that is one pair; return a list of them, in the order in which you merged
    # ~ return merges[0]
    #! no merge comes back; append each pair that you merge to the list, and return it
    # ~ return []


@exercise(
    "15.3",
    parts=(
        "the number of tokens is wrong: count the letters, and for each merge, how often its pair is there when it is merged",
        "vocab_size is wrong: what did the vocabulary hold before the first merge, and what does a merge add to it?",
    ),
)
def tokens_and_size_after_three_merges():
    # ? Count the pairs of neighbours. Which one is in all five words?
    # ? A merge shortens the words by one token wherever its pair is.
    # ? The vocabulary is what was there before the first merge, and one piece for each merge. What was there before?
    return 13, 263
    #! a merge saves one token wherever its pair is, not one in all
    # ~ return 22, 263
    #! there is no `<eos>` in it; the texts alone are counted
    # ~ return 18, 263
    #! the third merge is another: *ing* and *s* meet three times, *t* and *h* twice
    # ~ return 14, 263
    #! the four special tokens count too
    # ~ return 13, 259
    #! the 256 bytes are in the vocabulary, also those that the words do not use
    # ~ return 13, 15
    #! the two numbers are in the other order: tokens first
    # ~ return 263, 13


@exercise("15.4")
def bits_per_character(loss, n_tokens, n_characters):
    # ? What is the sum of the losses over all tokens, and what does it say about the whole text?
    # ? The sum is -ln p(text). Divide it by what does not depend on the tokenizer.
    # ? One bit is ln 2 nats.
    return loss * n_tokens / n_characters / math.log(2)
    #! those are nats; a bit is ln 2 nats
    # ~ return loss * n_tokens / n_characters
    #! a bit is ln 2 nats, so divide by ln 2
    # ~ return loss * n_tokens / n_characters * math.log(2)
    #! a bit is ln 2 nats, with the natural logarithm; yours is to base 10
    # ~ return loss * n_tokens / n_characters / math.log10(2)
    #! that is per token still; spread the loss over the characters
    # ~ return loss / math.log(2)
    #! you multiply by characters per token; the loss of one token is spread over its characters
    # ~ return loss * n_characters / n_tokens / math.log(2)
    #! the loss is a mean over tokens; the whole text has n_tokens times as much
    # ~ return loss / n_characters / math.log(2)
    #! that is for the whole text; divide by its characters
    # ~ return loss * n_tokens / math.log(2)
    #! the loss is a logarithm already; divide it by ln 2 instead of taking log2
    # ~ return math.log2(loss) * n_tokens / n_characters
    #! the loss is a logarithm already; divide it by ln 2 instead of taking log2
    # ~ return math.log2(loss * n_tokens / n_characters)
    #! that is the perplexity of a token; the loss itself is spread over characters
    # ~ return math.exp(loss) * n_tokens / n_characters
    #! that is the perplexity per character; its logarithm to base 2 is asked for
    # ~ return math.exp(loss * n_tokens / n_characters)
    #! those are characters per bit; turn it round
    # ~ return n_characters / (loss * n_tokens) * math.log(2)


# ---------------------------------------------------------------- questions

ROWS = [
    ("h e n h e", "h e"),
    ("a a a", "a a"),
    ("o t he r", "t he"),
    ("a b a", "b a"),
    ("t h e", "e r"),
    ("a a a a", "a a"),
    ("a a a a a", "a a"),
    ("t ah e", "h e"),
    ("h er h e", "h e"),
    ("a bc ab c", "ab c"),
    ("", "a b"),
    ("a", "a a"),
    ("aa b a b", "a b"),
    ("a a b a", "aa b"),
    ("b aa", "b a"),
    ("a b c", "a b"),
    ("ab ab ab", "ab ab"),
]


@question("15", "15.1")
@question("15", "merge")
def ask_merge(draw):
    for row, pair in ROWS:
        yield Call(f"{row!r} and {pair!r}", (row.split(), tuple(pair.split())))
    for _ in range(15 * len(draw.rounds)):
        some = draw.random.choices(["a", "b", "ab", "aa", "ba"], k=draw.size(0, 9))
        pair = tuple(draw.random.choices(["a", "b", "ab", "aa"], k=2))
        yield Call(f"{' '.join(some)!r} and {' '.join(pair)!r}", (some, pair))


def many_words(draw, letters, most=8, longest=7):
    "Words of a few letters, and how often each comes."
    return Counter(
        {
            "".join(draw.random.choices(letters, k=draw.size(1, longest))): draw.size(1, 4)
            for _ in range(draw.size(1, most))
        }
    )


@question("15", "train_bpe")
def ask_train_bpe(draw):
    for words, n in [
        ("low low low lower lower newest newest widest", 6),
        ("ab ba ab ba", 3),
        ("aaa aaa", 2),
        ("abc", 4),
        ("", 3),
        ("bab abb abb", 0),
        ("ab ab", 5),
        ("ab ab ab", 5),
        ("xy mn ab xy mn ab", 2),
        ("a a b", 3),
        ("cab cab abc abc bca bca", 6),
    ]:
        yield Call(f"{words!r}, {n} merges", (Counter(words.split()), n))
    yield Call("many merges of two words", (Counter({"banana": 5, "ananas": 4}), 20))
    yield Call("one letter", (Counter({"a": 9, "aaaaa": 2, "aaaaaaaaa": 3}), 9))
    yield Call("letters beyond a to z", (Counter({"Zürich": 2, "zäh": 2, "Zäh": 2, "éa": 2}), 9))
    for letters, rounds in [("abc", 12), ("ab", 5), ("abcdef", 5), ("a", 1)]:
        for _ in range(rounds * len(draw.rounds)):
            words = many_words(draw, letters)
            yield Call(f"{dict(words)}", (words, draw.size(0, 12)))
    for _ in range(4 * len(draw.rounds)):  # long ones, in which a piece is learned twice
        words = many_words(draw, "abc", 5, 14)
        yield Call(f"{dict(words)}", (words, 25))


def counted(rows):
    return Counter(pair for row in rows for pair in pairwise(row))


def is_most_frequent(words, n_merges, merges):
    "Whether each merge takes one of the most frequent pairs, and none is left out."
    rows = [list(word) for word in words]
    for pair in merges:
        pairs = counted(rows)
        if pairs[pair] < 2 or pairs[pair] < max(pairs.values()):
            return False
        rows = [merge(row, pair) for row in rows]
    is_end = max(counted(rows).values(), default=0) < 2
    return len(merges) == n_merges or (len(merges) < n_merges and is_end)


def any_of_the_frequent(words, n_merges, made, args, merges):
    "Of equally frequent pairs any may be taken, so it is asked whether the merges are right."
    given = loosened(merges)
    if type(given) is not tuple or not all(type(pair) is tuple for pair in given):
        return {}
    if not all(len(pair) == 2 and {type(piece) for piece in pair} == {str} for pair in given):
        return {}
    is_right = is_most_frequent(words, n_merges, given)
    said = "each merge takes a most frequent pair, and none is left out"
    return {"": loosened(my_bpe(words, n_merges)), said: is_right}


def without_ties(rows):
    "(how many merges there are before two pairs are equally frequent, whether that is the end)"
    n = 0
    while True:
        most = counted(rows).most_common(2)
        if not most or most[0][1] < 2:
            return n, True
        if len(most) == 2 and most[0][1] == most[1][1]:
            return n, False
        rows, n = [merge(row, most[0][0]) for row in rows], n + 1


def clear_words(draw, *how):
    "Words and a number of merges in which no two pairs are equally frequent, nor in usual mistakes."
    while True:
        words = list(many_words(draw, *how).elements())
        draw.random.shuffle(words)
        n, is_end = without_ties([list(word) for word in words])
        others = [list("".join(words))], [list(word) for word in set(words)]
        if n > 1 and all(end or m >= n + 2 * is_end for m, end in map(without_ties, others)):
            return words, n + 2 * is_end


@question("15", "15.2")
def ask_my_bpe(draw):
    for words, n_merges in [
        ("ta ta ta", 3),
        ("banana bandana cabana an", 1),
        ("abab cd cd cd", 1),
        ("abc bcd", 5),
        ("a b", 3),
        ("ab cd", 3),
        ("aaaa", 3),
        ("aa aa aa a", 0),
        ("", 2),
    ]:
        yield Call(f"{words!r}, {n_merges} merges", (words.split(), n_merges))
    for how in [("abc", 6, 7), ("abcd", 6, 6), ("ab", 5, 9), ("thermo", 7, 6)]:
        for _ in range(2 * len(draw.rounds)):
            words, n_merges = clear_words(draw, *how)
            yield Call(f"{' '.join(words)!r}, {n_merges} merges", (words, n_merges))
    some = [
        ("the there other mother hen", 9),
        ("low lower lowest newest widest", 2),
        ("low lower lowest newest widest", 20),
        ("banana bandana cabana an", 3),
        ("abcabc", 4),
    ]
    for letters in ("abc", "thermo"):
        for _ in draw.rounds:
            some.append((" ".join(many_words(draw, letters, 14)), draw.size(1, 9)))
    for text, n_merges in some:  # in which many pairs are equally frequent
        words = text.split()
        look = partial(any_of_the_frequent, words, n_merges)
        yield Call(f"{text!r}, {n_merges} merges", (words, n_merges), look=look)


@question("15", "15.4")
def ask_bits_per_character(draw):
    asked = [(2.0, 310, 1000), (1.3, 1500, 1200), (0.8, 3100, 3100), (0.05, 7, 20), (9.0, 1, 1)]
    for _ in range(2 * len(draw.rounds)):
        asked.append((draw.random.uniform(0.2, 6.0), draw.size(5, 5000), draw.size(5, 9000)))
    for loss, t, c in asked:
        yield Call(f"a loss of {loss:.3g}, {t} tokens, {c} characters", (loss, t, c))
