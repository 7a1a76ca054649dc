"Lesson 00: PyTorch."

from torch import nn

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "00.1",
    parts=(
        "the shape of x[3] is another: a number takes its axis away, and a shape of one axis has "
        "a comma, (7,)",
        "the shape of x[:, 0] is another: a colon keeps its axis, a number takes its axis away, "
        "and a shape of one axis has a comma, (7,)",
        "the shape of x[1:4] is another: a range keeps its axis and shortens it, and an axis that "
        "isn't named stays",
        "the shape of x[:, None] is another: `None` makes an axis of size 1 where it is written, "
        "and picks nothing",
    ),
)
def shapes_of_four_picks():
    # ? A number takes its axis away, a range keeps it, and `None` makes one of size 1.
    # ? x has the shape (5, 4). What is left if you pick one person? What if you pick one fruit?
    return [
        (4,),  # x[3]
        #! x[3]: that is the row of one person, with a number for each fruit
        # ~ (5,),
        #! x[3]: a number in the brackets takes its axis away; x[3:4] would keep it
        # ~ (1, 4),
        #! a shape is a tuple, and one of a single number has a comma, (7,)
        # ~ 4,
        # ~ (5,) -> 5
        (5,),  # x[:, 0]
        #! x[:, 0]: the colon keeps the people, and 0 picks a fruit
        # ~ (4,),
        #! x[:, 0]: a number in the brackets takes its axis away; x[:, 0:1] would keep it
        # ~ (5, 1),
        #! x[3] and x[:, 0]: a number in the brackets takes its axis away; x[3:4] would keep it
        # ~ (5, 1),
        # ~ (4,) -> (1, 4)
        #! x[:, 0]: a picked column is no row; it has one axis, the people
        # ~ (1, 5),
        #! x[3] and x[:, 0] are exchanged: the first place in the brackets is the people
        # ~2 (5,),
        # | (4,),
        (3, 4),  # x[1:4]
        #! x[1:4]: 1:4 ends before 4, so it is the rows 1, 2 and 3
        # ~ (4, 4),
        #! x[1:4]: 1:4 begins with row 1, so it is the rows 1, 2 and 3
        # ~ (2, 4),
        #! x[1:4]: a range keeps its axis, and the axis of the fruit stays, too
        # ~ (3,),
        #! x[1:4]: the first place in the brackets is the first axis, the people
        # ~ (5, 3),
        (5, 1, 4),  # x[:, None]
        #! x[:, None]: `None` makes the new axis where it is written, after the people
        # ~ (5, 4, 1),
        #! x[:, None]: `None` makes the new axis where it is written; x[None] has it in front
        # ~ (1, 5, 4),
        #! x[:, None]: `None` makes a new axis, of size 1
        # ~ (5, 4),
        #! x[:, None]: `None` picks nothing; it makes a new axis, of size 1
        # ~ (5,),
        #! x[:, None]: the axis of the fruit is still there, behind the new one
        # ~ (5, 1),
    ]


@exercise("00.2")
def my_centred(x):
    # ? `x.mean(dim=1)` has a number for each row, the shape (5,). Does it fit beside (5, 4)?
    # ? With `keepdim=True` the mean keeps its axis, (5, 1), and fits each number of its row.
    return x - x.mean(dim=1, keepdim=True)
    #! the means of the rows are a row themselves, (B,), which meets the columns; keep their axis
    #! with `keepdim=True`, and (B, 1) meets the rows
    # ~ return x - x.mean(dim=1)
    #! the mean runs down the columns; take that of each row, dim=1
    # ~ return x - x.mean(dim=0)
    #! that is the mean of all numbers; each row has its own
    # ~ return x - x.mean()
    #! you took the sum of each row away, not its mean
    # ~ return x - x.sum(dim=1, keepdim=True)
    #! a row has not always four numbers; its mean is their sum by their count, `x.shape[1]`
    # ~ return x - x.sum(dim=1, keepdim=True) / 4
    #! the sums of the rows are divided by the number of rows; divide by that of their numbers
    # ~ return x - x.sum(dim=1, keepdim=True) / len(x)
    #! you divided by the mean; take it away
    # ~ return x / x.mean(dim=1, keepdim=True)
    #! you divided by the sum, which makes shares; take the mean away
    # ~ return x / x.sum(dim=1, keepdim=True)
    #! those are the means; take them from x
    # ~ return x.mean(dim=1, keepdim=True)
    #! those are the means alone; take them from x
    # ~ return x.mean(dim=1)


