"""German names, reviews, number words and questions: small data for lessons, commands and tests.

Nothing is downloaded, and every machine gets the same rows.
"""

import itertools
import random
import string
from collections.abc import Callable

from ..base.guards import check_choice, check_int, check_ints, check_that
from .text import IGNORE, collate

__all__ = [
    "GERMAN_NAMES",
    "small_reviews",
    "german_number",
    "english_number",
    "number_pairs",
    "SEPARATOR",
    "toy_texts",
    "collate_answers",
]


# fmt: off
# German given names, for a model that knows the Lithuanian ones: none of them is in that list, and
# none has a letter that Lithuanian names lack, so *Walter* is not here
GERMAN_NAMES = """
achim adalbert adam adele adelheid adolf adrian agathe agnes albert albin albrecht alfons alfred
alice alois alrun amalie amelie anastasia andrea andreas angelika anja anke anna annabel anne
annegret annelie anneliese annemarie annett annette annika anselm ansgar anton antonia antonie arian
ariane armin arno arnold arnulf arthur astrid august auguste aurelia babette balthasar bastian beat
beate benedikt benjamin benno bernadette bernd bernhard bert berthold bettina bianca birgit birte
bodo boris brigitte britta brunhilde bruno burkhard camilla carina carl carla carmen carola caroline
carsten cecilia charlotte christa christel christian christiane christina christine christof
christoph clara claudia clemens constanze cordula corinna cornelia cornelius dagmar dagobert daniel
david denise dennis detlef dieter dietlinde dietmar dietrich dirk dominik doris dorothea dorothee
eberhard eckart eckhard edelgard edeltraud edgar edith edmund eduard egbert egon ehrenfried eleonore
elfriede elisa elisabeth elise elke ella elli elmar elsa elsbeth else elvira emil emilia emma
engelbert erhard erich erik ernst esther eugen eugenie evelyn fabian felicitas ferdinand finn
florentine florian frank franka franz franziska frauke frieda friedemann friederike friedhelm
friedrich fritz gabriel gabriele gebhard georg gerald gerd gerhard gerlinde gernot gero gert
gertraud gertrud gisbert gisela gislinde gitta gottfried gotthard gotthilf gottlieb gregor gretchen
grete gudrun guido gunther gustav hanna hannah hannelore hannes hans hansjoachim harald hardy
hartmann hartmut hasso hedda hedi heidemarie heidi heidrun heike heiko heiner heinrich heinz helene
helge hella helmut helmuth henning henri henriette herbert heribert hermann hermine herta hilde
hildebrand hildegard hilmar hinrich holger horst hubert hugo ilka ilse immanuel ines inge ingeborg
ingo ingolf ingrid ingrun irene iris irmgard irmtraud isabel isabella isolde jakob jan jasmin jenny
jens joachim jochen johann johanna johannes jonathan josef josefine jost judith julia julian juliane
justus jutta kai karin karl karlheinz karoline karsten kaspar katharina kathrin katja katrin kerstin
kilian klaus knut konrad konstantin konstanze korbinian kordula kornelia kristian kunigunde kurt
lambert lara lea leni lennart leo leon leonhard leonie leonore leopold levin liane lieselotte linus
lisa lisbeth liselotte lore lorenz lothar lotte ludger luis luisa luise lutz lydia maike malte
manfred manuel marc marcel marco marcus mareike margarete margit margot margret margrit maria
marianne marie marika mario marion mark markus marlene marlies marlis martha martin martina mathias
mathilde matthias matthis mechthild meike meinhard meinolf melanie melchior merle mia michael
michaela miriam mirjam mirko moritz nadine nadja natalie nathalie nele nepomuk nicola nicolas nicole
niels niklas nikolaus nils norbert norman oda odilo olaf ole oliver olivia ortrud ortrun oskar
osvald otmar ottilie otto pascal patricia patrick patrik paul pauline peer peter philip philipp
philippa pia rafael raimund rainer ralf ralph raphael rebecca regine reimar reimund reiner reinhard
reinhild reinhold renate rene ricarda richard robert robin roderich roland rolf roman romy ronald
rosalinde rosemarie rosi rosina rudi rudolf rupert ruprecht ruth sabine samuel sarah sascha
sebastian severin sibylle siegbert siegfried sieglinde siegmund siegrid siegrun sigmund sigrid
sigrun silke silvia simon simone sina sofia sofie sonja sophia sophie stefan stefanie steffen steffi
stella stephan stephanie susanna susanne svantje sven svenja sylvia tanja thea thekla theo theodor
theresa therese thilo thomas thorben thorsten tilman tim timo tobias tom torben torsten traudl
traugott trude udo ulf uli ulla ulrich ulrike ursel ursula urte uschi uta ute valentin valerie
vanessa viktor viktoria vincent vitus volker volkmar yannick yvette yvonne
""".split()
# fmt: on


_THINGS = ["the film", "the plot", "this story", "her acting", "the ending", "that music"]
_THINGS += ["the first half", "the camera work"]
_AFFIRM = ["was", "is", "is certainly"]
_DENY = ["was not", "is never", "was anything but"]
_GOOD = "good great moving clever funny beautiful".split()
_BAD = "bad boring awful dull clumsy weak".split()
_FRAMES = ["{}.", "i must say {}.", "{}, my friends told me.", "we all felt that {}."]


def _label(verb, word):
    "1 for praise: a good word affirmed, or a bad one denied."
    return int((verb in _AFFIRM) == (word in _GOOD))


