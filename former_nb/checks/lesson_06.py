"""Judges of the exercises on the page 06_block, and the mistakes that they know."""

import torch
from torch import nn

from ..base.exercises import diagnose, exercise, explain_error
from ..models.layers import make_block


def example_parts() -> tuple[torch.Tensor, list[nn.Module]]:  # x (3, 4, 6), and the four parts
    "An input, attention, feed-forward network and two norms whose gains and shifts differ."
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(0)
        block = make_block(d_model=6, n_heads=2, d_ff=10).requires_grad_(False)
        x = torch.randn(3, 4, 6)
        for linear in (m for m in block.modules() if isinstance(m, nn.Linear)):
            nn.init.normal_(linear.weight, std=0.5)  # large enough to tell the answers apart
        for norm in (block.norm_attention, block.norm_ff):
            nn.init.normal_(norm.weight, 1, 0.3), nn.init.normal_(norm.bias, 0, 0.3)
    return x, [block.attention, block.ff, block.norm_attention, block.norm_ff]


@exercise(
    "06.1",
    "Which of the four functions reads x first, and what is added to x?",
    "x = x + attention(norm_attention(x)) is the first line.",
)
def judge_06_1(answer):
    "Judge a pre-norm block, made of four parts."
    x, (attention, ff, norm_1, norm_2) = example_parts()
    given = answer(x.clone(), attention, ff, norm_1, norm_2)
    if given is None:
        return "your function returned nothing; end it with `return` and the stream"
    if given is ...:
        return "the three dots are still there; put your lines in their place"
    y = x + attention(norm_1(x))
    post = norm_1(x + attention(x))
    normed = norm_1(x) + attention(norm_1(x))
    mistakes = {
        "that is post-norm; here the norm stands before each part, on the branch": (
            norm_2(post + ff(post))
        ),
        "the residual path is missing; add what each part gives to x": ff(
            norm_2(attention(norm_1(x)))
        ),
        "the feed-forward network's output is not added to the stream": ff(norm_2(y)),
        "the attention's output is not added to the stream": (
            attention(norm_1(x)) + ff(norm_2(attention(norm_1(x))))
        ),
        "the norms are missing": (x + attention(x)) + ff(x + attention(x)),
        "the feed-forward network lacks its norm": y + ff(y),
        "the attention lacks its norm": (x + attention(x)) + ff(norm_2(x + attention(x))),
        "the norms are exchanged": (
            (x + attention(norm_2(x))) + ff(norm_1(x + attention(norm_2(x))))
        ),
        "both parts read the same norm": y + ff(norm_1(y)),
        "the second sum starts from x; it starts from what the attention has added to": (
            x + ff(norm_2(y))
        ),
        "both parts read x; the feed-forward network reads what attention has added to": (
            y + ff(norm_2(x))
        ),
        "you added to the normed stream; add to x itself": (
            norm_1(x) + attention(norm_1(x)) + ff(norm_2(norm_1(x) + attention(norm_1(x))))
        ),
        "you wrote the norms into the stream; give norm(x) to the part, and add to x itself": (
            norm_2(normed) + ff(norm_2(normed))
        ),
        "each norm reads what its part gave; here it stands before the part, on what the part "
        "reads": (x + norm_1(attention(x))) + norm_2(ff(x + norm_1(attention(x)))),
        "the feed-forward network reads the attention's output alone; it reads the stream, x plus "
        "that output": y + ff(norm_2(attention(norm_1(x)))),
        "the feed-forward network comes second": (
            (x + ff(norm_2(x))) + attention(norm_1(x + ff(norm_2(x))))
        ),
        "the feed-forward network is still to come": y,
        "each norm reads the sum, and its result is added once more; it stands before the part": (
            (x + norm_1(x + attention(x)))
            + norm_2((x + norm_1(x + attention(x))) + ff(x + norm_1(x + attention(x))))
        ),
        "both parts read norm_attention(x); the feed-forward network reads norm_ff of what "
        "attention has added to": y + ff(norm_1(x)),
        "the second sum starts from the normed stream; it starts from the stream itself": (
            norm_2(y) + ff(norm_2(y))
        ),
        "the second norm comes after the sum; it comes before the feed-forward network": (
            norm_2(y + ff(y))
        ),
        "a norm at the end is too many; the stream leaves the block as it is": (
            norm_2(y + ff(norm_2(y)))
        ),
        "norm_attention at the end is too many; the stream leaves the block as it is": (
            norm_1(y + ff(norm_2(y)))
        ),
    }
    return diagnose(given, y + ff(norm_2(y)), mistakes)