@exercise("00.3")
def my_costs(x, by_shop):
    # ? In `a @ b`, the last axis of a and the first of b are added up. Which axis is the fruit in each of yours?
    # ? `by_shop.mT` is (4, 2).
    # ? return x @ by_shop.mT
    return x @ by_shop.mT
    #! the last axis of the first table and the first of the second must be the fruit, (5, 4) and
    #! (4, 2); `.mT` exchanges the axes
    # ~ return x @ by_shop
    #! `*` multiplies number by number, and (5, 4) doesn't fit (2, 4); for sums of products there
    #! is `@`
    # ~ return x * by_shop
    #! `*` multiplies number by number, and (5, 4) doesn't fit (4, 2); for sums of products there
    #! is `@`
    # ~ return x * by_shop.mT
    #! `reshape` reads the prices row by row into other places; `.mT` exchanges the axes
    # ~ return x @ by_shop.reshape(4, 2)
    #! rows and columns are exchanged: expected a row for each person, (B, 2)
    # ~ return by_shop @ x.mT
    #! those are the costs of all people together
    # ~ return (x @ by_shop.mT).sum(dim=0)
    #! those are the costs in both shops together
    # ~ return (x @ by_shop.mT).sum(dim=1)
    #! those are the costs of each fruit; add them up
    # ~ return x[:, None] * by_shop
    #! those are sums over the people; add the fruit up, the last axis
    # ~ return (x[:, None] * by_shop).sum(dim=0)


@exercise("00.4")
def softmax_of_0_0_and_ln_2():
    # ? e to the 0 is 1, and e to the ln 2 is 2.
    # ? The three exponentials are 1, 1 and 2. Each weight is its share of their sum.
    exponentials = [1, 1, 2]
    return [power / sum(exponentials) for power in exponentials]
    #! a score of 0 gets a weight, too, since e to the 0 is 1
    # ~ return [0, 0, 1]
    #! those are the exponentials; divide them by their sum
    # ~ return exponentials
    #! equal scores have equal weights, but the third score is larger
    # ~ return [1 / 3, 1 / 3, 1 / 3]
    #! the third has twice the weight of each other, and all three sum to 1
    # ~ return [0.5, 0.5, 1]
    #! the other way round: the larger score has the larger weight
    # ~ return [0.4, 0.4, 0.2]


@exercise(
    "00.5",
    parts=(
        "the first number is wrong: the derivative of v² is 2v, that of 4v is 4, and v is 5",
        "the second number is wrong: `backward` adds its gradient to what `grad` holds",
    ),
)
def gradient_after_one_and_two_backward():
    # ? The derivative of v² is 2v, and that of 4v is 4.
    # ? Nothing has set `v.grad` back before the second `backward`.
    slope = 2 * 5 + 4
    #! that is y itself; the gradient says how it changes
    # ~ slope = 5**2 + 4 * 5
    #! that is the derivative of v²; 4v has one, too
    # ~ slope = 2 * 5
    #! the derivative of v² is 2v, here 10, and not v
    # ~ slope = 5 + 4
    #! the derivative of 4v is 4, not 4v
    # ~ slope = 2 * 5 + 4 * 5
    #! the derivative of v² is 2v, and v is 5
    # ~ slope = 2 + 4
    return slope, slope + slope  # the second is added
    #! `backward` adds to what `grad` holds, and nobody has set it back
    # ~ return slope, slope
    #! nothing sets `grad` back but you
    # ~ return slope, 0
    #! the second gradient is added to the first, not multiplied by it
    # ~ return slope, slope * slope
    #! that is the second derivative; here the same backward pass runs twice
    # ~ return slope, 2
    #! the two are exchanged: `grad` holds less after the first `backward`
    # ~ return slope + slope, slope


