"""Lessons 07 to 10 in a reader's file: text, training, a classifier and a generator."""

import torch
from torch import nn

from .questions import (
    D_FF,
    LONGEST,
    D,
    H,
    V,
    dropouts,
    gradients,
    made,
    see_less,
    small_blocks,
    what_counts,
)
from .steps import Mistake, edited_module, equal, same_weights, step, unchanged

# ---------------------------------------------------------------- 07 · text

WORDS = ["banana", "cab", "", "zebra"]


@step(
    "07",
    (
        '["", "", "", *sorted',
        '["", *sorted',
        "the first three numbers are padding, beginning and end, so letters begin at 3",
    ),
    (
        '*sorted(set("".join(texts)))',
        '*set("".join(texts))',
        "sort the letters, or each run of Python numbers them otherwise",
    ),
    (
        '*sorted(set("".join(texts)))',
        '*sorted("".join(texts))',
        "each letter has one number; take the set",
    ),
    (
        "[BOS, *(self.number[letter] for letter in text), EOS]",
        "[*(self.number[letter] for letter in text), EOS]",
        "a row begins with BOS",
    ),
    (
        "[BOS, *(self.number[letter] for letter in text), EOS]",
        "[BOS, *(self.number[letter] for letter in text)]",
        "a row ends with EOS",
    ),
    (
        'return "".join(self.letters[n] for n in tokens)',
        'return " ".join(self.letters[n] for n in tokens)',
        "letters are joined with nothing between",
    ),
    (
        'return "".join(self.letters[n] for n in tokens)',
        "return [self.letters[n] for n in tokens]",
        "decode returns a text",
    ),
)
def Letters(answer, right, draw):
    letters = answer(WORDS)
    yield "encode", lambda: [letters.encode(text) for text in ["cab", "", "zebra"]]
    yield "decode", lambda: letters.decode([4, 3, 5])
    yield "decode a whole row", lambda: letters.decode(letters.encode("banana"))
    yield "decode with padding", lambda: letters.decode([1, 3, 4, 2, 0, 0])
    yield (
        "letters, the first three for PAD, BOS and EOS",
        lambda: [*"012", *letters.letters[3:]],  # whatever their names are
    )


ROWS = [[1, 5, 6, 7, 2], [1, 2], [1, 9, 2]]


@step(
    "07",
    (
        "row + [PAD] * (longest - len(row))",
        "[PAD] * (longest - len(row)) + row",
        "padding comes behind the tokens",
    ),
    (
        "longest = max(len(row) for row in rows)",
        "longest = min(len(row) for row in rows)",
        "rows are filled up to the longest",
    ),
    (
        "row + [PAD] * (longest - len(row))",
        "row + [PAD] * (longest + 1 - len(row))",
        "the longest row gets no padding",
    ),
    (
        "row + [PAD] * (longest - len(row))",
        "row + [2] * (longest - len(row))",
        "what is filled in is PAD, 0",
    ),
    ("torch.tensor(", "torch.tensor(dtype=torch.float32, data=", "tokens are whole numbers"),
)
def pad(answer, right, draw):
    yield "three rows", lambda: unchanged(answer, ROWS)
    yield "one row", lambda: unchanged(answer, ROWS[:1])


@step(
    "07",
    (
        "(tokens[:, :-1],), tokens[:, 1:]",
        "(tokens,), tokens",
        "the target at a position is the token that comes next",
    ),
    (
        "(tokens[:, :-1],), tokens[:, 1:]",
        "(tokens[:, 1:],), tokens[:, :-1]",
        "inputs lack the last token, targets the first; yours are exchanged",
    ),
    (
        "(tokens[:, :-1],), tokens[:, 1:]",
        "tokens[:, :-1], tokens[:, 1:]",
        "inputs are a tuple, with one tensor in it",
    ),
    (
        "(tokens[:, :-1],), tokens[:, 1:]",
        "(tokens[:, :-1],), tokens[:, :-1]",
        "the target at a position is the token that comes next",
    ),
    after=("pad",),
)
def next_token_batch(answer, right, draw):
    yield "three rows", lambda: what_counts(unchanged(answer, ROWS))
    yield "two rows", lambda: what_counts(unchanged(answer, ROWS[1:]))


# ---------------------------------------------------------------- 08 · training


