"What tests of files and folders share."

from contextlib import contextmanager

import torch
from torch import nn

from former_nb.models.pretrained import Pretrained


def same(a, b):
    "Names, types, shapes and every bit."
    raw = lambda t: t.contiguous().flatten().view(torch.uint8)
    return a.keys() == b.keys() and all(
        a[n].dtype == b[n].dtype and a[n].shape == b[n].shape and raw(a[n]).equal(raw(b[n]))
        for n in a
    )


@contextmanager
def nothing_changes(folder):
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    yield
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert not list(folder.rglob(".writing-*"))


class Small(nn.Module, Pretrained):
    def __init__(self, width: int, tied: bool = False):
        super().__init__()
        self.embed, self.dropout = nn.Embedding(5, width), nn.Dropout(0.5)
        self.head = nn.Linear(width, 5, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.dropout(self.embed(x)))
