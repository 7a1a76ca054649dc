"""`Rotary` with a table of angles that is computed once, as the library uses it.

The lesson's `Rotary` computes cosines and sines in each block, for each text. Here a table keeps
them, in float32 from angles in float64, and grows when a text goes beyond it.
"""

from collections.abc import Callable
from functools import partial

import torch

from ..base.guards import check_positions, check_self_attention, is_readable
from . import positions as lesson
from .positions import rotate

__all__ = [
    "rotary_frequencies",
    "rotary_table",
    "Rotary",
]

LONGEST = 2**17  # positions in a table; cosines and sines of those beyond are computed each time


def rotary_frequencies(
    d_k: int,  # width of a head, even
    base: float = 10000.0,  # above 0; the slowest pair turns by about 1 / base per position
) -> torch.Tensor:  # (d_k / 2,), float64
    "The angle by which each pair turns per position (Su et al. 2021, equation 15)."
    with torch.device("cpu"):
        return lesson.Rotary(d_k, base).frequency


def rotary_table(
    positions: torch.Tensor,  # (T,) or (B, T)
    frequency: torch.Tensor,  # (d_k / 2,), as from `rotary_frequencies`
) -> torch.Tensor:  # (2, T, d_k / 2) or (2, B, T, d_k / 2), float32: cosines, then sines
    "Cosine and sine of each pair's angle at each position."
    if positions.device.type == "mps":  # which has no float64
        positions = positions.cpu()
    angle = positions.double()[..., None] * frequency.to(positions.device)
    return torch.stack([angle.cos(), angle.sin()]).float()


class Rotary(lesson.Rotary):
    """Turns queries and keys by angles that grow with their positions (Su et al. 2021).

    What it calls as `attend` gets the turned queries and keys. Positions on the CPU are looked up
    in a table. Those on another device are never waited for: their angles are computed there.
    """

    def __init__(
        self,
        d_k: int,  # width of a head, even
        base: float = 10000.0,  # as for `rotary_frequencies`
    ):
        with torch.device("cpu"):
            super().__init__(d_k, base)
        self.d_k = d_k
        self.forget()

    def forget(self) -> None:
        "Keep no table, as before the first call."
        self._table: torch.Tensor | None = None  # (2, n, d_k / 2), on the device of the queries
        self._found: tuple | None = None  # the last positions that were looked up, and their rows
        self._frequency: torch.Tensor | None = None  # where positions are, if that isn't the CPU

    def forward(
        self,
        attend: Callable,  # what is called with the turned queries and keys, such as `attention`
        positions: torch.Tensor,  # (T,) or (B, T)
    ) -> Callable:  # what to call instead
        "The function to call instead of `attend`. It turns `q` and `k` first."
        check_positions(positions, look=not self._knows(positions))
        return partial(self.attend_rotated, attend, positions)

    def attend_rotated(
        self,
        attend: Callable,  # as for `forward`
        positions: torch.Tensor,  # as for `forward`
        q: torch.Tensor,  # (B, h, T, d_k)
        k: torch.Tensor,  # (B, h, T, d_k); fewer heads if several queries share one
        v: torch.Tensor,  # (B, h, T, d_k)
        mask: torch.Tensor | None = None,  # as in `attention`
        is_causal: bool = False,  # as in `attention`
    ) -> torch.Tensor:  # (B, h, T, d_k)
        "Turn `q` and `k`, then attend."
        check_self_attention(q, k, d_k=self.d_k)
        return attend(self.turn(q, positions), self.turn(k, positions), v, mask, is_causal)

    def turn(
        self,
        t: torch.Tensor,  # (B, h, T, d_k), queries or keys
        positions: torch.Tensor,  # (T,) or (B, T)
    ) -> torch.Tensor:  # (B, h, T, d_k)
        "Turn each token by its position."
        check_positions(positions, t.shape[2], look=not self._knows(positions), B=t.shape[0])
        cos, sin = self.rows(positions, t.device)
        return rotate(t, cos, sin)

    def rows(
        self,
        positions: torch.Tensor,  # (T,) or (B, T)
        device: torch.device,  # where they are needed
    ) -> tuple:  # two of (T, d_k / 2), or of (B, 1, T, d_k / 2)
        "The cosines and sines of these positions; for each block of a model the same."
        if torch.compiler.is_compiling():
            return self._by_row(self._compute(positions, device), positions)
        version = None if positions.is_inference() else positions._version
        found = self._found
        if found is not None and found[0] is positions and found[1:3] == (version, device):
            return found[3]
        with torch.inference_mode(False):  # a table is kept, also for a training that follows
            rows = self._by_row(self._look_up(positions, device), positions)
        if version is not None:
            self._found = (positions, version, device, rows)
        return rows

    def _knows(self, positions):
        "Whether these were looked up last."
        if torch.compiler.is_compiling():  # what is kept would be part of the graph's conditions
            return False
        found = self._found
        return found is not None and found[0] is positions

    def _by_row(self, rows, positions):
        "The two halves; if each text has its own positions, they are the same for all heads."
        cos, sin = rows
        return (cos[:, None], sin[:, None]) if positions.ndim == 2 else (cos, sin)

    def _look_up(self, positions, device):
        "Rows of the table, or computed where it has none or nobody may look at the positions."
        if not is_readable(positions):
            return self._compute(positions, device)
        first, last = int(positions.min()), int(positions.max())
        if last >= LONGEST:
            return self._compute(positions, device)
        table = self._table_of(last + 1, device)
        T = positions.numel()
        in_a_row = positions.ndim == 1 and last - first == T - 1
        if in_a_row and (T == 1 or bool((positions.diff() == 1).all())):
            return table[:, first : last + 1]  # a view, and nothing is uploaded
        return table[:, positions.to(device, non_blocking=True)]

    def _table_of(self, n, device):
        "A table of n positions or more on this device."
        table = self._table
        if table is None or table.device != device or table.shape[1] < n:
            longer = max(256, 1 << (n - 1).bit_length())  # few times, however far a text goes
            at = torch.arange(longer, device="cpu")
            table = rotary_table(at, self.frequency).to(device)
            self._table = table
        return table

    def _compute(self, positions, device):
        "Cosines and sines of positions, computed where these are."
        frequency = self.frequency
        if positions.device.type not in ("cpu", "mps"):
            if self._frequency is None or self._frequency.device != positions.device:
                self._frequency = frequency.to(positions.device)
            frequency = self._frequency
        return rotary_table(positions, frequency).to(device)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.forget()  # it is computed again, in full precision, where it is needed next
        return self

    def __getstate__(self):
        kept = dict.fromkeys(["_table", "_found", "_frequency"])
        return {**self.__dict__, **kept}