class Table(nn.Module):
    "The smallest model: a row of logits for each token."

    def __init__(self, scale=1.0):
        super().__init__()
        self.scale = scale
        self.rows = nn.Embedding(V, V)
        self.dropout = nn.Dropout(0.0)
        self.modes = []
        same_weights(self, self)

    def forward(self, tokens):
        self.modes.append(self.training)
        return self.scale * self.dropout(self.rows(tokens))


def batch(right, rows=ROWS):
    return right.next_token_batch(rows)


@step(
    "08",
    (", ignore_index=PAD", "", "positions where the target is padding don't count"),
    (
        "logits.flatten(0, -2), targets.flatten()",
        "logits.flatten(0, -2).softmax(dim=-1), targets.flatten()",
        "cross entropy takes logits; it does the softmax itself",
    ),
    (
        "logits = model(*inputs)",
        "logits = model(inputs[0])",
        "inputs are a tuple; give the model all of it, model(*inputs)",
    ),
    (
        "return F.cross_entropy(",
        "return len(targets) * F.cross_entropy(",
        "the mean over all tokens is asked for",
    ),
    (
        ", ignore_index=PAD",
        ', ignore_index=PAD, reduction="sum"',
        "the mean over all tokens is asked for, not the sum",
    ),
)
def batch_loss(answer, right, draw):
    yield "a batch", lambda: answer(Table(), batch(right))
    inputs, targets = batch(right)

    class Two(Table):
        def forward(self, first, second):
            return super().forward(first) + 2 * super().forward(second)

    yield "a model of two inputs", lambda: answer(Two(), ((*inputs, inputs[0]), targets))

    def slopes():
        table = Table()
        return gradients(answer(table, batch(right)), *table.parameters())

    yield "the gradients", slopes


@step(
    "08",
    (
        "optimizer.zero_grad()",
        "pass",
        "gradients of the step before are still there; call optimizer.zero_grad()",
    ),
    ("    model.train()\n", "", "the model has to be in training mode, model.train()"),
    (
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "pass",
        "gradients are clipped to a norm of 1",
    ),
    (
        "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "nn.utils.clip_grad_value_(model.parameters(), 1.0)",
        "the norm of all gradients together is clipped, not each value",
    ),
    (
        "    optimizer.step()\n",
        "",
        "nothing is learned: call loss.backward(), and then optimizer.step()",
    ),
    ("return loss.item()", "return loss", "return the loss as a number, loss.item()"),
    after=("batch_loss",),
)
def train_step(answer, right, draw):
    def steps(n, scale=1.0):
        model = Table(scale)
        model.eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = [answer(model, batch(right), optimizer) for _ in range(n)]
        return [*losses, model.rows.weight.detach().clone(), all(model.modes)]

    yield "a step", lambda: steps(1)
    yield "three steps", lambda: steps(3)
    yield "large gradients", lambda: steps(2, 40.0)
    yield "the loss", lambda: type(steps(1)[0]).__name__


def as_number(given):
    "A tensor without axes as the number that it holds."
    is_one = isinstance(given, torch.Tensor) and given.ndim == 0
    return given.item() if is_one else given


@step(
    "08",
    (
        "total += n * batch_loss",
        "total += batch_loss",
        "a batch counts by its tokens: multiply its mean with their number",
    ),
    (
        "return total / count",
        "return total / len(batches)",
        "divide by the number of tokens, not of batches",
    ),
    ("(targets != PAD).sum().item()", "targets.numel()", "padding is no token to count"),
    ("return total / count", "return total", "the mean over all tokens is asked for, not the sum"),
    (
        "    model.eval()\n",
        "    model.train()\n",
        "nothing is dropped while you measure: model.eval()",
    ),
    after=("batch_loss",),
)
def evaluate(answer, right, draw):
    batches = [batch(right), batch(right, ROWS[:2]), batch(right, [[1, 4, 4, 4, 4, 4, 8, 2]])]
    yield "three batches", lambda: as_number(answer(Table(), batches))
    yield "one batch", lambda: as_number(answer(Table(), batches[:1]))

    def mode():
        model = Table()
        answer(model.train(), batches)
        return [any(model.modes), model.rows.weight.grad is None]

    yield "the mode, and no gradients", mode


