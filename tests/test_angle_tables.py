"""Rotary positions: angles by the formula, kept in a table that all layers share."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from attention_tools import EVEN, numbers, rotary
from refusals import NAN, counts, every_row, shape
from torch.testing import assert_close

from former_nb.attention import angle_tables
from former_nb.attention import positions as lesson
from former_nb.attention.angle_tables import Rotary, rotary_frequencies, rotary_table
from former_nb.attention.fused import attention
from former_nb.models.build import build_positions
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel


def test_rotary_turns_each_pair_from_its_first_feature_to_its_second():
    "At position 1 the pair (1, 0) becomes (cos, sin) of its angle, here of 1 and of 1 / 10."
    first, second = [0, 1], [2, 3]
    x = torch.zeros(1, 1, 2, 4)
    x[..., first] = 1.0
    rotary, angle = Rotary(4, base=100.0), torch.tensor([1.0, 0.1])

    def see(q, k, v, mask, is_causal):  # what attention is called with
        for turned in (q, k, rotary.turn(x, torch.arange(2))):
            assert_close(turned[0, 0, 0], x[0, 0, 0])
            assert_close(turned[0, 0, 1, first], angle.cos())
            assert_close(turned[0, 0, 1, second], angle.sin())
        return v

    assert rotary(see, torch.arange(2))(x, x, x) is x  # values are not turned


@pytest.mark.parametrize("d_k", [2, 6])
def test_the_angles_are_those_of_the_formula_to_the_last_digit_of_float32(d_k):
    table = rotary_table(torch.arange(700), rotary_frequencies(d_k, 500.0))
    assert table.dtype == torch.float32 and table.shape == (2, 700, d_k // 2)
    rows = Rotary(d_k, 500.0).rows(torch.arange(700), table.device)
    assert torch.equal(torch.stack(rows), table)
    for position in (0, 1, 57, 699):
        for i in range(d_k // 2):
            angle = position / 500 ** (2 * i / d_k)
            assert_close(table[0, position, i].item(), math.cos(angle), rtol=0, atol=1e-7)
            assert_close(table[1, position, i].item(), math.sin(angle), rtol=0, atol=1e-7)


def test_tokens_are_where_positions_say():
    rotary, q = Rotary(4), numbers(1, 1, 9, 4)

    def see(q, k, v, mask, is_causal):
        return torch.cat([q, k], dim=1)

    whole = rotary(see, torch.arange(9))(q, q, q)
    rows = [q[:, :, at] for at in AT]
    for at, row in zip(AT, rows):
        assert torch.equal(rotary(see, at)(row, row, None), whole[:, :, at])
    together = rotary(see, torch.stack(AT))(*[torch.cat(rows)] * 2, None)  # positions (B, T)
    assert torch.equal(together, torch.cat([whole[:, :, at] for at in AT]))


AT = [torch.tensor([3, 0, 8]), torch.tensor([6, 7, 8])]  # rows that lie end to end; a cache's
LAST = angle_tables.LONGEST - 1


@pytest.mark.parametrize("device", ["cpu", "elsewhere", "compiled"])
@pytest.mark.parametrize("start", [0, 3, 250, 300, 5000, LAST, 10**7])
def test_any_position_has_the_angles_of_the_formula(start, device, monkeypatch):
    "From a table that grows, or computed where nobody looks at positions, or where it would end."
    if device == "elsewhere":  # where one would have to wait for them
        monkeypatch.setattr(Rotary, "_look_up", Rotary._compute)
    if device == "compiled":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    rotary, here = Rotary(6), torch.device("cpu")
    for positions in (torch.arange(start, start + 4), torch.tensor([start, start + 9, start + 1])):
        want = rotary_table(positions, rotary_frequencies(6))
        for _ in range(2):  # the second time it may have kept them
            assert_close(torch.stack(rotary.rows(positions, here)), want, rtol=0, atol=0)
    assert rotary._table is None or rotary._table.shape[1] <= angle_tables.LONGEST


def test_positions_that_change_in_place_are_looked_up_again():
    rotary, t, at = Rotary(4), numbers(1, 1, 3, 4), torch.arange(3)
    before = rotary.turn(t, at)
    at += 2
    assert torch.equal(rotary.turn(t, at), Rotary(4).turn(t, torch.arange(2, 5)))
    with torch.inference_mode():
        at = torch.arange(3)
        assert torch.equal(rotary.turn(t, at), before)
        at += 2
        assert torch.equal(rotary.turn(t, at), Rotary(4).turn(t, torch.arange(2, 5)))
    t.requires_grad_()
    rotary.turn(t, torch.arange(3)).sum().backward()  # a table of an inference serves a training


def test_the_table_is_that_of_the_lesson():
    q, k, v = numbers(3, 2, 4, 7, 6)
    for at in (torch.arange(7), torch.arange(30, 37), torch.tensor([0, 5, 5, 2, 9, 300, 1])):
        ours, lessons = (kind(6, 500.0)(attention, at) for kind in (Rotary, lesson.Rotary))
        assert torch.equal(ours(q, k, v, None, True), lessons(q, k, v, None, True))


def test_the_layers_of_a_model_share_one_rotary_table():
    c = TransformerConfig(7, 64, 12, 2, 3, 8, positions="rotary", rope_scaling=SLOW)
    model = LanguageModel.from_config(c)
    with torch.device("meta"):
        loaded = LanguageModel.from_config(c)
    loaded.load_state_dict(model.state_dict(), assign=True)
    twin = copy.deepcopy(model).double()  # still float32
    for m in (model, loaded, twin):
        assert [part for part in m.modules() if isinstance(part, Rotary)] == [m.stack.rotary]
        assert torch.equal(rows_of(m.stack.rotary), first_rows(c))
        assert not any("table" in name for name in m.state_dict())
    others = [c, replace(c, rope_base=9.0), replace(c, rope_scaling=None)]
    assert len({tuple(rows[0, 5].tolist()) for rows in map(first_rows, others)}) == 3


SLOW = {"rope_type": "linear", "factor": 2.0}


def first_rows(config):
    return rows_of(build_positions(config, "attention"))


def rows_of(rotary):
    return torch.stack(rotary.rows(torch.arange(64), torch.device("cpu")))


TABLE = {
    "rotary_frequencies": [
        *counts("d_k", rotary_frequencies, least=2),
        ("an odd width", lambda: rotary_frequencies(5), *EVEN),
        ("base of 0", lambda: rotary_frequencies(4, 0.0), ValueError, "base", "0.0"),
        ("base of NaN", lambda: rotary_frequencies(4, NAN), ValueError, "base"),
    ],
    "rotary_table": [
        ("T = 0", lambda: rotary_table(torch.arange(0), rotary_frequencies(4)), shape(2, 0, 2)),
    ],
    "Rotary": [
        *rotary(Rotary(4)),
        *counts("d_k", Rotary, least=2),
        ("an odd width of heads", lambda: Rotary(5), *EVEN),
        ("base", lambda: Rotary(4, 0.0), ValueError, "base"),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
