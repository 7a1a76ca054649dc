"The exercises of the deep dive on caches; what a token costs has a module of its own."

from ..data.text import PAD
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("caches.1")
def next_column(prompts, place, drawn, done):
    # ? Three cases per row, in which order? Can a row be finished while its prompt goes on?
    # ? `PAD if over else row[place] if place < len(row) else token`, for each row, its token and
    # ? whether it is over.
    return [
        PAD if over else row[place] if place < len(row) else token
        #! a list has no item so far on: a shorter prompt has ended, and its row takes the drawn token
        # ~ PAD if over else row[place]
        #! a row whose prompt goes on takes the prompt's token, not the drawn one
        # ~ PAD if over else token
        #! a finished row gets PAD
        # ~ row[place] if place < len(row) else token
        #! these are the drawn tokens; a finished row gets PAD, and one whose prompt goes on takes the
        #! prompt's token
        # ~ token
        #! places count from 0: the first drawn token of a prompt of 3 stands at place 3
        # ~ PAD if over else row[place] if place <= len(row) else token
        #! place - 1 is the place before
        # ~ PAD if over else row[place - 1] if place - 1 < len(row) else token
        #! the token at place - 1 is the one before; that at `place` is asked for
        # ~ PAD if over else row[place - 1] if place < len(row) else token
        #! you padded where the prompt has ended; there the drawn token belongs
        # ~ PAD if over else row[place] if place < len(row) else PAD
        for row, token, over in zip(prompts, drawn, done)
    ]


@exercise("caches.2")
def longest(budget, B, n_layers, n_heads, n_kv_heads, d_model, size):
    # ? How many numbers does one token of one text leave in one layer? Which heads have keys?
    # ? A key and a value for each of n_kv_heads heads, each d_model / n_heads wide: 2 · n_kv_heads ·
    # ? d_model / n_heads numbers.
    return budget // (2 * B * n_layers * n_kv_heads * (d_model // n_heads) * size)
    #! keys and values: two of each
    # ~ return budget // (B * n_layers * n_kv_heads * (d_model // n_heads) * size)
    #! only n_kv_heads heads have keys and values; the query heads share them
    # ~ return budget // (2 * B * n_layers * d_model * size)
    #! a head is d_model / n_heads wide
    # ~ return budget // (2 * B * n_layers * n_kv_heads * d_model * size)
    #! you divided by n_heads, but did not count the heads that have keys
    # ~ return budget // (2 * B * n_layers * (d_model // n_heads) * size)
    #! every layer keeps its own
    # ~ return budget // (2 * B * n_kv_heads * (d_model // n_heads) * size)
    #! this is for one text; B are written at once
    # ~ return budget // (2 * n_layers * n_kv_heads * (d_model // n_heads) * size)
    #! the budget is in bytes; a number takes `size` of them
    # ~ return budget // (2 * B * n_layers * n_kv_heads * (d_model // n_heads))
    #! half a token has no place: round down to a whole number
    # ~ return budget / (2 * B * n_layers * n_kv_heads * (d_model // n_heads) * size)
    #! round down: one more does not fit
    # ~ return -(-budget // (2 * B * n_layers * n_kv_heads * (d_model // n_heads) * size))
    #! round down, and not to the nearest: one more does not fit
    # ~ return round(budget / (2 * B * n_layers * n_kv_heads * (d_model // n_heads) * size))


# ---------------------------------------------------------------- questions


@question("caches", "caches.1")
def ask_next_column(draw):
    def call(prompts, place, done):
        drawn = [20 + i for i in range(len(prompts))]
        ends = sum(map(bool, done))
        what = f"prompts of {[*map(len, prompts)]} tokens, place {place}, {ends} finished"
        return Call(what, (prompts, place, drawn, done))

    prompts = [[1, 5], [1, 6, 7, 8], [1, 9, 4], [1, 10], [1, 11, 12]]
    yield call(prompts, 2, [False] * 5)
    yield call(prompts, 3, [True, False, False, False, True])
    yield call(prompts, 4, [False, False, True, True, False])
    yield call(prompts, 1, [False] * 5)
    yield call(prompts, 0, [False] * 5)
    yield call(prompts, 9, [True] * 5)
    yield call([[7, 8, 9]], 3, [False])
    yield call([[7, 8, 9]], 2, [False])
    yield call([[7], [8, 9]], 1, [True, False])
    for _ in range(4 * len(draw.rounds)):
        sizes = [draw.size(1, 6) for _ in range(draw.size(2, 6))]
        texts = [draw.tokens(n, low=4).tolist() for n in sizes]
        place = draw.size(1, 7)
        yield call(texts, place, [n <= place and draw.size(0, 2) == 0 for n in sizes])


@question("caches", "caches.2")
def ask_longest(draw):
    for budget, B, n_layers, n_heads, n_kv_heads, d_model, size in [
        (300_000, 7, 5, 18, 3, 90, 4),
        (2**24, 16, 12, 12, 12, 768, 2),
        (9_999, 1, 2, 6, 3, 48, 2),
        (2 * 3 * 4 * 2 * 8 * 2 * 11, 3, 4, 6, 2, 48, 2),  # 11 tokens fill it
        (2 * 3 * 4 * 2 * 8 * 2 * 11 - 1, 3, 4, 6, 2, 48, 2),
        (100, 5, 4, 6, 2, 48, 2),  # none fits
        (10**6, 1, 8, 16, 1, 256, 1),
        (777_777, 2, 3, 8, 4, 120, 4),
    ]:
        what = f"budget = {budget}, B = {B}, n_layers = {n_layers}, n_heads = {n_heads}, "
        what += f"n_kv_heads = {n_kv_heads}, d_model = {d_model}, size = {size}"
        yield Call(what, (budget, B, n_layers, n_heads, n_kv_heads, d_model, size))