def by_whole_steps():
    "The right file with the rate as lesson 08 writes it: the cosine begins one step later."
    return edited_module(
        "rate",
        Mistake("t = (step + 1) / n_steps", "rise = round(n_steps * warmup)", ""),
        Mistake("t < warmup", "step < rise", ""),
        Mistake("highest * t / warmup", "highest * (step + 1) / rise", ""),
        Mistake("(t - warmup) / (1 - warmup)", "(step - rise) / (n_steps - rise)", ""),
    )


@step(
    "08",
    (
        "t = (step + 1) / n_steps",
        "t = step / n_steps",
        "the first step, number 0, would have rate 0; take step + 1",
    ),
    (
        "return highest * t / warmup",
        "return highest",
        "the rate rises in the warm-up, from near 0 to the highest",
    ),
    (
        "return highest * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (1 - warmup)))",
        "return highest * (1 - t) / (1 - warmup)",
        "after the warm-up the rate falls as half a cosine, not as a line",
    ),
    (
        "return highest * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (1 - warmup)))",
        "return highest * 0.5 * (1 + math.cos(math.pi * t))",
        "the cosine begins where the warm-up ends",
    ),
    (
        "return highest * 0.5 * (1 +",
        "return highest * (1 +",
        "half of 1 + cos: it begins at the highest rate",
    ),
)
def rate(answer, right, draw):
    def rates(steps, *options):
        given = [answer(step, *options) for step in steps]
        other = by_whole_steps()
        either = [other.rate(step, *options) for step in steps]
        return [right.rate(step, *options) for step in steps] if equal(given, either) else given

    yield "100 steps", lambda: rates((0, 1, 4, 5, 6, 30, 70, 99), 100, 1.0)
    yield "a warm-up of 0.3", lambda: rates((0, 14, 15, 40, 49), 50, 2.0, 0.3)


