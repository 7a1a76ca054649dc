"""The steps of a reader's file, from attention to BLEU, as the tests of `process.run_file`.

What each definition is asked, and the mistakes that are told by name, stand in the modules that
are imported here, by lessons. Parts that a step is given, such as the attention of a block, are
those of the right file, so that one wrong definition is told once.
"""

from functools import partial

from . import steps_encoder, steps_generation, steps_training, steps_translation  # noqa: F401
from .process import Test
from .steps import STEPS, judge_step, right_order

__all__ = ["EXAMPLE", "REFUSED", "TESTS"]

EXAMPLE = "mine.py"  # how the pages call the file
REFUSED = ("former_nb",)  # what it may not import

PREPARE = ("torch._dynamo",)  # an optimizer brings it, and it replaces `torch.manual_seed`

NAMES = sorted(STEPS, key=right_order().index)
TESTS = [
    Test(name, partial(judge_step, name=name), tuple(NAMES.index(n) + 1 for n in STEPS[name].after))
    for name in NAMES
]