def _frame(clauses, label):
    "Each clause in each frame, as a film has several reviews."
    return [(frame.format(clause), label) for clause in clauses for frame in _FRAMES]


def small_reviews() -> dict[str, list[tuple[str, int]]]:  # 'train', 'test': text, label (1 = good)
    """Generated sentences, sorted by label, four in a row with the same clause; none in two parts.

    The label of a sentence follows from its words. *Good* stands in both kinds, because *not* turns
    it round. Of *was good*, *was not good*, *was bad* and *was not bad*, no sum over words gets all
    four right, and so a model has to attend.
    """
    parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    for label in (0, 1):
        clauses = [
            f"{thing} {verb} {word}"
            for thing, verb, word in itertools.product(_THINGS, _AFFIRM + _DENY, _GOOD + _BAD)
            if _label(verb, word) == label
        ]
        random.Random(label).shuffle(clauses)
        cut = len(clauses) * 4 // 5
        parts["train"] += _frame(clauses[:cut], label)
        parts["test"] += _frame(clauses[cut:], label)
    return parts


_GERMAN_ONES = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn
vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
_GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_ENGLISH_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen""".split()
_ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def _check_number(n):
    "Raise unless `n` is a whole number that there are words for."
    check_int("n", n, 0)
    check_that(n <= 999_999, "n", "0 to 999,999", n)


def _german(n, end):
    "`end`: is this the end of the number? Only there one is eins."
    if n < 20:
        return "eins" if n == 1 and end else _GERMAN_ONES[n]
    if n < 100:
        tens = _GERMAN_TENS[n // 10]
        return f"{_GERMAN_ONES[n % 10]}und{tens}" if n % 10 else tens
    unit, word = (100, "hundert") if n < 1000 else (1000, "tausend")
    rest = _german(n % unit, end) if n % unit else ""
    return _german(n // unit, False) + word + rest


def _english(n):
    "The words of `n`, with hyphens and *and*."
    if n < 20:
        return _ENGLISH_ONES[n]
    if n < 100:
        tens = _ENGLISH_TENS[n // 10]
        return f"{tens}-{_ENGLISH_ONES[n % 10]}" if n % 10 else tens
    unit, word = (100, "hundred") if n < 1000 else (1000, "thousand")
    whole = f"{_english(n // unit)} {word}"
    if n % unit == 0:
        return whole
    link = "and " if n % unit < 100 else ""
    return f"{whole} {link}{_english(n % unit)}"


def german_number(
    n: int,  # 0 to 999,999
) -> str:
    """`n` in German words, the ones before the tens, written as one: 21 is einundzwanzig.

    So the order changes in translation, and no word can be looked up.
    """
    _check_number(n)
    return _german(n, True)


def english_number(
    n: int,  # 0 to 999,999
) -> str:
    "`n` in English words: 21 is twenty-one, 305 is three hundred and five."
    _check_number(n)
    return _english(n)


def _spell(numbers):
    "German and English words of each number."
    return [(german_number(n), english_number(n)) for n in numbers]


def number_pairs() -> dict[str, list[tuple[str, str]]]:  # 'train', 'valid', 'test': German, English
    "Numbers below a million, all below a hundred in 'train'; no number is in two parts."
    drawn = random.Random(0).sample(range(100, 1_000_000), 9_900)
    return {
        "train": _spell([*range(100), *drawn[1000:]]),
        "valid": _spell(drawn[:500]),
        "test": _spell(drawn[500:1000]),
    }


TOYS = {"copy": lambda s: s, "reverse": lambda s: s[::-1], "sort": lambda s: "".join(sorted(s))}
SEPARATOR = "="  # between question and answer


def toy_texts(
    task: str,  # 'copy', 'reverse' or 'sort'
    n: int,  # how many
    symbols: int = 11,  # different letters, up to 26
    length: int = 10,  # letters per question
    seed: int = 0,
) -> list[str]:  # such as 'cab=bac', no two alike
    """Random questions with answers. Raises `ValueError` unless `2 * n` different questions exist.

    A question is a row of letters, and the answer is the same letters copied, reversed or sorted.
    An answer is right or wrong, and it cannot be found without looking at other positions.
    """
    check_choice("task", task, TOYS)
    check_ints(n=n, symbols=symbols, length=length)
    fits = symbols <= 26 and length <= 1000 and symbols**length >= 2 * n
    expected = f"up to 26, up to 1,000, and {2 * n:,} different questions or more"
    check_that(fits, "symbols, length", expected, (symbols, length))
    rng = random.Random(f"{task} {seed}")
    letters = string.ascii_lowercase[:symbols]
    texts: dict[str, str] = {}  # by question, so that no two are alike
    while len(texts) < n:
        question = "".join(rng.choices(letters, k=length))
        texts[question] = f"{question}{SEPARATOR}{TOYS[task](question)}"
    return list(texts.values())


def collate_answers(
    separator: int,  # the token after which the answer begins
) -> Callable:  # a function as `collate`
    "A `collate` that leaves the questions, which are random, out of the targets."
    check_int("separator", separator, 0)

    def collate_some(rows):
        inputs, targets = collate(rows)  # (B, T)
        asking = (inputs == separator).cumsum(-1) == 0  # (B, T), before the separator
        missing = int(asking.all(-1).sum())
        if missing:
            expected = f"the separator, token {separator}, in each row"
            raise ValueError(f"rows: expected {expected}, got {missing} without")
        return inputs, targets.masked_fill(asking, IGNORE)

    return collate_some