@step(
    "08",
    (
        'group["lr"] = rate(step, n_steps, lr)',
        "pass",
        "the rate of a step comes from rate(step, n_steps, lr)",
    ),
    (
        "rate(step, n_steps, lr)",
        "lr * min(1, (step + 1) / (0.05 * n_steps))",
        "the rate of a step comes from rate(step, n_steps, lr); yours never falls",
    ),
    (
        "rate(step, n_steps, lr)",
        "rate(step + 1, n_steps, lr)",
        "the first step is number 0; its rate is rate(0, n_steps, lr)",
    ),
    ("AdamW(", "Adam(", "AdamW is asked for; Adam puts the weight decay into the gradients"),
    (
        "AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1)",
        "Adam(model.parameters(), lr=lr)",
        "AdamW is asked for, with betas (0.9, 0.95) and a weight decay of 0.1; yours is Adam",
    ),
    (
        ", betas=(0.9, 0.95), weight_decay=0.1",
        "",
        "AdamW takes betas (0.9, 0.95) and a weight decay of 0.1; yours has its defaults",
    ),
    (", betas=(0.9, 0.95)", "", "AdamW takes betas (0.9, 0.95); yours has its defaults"),
    (", weight_decay=0.1", "", "AdamW takes a weight decay of 0.1; yours has its default, 0.01"),
    (
        "model.load_state_dict(kept)",
        "pass",
        "at the end the model gets a copy of the weights that were best on the validation batches",
    ),
    ("if loss < best:", "if loss > best:", "the best loss is the lowest"),
    (
        "    model.eval()\n    return best",
        "    return best",
        "at the end the model is in eval mode",
    ),
    (
        "torch.randperm(len(rows)).tolist()",
        "list(range(len(rows)))",
        "each time through the rows they come in a new order",
    ),
    ("    return best", "    return loss", "the best loss is returned, not the last"),
    (
        "(step + 1) % every == 0",
        "step % every == 0",
        "steps count from 0, so `every` steps have been taken where step + 1 is a multiple of it",
    ),
    (
        " or step + 1 == n_steps",
        "",
        "the validation batches are asked after the last step, too",
    ),
    after=("train_step", "evaluate", "rate"),
)
def fit(answer, right, draw):
    rows = [[1, 3 + n % 5, 4 + n % 3, 2] for n in range(40)]
    valid = [right.next_token_batch(rows[:8])]

    def learned(**options):
        torch.manual_seed(4)
        model = Table()
        best = answer(model, rows, right.next_token_batch, 30, 0.3, 8, valid, **options)
        now = right.evaluate(model, valid)
        before = right.evaluate(Table(), valid)
        return best, now, before, model

    def falls():
        best, now, before, model = learned(every=5)
        return [now < 0.7 * before, abs(best - now) < 1e-4 * abs(now)]

    yield "30 steps: the loss falls, and the model has its best weights", falls

    def asked():
        "Whether they are asked after every third step and the last; more often is no mistake."
        steps = []

        class Asked(list):
            def __iter__(self):
                steps.append(sum(model.modes))
                return super().__iter__()

        model = Table()
        answer(model, rows, right.next_token_batch, 7, 0.1, 8, Asked(valid), every=3)
        return [not steps or {3, 6} <= {*steps}, not steps or 7 in steps]

    yield "when the validation batches are asked", asked

    def at_the_end():
        model = Table().train()
        answer(model, rows, right.next_token_batch, 3, 0.1, 8)
        return model.training

    yield "the mode at the end", at_the_end

    def spoiled():
        "A rate that ruins the model: what was best is not what comes last."
        torch.manual_seed(1)
        model = Table()
        losses = []

        def batch_of(some):
            losses.append(right.evaluate(model, valid))
            model.train()
            return right.next_token_batch(some)

        best = answer(model, rows, batch_of, 40, 60.0, 8, valid, every=2)
        return [abs(right.evaluate(model, valid) - best) < 1e-3 * best]

    yield "a rate that is too high", spoiled

    def seen():
        torch.manual_seed(2)
        orders = []

        def batch_of(some):
            orders.append([rows.index(row) for row in some])
            return right.next_token_batch(some)

        numbered = [[1, 3, n, 2] for n in range(3, 11)]
        rows_before = list(numbered)
        taken = []
        answer(
            Table(),
            numbered,
            lambda some: (taken.append([r[2] for r in some]), right.next_token_batch(some))[1],
            6,
            0.1,
            4,
        )
        halves = [sorted(taken[i] + taken[i + 1]) for i in (0, 2, 4)]
        return [halves, len({tuple(t) for t in taken}) > 2, numbered == rows_before]

    yield "each row once, then again in a new order", seen

    def rates():
        torch.manual_seed(3)
        moved = []

        class Still(Table):
            pass

        model = Still()
        before = model.rows.weight.detach().clone()

        def batch_of(some):
            moved.append((model.rows.weight.detach() - before).abs().max().item())
            return right.next_token_batch(some)

        answer(model, rows, batch_of, 100, 1e-3, 8)
        return [moved[1] < 0.5 * 1e-3, moved[3] < 2.0 * 1e-3]

    yield "the first steps are small", rates

    def weights():
        "After 40 steps on rows that are all the same, so that their order is no matter."

        def after(function):
            model = Table()
            function(model, [[1, 3, 4, 2]] * 8, right.next_token_batch, 40, 0.05, 8)
            return model.rows.weight.detach().clone()

        given = after(answer)
        return after(right.fit) if equal(given, after(by_whole_steps().fit)) else given

    yield "the weights after 40 steps", weights
    yield "without validation", lambda: answer(Table(), rows, right.next_token_batch, 3, 0.1, 8)


# ---------------------------------------------------------------- 09 · a classifier


def body(right, longest=LONGEST):
    embed = same_weights(right.Embedding(V, D, longest), right.Embedding(V, D, longest))
    norm = nn.LayerNorm(D)
    return embed, right.Stack(small_blocks(right, 2), norm)


TEXTS = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 9, 8, 7, 4, 2]])


@step(
    "09",
    (
        ", padding_mask(tokens))",
        ")",
        "words must not attend to padding; give the stack a padding mask",
    ),
    (
        "(x * there).sum(dim=1) / there.sum(dim=1)",
        "x.mean(dim=1)",
        "padding has no part in the mean",
    ),
    (
        "(x * there).sum(dim=1) / there.sum(dim=1)",
        "(x * there).mean(dim=1)",
        "divide by the number of tokens that are there",
    ),
    (
        "(x * there).sum(dim=1) / there.sum(dim=1)",
        "(x * there).sum(dim=1)",
        "the mean is asked for; divide by the number of tokens",
    ),
    (
        "return self.head(mean)",
        "return mean",
        "the head makes one logit for each class of the mean",
    ),
    (
        "return self.head(mean)",
        "return self.head(mean).softmax(dim=-1)",
        "logits are asked for, without softmax",
    ),
    (
        "mean = (x * there).sum(dim=1) / there.sum(dim=1)",
        "mean = x[:, 0]",
        "the mean over a text's tokens is asked for, not the first",
    ),
    after=("padding_mask", "attention with masks"),
)
def Classifier(answer, right, draw):
    model = answer(*body(right), D, 3)
    same_weights(model, right.Classifier(*body(right), D, 3))
    yield "two texts", lambda: unchanged(model, TEXTS)
    yield "a text alone", lambda: model(TEXTS[:1, :4])
    yield "a text with more padding", lambda: model(nn.functional.pad(TEXTS[:1], (0, 5)))


