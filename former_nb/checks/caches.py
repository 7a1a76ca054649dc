"""Judges of the exercises on the page 11_caches, and the mistakes that they know."""

from ..base.exercises import diagnose, diagnose_formula, exercise
from ..data.text import PAD


@exercise(
    "caches.1",
    "Three cases per row, in which order? Can a row be finished while its prompt goes on?",
    "`PAD if over else row[place] if place < len(row) else token`, for each "
    "row, its token and whether it is over.",
)
def judge_caches_1(answer):
    prompts, drawn = [[1, 5], [1, 6, 7, 8], [1, 9, 4], [1, 10], [1, 11, 12]], [20, 21, 22, 23, 24]
    for place, done in (
        (2, [False] * 5),
        (3, [True, False, False, False, True]),
        (4, [False, False, True, True, False]),
    ):
        given = [list(row) for row in prompts]
        try:
            result = answer(given, place, list(drawn), list(done))
        except IndexError:
            return (
                f"a list has no item so far on: at place {place} a shorter prompt has "
                "ended, and its row takes the drawn token"
            )
        if result is None:
            return "nothing came back; return a list with one token for each row"
        cases = list(zip(prompts, drawn, done))
        goes_on = lambda row, at: at < len(row)
        right = [
            PAD if over else row[place] if goes_on(row, place) else token
            for row, token, over in cases
        ]
        problem = diagnose(
            result,
            right,
            {
                "a row whose prompt goes on takes the prompt's token, not the drawn one": [
                    PAD if over else token for _, token, over in cases
                ],
                "a finished row gets PAD": [
                    row[place] if goes_on(row, place) else token for row, token, _ in cases
                ],
                "places count from 0: the first drawn token of a prompt of 3 stands at place 3": [
                    PAD if over else row[min(place, len(row) - 1)] if place <= len(row) else token
                    for row, token, over in cases
                ],
                "place - 1 is the place before": [
                    PAD if over else row[place - 1] if goes_on(row, place - 1) else token
                    for row, token, over in cases
                ],
                "you padded where the prompt has ended; there the drawn token belongs": [
                    PAD if over or not goes_on(row, place) else row[place] for row, _, over in cases
                ],
            },
        )
        if problem:
            return problem
        if given != prompts:
            return "the answer is right, but you changed the prompts you were given"


@exercise(
    "caches.2",
    "How many numbers does one token of one text leave in one layer? Which heads have keys?",
    "A key and a value for each of n_kv_heads heads, each d_model / n_heads wide: 2 "
    "· n_kv_heads · d_model / n_heads numbers.",
)
def judge_caches_2(answer):
    return diagnose_formula(
        answer,
        "budget, B, layers, heads, kv, d, size",
        [
            (300_000, 7, 5, 18, 3, 90, 4),
            (2**24, 16, 12, 12, 12, 768, 2),
            (9_999, 1, 2, 6, 3, 48, 2),
        ],
        "budget // (2 * B * layers * kv * (d // heads) * size)",
        {
            "budget // (B * layers * kv * (d // heads) * size)": "keys and values: two of each",
            "budget // (2 * B * layers * d * size)": "only n_kv_heads heads have keys and values; "
            "the query heads share them",
            "budget // (2 * B * layers * kv * d * size)": "a head is d_model / n_heads wide",
            "budget // (2 * B * layers * (d // heads) * size)": "you divided by n_heads, but did "
            "not count the heads that have keys",
            "budget // (2 * B * kv * (d // heads) * size)": "every layer keeps its own",
            "budget // (2 * layers * kv * (d // heads) * size)": "this is for one text; B are "
            "written at once",
            "budget // (2 * B * layers * kv * (d // heads))": "the budget is in bytes; a number "
            "takes `size` of them",
            "budget / (2 * B * layers * kv * (d // heads) * size)": "half a token has no place: "
            "round down to a whole number",
            "-(-budget // (2 * B * layers * kv * (d // heads) * size))": "round down: one more "
            "does not fit",
        },
    )
