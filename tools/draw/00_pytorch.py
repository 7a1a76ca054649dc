"""A product of two tables: baskets times prices are costs, the numbers of the page on PyTorch."""

from svg import Drawing, matmul

PEOPLE = ["Ona", "Jonas", "Rasa", "Matas", "Lina"]
FRUIT = ["apple", "pear", "plum", "lemon"]
SHOPS = ["market", "shop"]
X = [[2, 0, 1, 0], [0, 3, 0, 1], [1, 1, 0, 0], [0, 0, 1, 3], [0, 0, 3, 1]]
PRICES = [[0.5, 0.6], [0.8, 0.7], [0.2, 0.3], [0.6, 0.4]]
ONA, SHOP = 0, 1
costs = matmul(X, PRICES)
terms = [f"{n} · {row[SHOP]:.2f}" for n, row in zip(X[ONA], PRICES) if n]

d = Drawing(
    "00_pytorch",
    "A matrix product: five baskets of four fruits, times prices in two shops, are costs",
    f"The table x has a row for each of {', '.join(PEOPLE)} and a column for each of "
    f"{', '.join(FRUIT)}: how many of each they have. The table of prices has a row for each fruit "
    "and a column for each shop. A row of x and a column of prices are multiplied number by number "
    "and added up, which gives one number of the table of costs. A frame follows "
    f"{PEOPLE[ONA]} in the {SHOPS[SHOP]}: {' + '.join(terms)} = {costs[ONA][SHOP]:.2f}.",
)
WIDE, HIGH = 38, 24
LEFT, RIGHT, TOP, LOW = 66, 292, 58, 252
d.columns(RIGHT, TOP - 6, SHOPS, WIDE)
d.rows(RIGHT - 8, TOP, FRUIT, HIGH)
d.table(RIGHT, TOP, PRICES, "n", WIDE, HIGH, column=SHOP, digits=2)
d.label(142, TOP + 40, "prices", "for one of each", "(4, 2)")
d.columns(LEFT, LOW - 6, FRUIT, WIDE)
d.rows(LEFT - 8, LOW, PEOPLE, HIGH, strong=ONA)
d.table(LEFT, LOW, X, "n", WIDE, HIGH, frame=ONA, digits=0)
d.table(RIGHT, LOW, costs, "a", WIDE, HIGH, digits=2)
d.frame(RIGHT + SHOP * WIDE, LOW + ONA * HIGH, WIDE, HIGH)
d.arrow(f"M{LEFT + 4 * WIDE + 6} {LOW + HIGH / 2}H{RIGHT - 8}")
x = RIGHT + (SHOP + 0.5) * WIDE
d.arrow(f"M{x} {TOP + 4 * HIGH + 6}V{LOW - 8}")
bottom = LOW + 5 * HIGH
d.text(LEFT + 2 * WIDE, bottom + 22, "x", "name", "middle")
d.text(LEFT + 2 * WIDE, bottom + 40, "how many, (5, 4)", "note", "middle")
d.text(RIGHT + WIDE, bottom + 22, "x @ prices", "name", "middle")
d.text(RIGHT + WIDE, bottom + 40, "costs, (5, 2)", "note", "middle")
d.text(202, bottom + 70, f"{' + '.join(terms)} = {costs[ONA][SHOP]:.2f}", "part", "middle")
d.save(bottom + 88)