# ---------------------------------------------------------------- 10 · a generator


@step(
    "10",
    (
        "is_causal=True, attend=attend",
        "attend=attend",
        "the stack has to be causal, or each word sees its answer",
    ),
    ("is_causal=True, attend=attend", "is_causal=True", "attend is not passed on to the stack"),
    (
        "self.embed(tokens, positions)",
        "self.embed(tokens, torch.arange(tokens.shape[1]))",
        "the positions that it is given are not used",
    ),
    (
        "F.linear(x, self.embed.tokens.weight)",
        "x",
        "the head is missing: compare each vector with those of all tokens",
    ),
    (
        "F.linear(x, self.embed.tokens.weight)",
        "F.linear(x, self.embed.tokens.weight).softmax(dim=-1)",
        "logits are asked for, without softmax",
    ),
    (
        "rotary(attend_here, positions, self.rotary_base)",
        "rotary(attend_here, torch.arange(tokens.shape[1]), self.rotary_base)",
        "rotary positions are those that it is given, too",
    ),
    (
        "rotary(attend_here, positions, self.rotary_base)",
        "rotary(attend_here, positions)",
        "rotary positions have the base rotary_base",
    ),
    (
        "rotary(attend_here, positions, self.rotary_base)",
        "rotary(attention, positions, self.rotary_base)",
        "the rotation goes around what it is given as attend",
    ),
    after=("rotary", "attention with masks"),
)
def LanguageModel(answer, right, draw):
    tokens = draw.tokens(2, 6)
    for base, longest, said in [
        (None, LONGEST, "learned positions"),
        (30.0, None, "rotary_base=30"),
    ]:
        model = answer(*body(right, longest), base)
        same_weights(model, right.LanguageModel(*body(right, longest), base))
        yield said, lambda: unchanged(model, tokens)
        at = torch.tensor([2, 3, 4, 7, 8, 11])
        yield f"{said}, positions 2, 3, 4, 7, 8, 11", lambda: model(tokens, positions=at)
        yield f"{said}, another attend", lambda: model(tokens, see_less)
        mixed = [see_less, right.attention]
        yield f"{said}, a function for each block", lambda: model(tokens, mixed)
        yield f"{said}, the first tokens alone", lambda: model(tokens[:, :3])


@step(
    "10",
    (
        "make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)",
        "make_block(d_model, n_heads, d_ff, dropout) for _ in range(1)",
        "n_layers blocks are asked for",
    ),
    (
        "[make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]",
        "[make_block(d_model, n_heads, d_ff, dropout)] * n_layers",
        "each block needs weights of its own; yours is one block, n_layers times",
    ),
    (
        "Embedding(vocab_size, d_model, max_len, dropout)",
        "Embedding(vocab_size, d_model, max_len)",
        "dropout is not passed on to the embedding",
    ),
    (
        "Embedding(vocab_size, d_model, max_len, dropout)",
        "Embedding(vocab_size, d_model, None, dropout)",
        "max_len is not passed on, so there are no positions",
    ),
    (
        "make_block(d_model, n_heads, d_ff, dropout)",
        "make_block(d_model, n_heads, d_ff)",
        "dropout is not passed on to the blocks",
    ),
    after=("make_block", "Stack", "Embedding", "LanguageModel"),
)
def generator(answer, right, draw):
    sizes = V, LONGEST, D, H, 3, D_FF
    model = made(answer, right.generator, *sizes)
    yield "logits", lambda: unchanged(model, draw.tokens(2, 6))
    yield "the number of weights", lambda: sum(p.numel() for p in answer(*sizes).parameters())
    yield "dropout", lambda: dropouts(answer(*sizes, 0.25), TEXTS)
