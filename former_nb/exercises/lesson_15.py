"Lesson 15: subwords."

from collections import Counter
from itertools import pairwise

from ..grading.ask import Call, question


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