@exercise(
    "06.2",
    "Attention has four matrices, the feed-forward network two, and there are two norms.",
    "Every linear layer has a bias as long as its output; a LayerNorm has a gain and a shift.",
    "4(d² + d) for attention, d·d_ff + d_ff + d_ff·d + d for the feed-forward network, 4d "
    "for the norms.",
)
def judge_06_2(answer):
    "Judge the number of parameters of each part of a block: a total would hide which is wrong."
    d, h, d_ff = 12, 3, 40
    attention, ff, norms = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 4 * d
    if not isinstance(answer, (tuple, list, torch.Tensor)) or len(answer) != 3:
        return "expected three numbers: of the attention, of the feed-forward network, of the norms"
    parts = {"attention": attention, "feed-forward network": ff, "norms": norms}
    mistakes = {
        "attention": {
            "its four linear layers have biases": attention - 4 * d,
            "it has a fourth matrix, which mixes the heads": attention - d * d - d,
            "it has a fourth matrix, which mixes the heads, and all four have biases": 3 * d * d,
            "the fourth linear layer has a bias, too": attention - d,
            "it has a fourth matrix, which mixes the heads, and each layer a bias of its own": (
                3 * d * d + d
            ),
            "the three projections have biases, too": attention - 3 * d,
            "the heads share d_model, so their number does not matter": h * attention,
            "the heads share d_model, and all four linear layers have biases": (
                h * (attention - 4 * d)
            ),
            "the heads share d_model, so the four matrices are d by d, not h times that": (
                h * 4 * d * d + 4 * d
            ),
        },
        "feed-forward network": {
            "its two linear layers have biases": 2 * d * d_ff,
            "it has a second layer, back to d_model": d * d_ff + d_ff,
            "it has a second layer, back to d_model, and both have biases": d * d_ff,
            "the first layer has a bias, too, as long as its output": ff - d_ff,
            "the second layer has a bias, too, as long as its output": ff - d,
            "a bias is as long as the output of its layer, not as its input": (
                2 * d * d_ff + 2 * d_ff
            ),
            "the first bias is as long as the output of its layer, d_ff, not d_model": (
                2 * d * d_ff + 2 * d
            ),
            "that is the second layer, 40 · 12 + 12; the first has 12 · 40 + 40 more": d * d_ff + d,
            "that is one matrix and both biases; there are two matrices": d * d_ff + d_ff + d,
            "those are the three matrices of a SwiGLU; this network has two, and two biases": (
                3 * d * d_ff
            ),
            "those are three matrices, as in a SwiGLU, and their biases; here are two": (
                3 * d * d_ff + 2 * d_ff + d
            ),
        },
        "norms": {
            "a block has two of them, and each has a gain and a shift": 2 * d,
            "there are two, each with a gain and a shift for every feature": d,
            "each of the two has a gain and a shift, four vectors in all": 3 * d,
            "a block has two norms, not three": 6 * d,
            "gain and shift are vectors, with a number for every feature": 4,
            "each has a gain and a shift, which are learned": 0,
        },
    }
    for (name, right), given in zip(parts.items(), answer):
        known = {said: torch.tensor(wrong) for said, wrong in mistakes[name].items()}
        if problem := diagnose(given, right, known):
            if all(number in answer for number in parts.values()):
                return "the numbers are right, but in another order: " + ", ".join(parts)
            return f"{name}: {problem}"