@exercise("00.6")
def weight_after_one_step():
    # ? Let u = 2w − 6. The loss is u², and u grows twice as fast as w.
    # ? The gradient is 2 · u · 2, with u = −4. A step goes against it.
    u = 2 * 1 - 6
    gradient = 2 * u * 2
    #! the gradient has two factors of 2, one of the square and one in front of w; yours has only
    #! one
    # ~ gradient = 2 * u
    #! the gradient is 2 · u · 2 with u = 2w − 6; yours is u alone
    # ~ gradient = u
    return 1 - 0.1 * gradient
    #! a step goes against the gradient; yours goes with it
    # ~ return 1 + 0.1 * gradient
    #! that is the gradient; the step is 0.1 of it
    # ~ return gradient
    #! that is the step; take it from w
    # ~ return 0.1 * gradient
    #! that is the length of the step; w was 1 before
    # ~ return -0.1 * gradient
    #! the gradient was taken whole; the rate, 0.1, makes the step a tenth of it
    # ~ return 1 - gradient
    #! that is where the loss is 0; one step doesn't reach it
    # ~ return 3


@exercise("00.7")
class Cheapest(nn.Module):
    # ? `self.prices(x)` is (B, 2), the costs in both shops. Which axis has the shops?
    # ? `amin(dim=1)` is the smallest along an axis.
    # ? self.prices = nn.Linear(4, 2, bias=False) in `__init__`, and in `forward` return self.prices(x).amin(dim=1)
    def __init__(self):
        super().__init__()
        #! `super().__init__()` comes first in `__init__`; it makes room for the layers
        # ~
        self.prices = nn.Linear(4, 2, bias=False)
        #! an empty basket costs nothing, so the layer has no bias: nn.Linear(4, 2, bias=False)
        # ~ self.prices = nn.Linear(4, 2)
        #! nn.Linear(2, 4) reads two numbers and gives four; a basket has four, and there are two
        #! shops: nn.Linear(4, 2, bias=False)
        # ~ self.prices = nn.Linear(2, 4, bias=False)
        #! there are two shops, so the layer gives two numbers: nn.Linear(4, 2, bias=False)
        # ~ self.prices = nn.Linear(4, 1, bias=False)

    def forward(self, x):  # (B, 4)
        return self.prices(x).amin(dim=1)  # (B,)
        #! those are the costs in both shops; return the smaller one of each basket
        # ~ return self.prices(x)
        #! the smallest is sought over the baskets; the shops are axis 1
        # ~ return self.prices(x).amin(dim=0)
        #! that is the smallest cost of all baskets; return one for each
        # ~ return self.prices(x).min()
        #! `min(dim=1)` gives the values and where they are; take `.values`, or `amin`
        # ~ return self.prices(x).min(dim=1)
        #! that says which shop is cheaper; return what it costs
        # ~ return self.prices(x).argmin(dim=1)
        #! `keepdim=True` keeps the axis of the shops, (B, 1); expected (B,)
        # ~ return self.prices(x).amin(dim=1, keepdim=True)
        #! that is the larger cost of each basket
        # ~ return self.prices(x).amax(dim=1)
        #! that is the first shop alone
        # ~ return self.prices(x)[:, 0]


# ---------------------------------------------------------------- questions


@question("00", "00.2")
def ask_my_centred(draw):
    for B, n in [(2, 4), (3, 3), (5, 4), (1, 6), (4, 1)]:
        yield Call(f"x {(B, n)}", (draw.numbers(B, n),))
    for _ in draw.rounds:
        x = 3 + draw.numbers(draw.size(1, 7), draw.size(2, 7))
        yield Call(f"x {tuple(x.shape)}", (x,))


@question("00", "00.3")
def ask_my_costs(draw):
    for B in (5, 3, 1, 2, 4, draw.size(6, 9)):
        x = draw.tokens(B, 4, low=0, high=5).float()
        yield Call(f"x {(B, 4)}, by_shop (2, 4)", (x, draw.numbers(2, 4).abs()))


@question("00", "00.7")
def ask_cheapest(draw):
    for B in (3, 5, 1, 2, draw.size(6, 9)):  # a basket may bring fruit back, so any shop is cheaper
        yield Call(f"x {(B, 4)}", (draw.numbers(B, 4),), {}, ())