@exercise(
    "06.3",
    "Compute the norm of x once, and give it to both parts.",
    "Both outputs are added to x, which is added once; attention is called with `is_causal=True`.",
)
def judge_06_3(answer):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        block = make_block(d_model=6, n_heads=2, d_ff=10)
        x = torch.randn(3, 4, 6)
        for norm in (block.norm_attention, block.norm_ff):
            torch.nn.init.normal_(norm.weight, 1, 0.3), torch.nn.init.normal_(norm.bias, 0, 0.3)
    with torch.no_grad():
        answer, h = answer(block, x.clone()), block.norm_attention(x)
        other = block.norm_ff(x)
        found, made = block.attention(h, is_causal=True), block.ff(h)
        return diagnose(
            answer,
            x + found + made,
            {
                "that is the block as it is: its feed-forward "
                "network waits for the attention": block(x, is_causal=True),
                "the feed-forward network reads norm_ff(x); both parts read norm_attention(x)": (
                    x + found + block.ff(block.norm_ff(x))
                ),
                "your parts read norm_ff(x); both read norm_attention(x)": (
                    x + block.attention(other, is_causal=True) + block.ff(other)
                ),
                "the feed-forward network reads x itself, without the norm": (
                    x + found + block.ff(x)
                ),
                "the attention reads x itself, without the norm": (
                    x + block.attention(x, is_causal=True) + made
                ),
                "the norm is missing": x + block.attention(x, is_causal=True) + block.ff(x),
                "the norm stands after the addition; in the formula it stands before both "
                "parts": block.norm_attention(x + block.attention(x, is_causal=True) + block.ff(x)),
                "x itself is missing from the sum, so there is no residual path": found + made,
                "x is added twice": 2 * x + found + made,
                "you added to the norm of x; the stream is x itself": h + found + made,
                "the feed-forward network reads what attention found; it reads the norm of x": (
                    x + found + block.ff(found)
                ),
                "the feed-forward network reads what attention found, which is not added itself": (
                    x + block.ff(found)
                ),
                "the feed-forward network reads the norm of what attention has added to; it "
                "reads the norm of x": x + found + block.ff(block.norm_attention(x + found)),
                "the attention sees words to come; a generator's block is causal": (
                    x + block.attention(h) + made
                ),
                "only the attention's part is added": x + found,
                "only the feed-forward network's part is added": x + made,
            },
        )


@exercise(
    "06.4",
    "Write the second layer of the first, w_out (w_in x + b_in) + b_out, and multiply out.",
    "The weight is w_out @ w_in. What does the second layer do to b_in?",
)
def judge_06_4(answer):
    "Judge the one linear layer that two without an activation make."
    draw = torch.Generator("cpu").manual_seed(4)
    shapes = [(7, 5), (7,), (3, 7), (3,)]
    w_in, b_in, w_out, b_out = (torch.randn(*s, generator=draw, device="cpu") for s in shapes)
    weight, bias = w_out @ w_in, w_out @ b_in + b_out
    try:
        given = answer(w_in, b_in, w_out, b_out)
    except RuntimeError as error:
        return explain_error(error, _MISFITS)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        if isinstance(given, torch.Tensor) and given.shape == (3, 5):
            return "that is one tensor; return two, the weight and the bias: `weight, bias`"
        return f"expected a weight and a bias, got {type(given).__name__}"
    problem = diagnose(
        given[0], weight, {"the weight is transposed: expected (d_out, d_in)": weight.T}
    )
    mistakes = {
        "the first bias goes through the second layer": b_out,
        "the second bias is missing": w_out @ b_in,
    }
    return problem or diagnose(given[1], bias, mistakes)


_MISFITS = {  # words of an error -> what was meant
    "tensor a (5) must match the size of tensor b (3)": "weight and bias are not added to each "
    "other; return both, `weight, bias`",
    "(7x5 and 3x7)": "w_in @ w_out is in the wrong order, (d_ff, d_in) and (d_out, d_ff); w_out "
    "comes second as a layer and first in the product",
    "(1x7 and 3x7)": "the matrix comes first: w_out @ b_in",
    "input (3), mat (3x7), vec (3)": "b_out is no input of the second layer; b_in goes through it",
    "tensor a (7) must match the size of tensor b (3)": "b_in has d_ff numbers and b_out d_out, so "
    "they can't be added; b_in goes through the second layer first",
    "tensor a (3) must match the size of tensor b (7)": "b_in has d_ff numbers and b_out d_out, so "
    "they can't be added; b_in goes through the second layer first",
}
