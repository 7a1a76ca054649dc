"""PyTorch's random numbers on a CPU: the same seed gives the same numbers."""

import math
import random
from contextlib import contextmanager


class Generator:
    """A Mersenne Twister, seeded as PyTorch seeds its own."""

    def __init__(self, device="cpu"):
        self.device = device
        self.twister = random.Random()
        self.manual_seed(67280421310721)

    def manual_seed(self, seed):
        """Start again from a seed."""
        state = [seed % 2**32]
        for i in range(1, 624):
            last = state[-1]
            state.append((1812433253 * (last ^ (last >> 30)) + i) % 2**32)
        self.twister.setstate((3, (*state, 624), None))
        self.next_normal = None  # two normal numbers come at a time
        return self

    def get_state(self):
        """What `set_state` wants to go on from here."""
        return self.twister.getstate(), self.next_normal

    def set_state(self, state):
        """Go on from where `get_state` was called."""
        twister, self.next_normal = state
        self.twister.setstate(twister)
        return self

    def uniform(self, double=False):
        """A number from 0 to 1 of 24 random bits, or of 53."""
        if not double:
            return (self.twister.getrandbits(32) % 2**24) / 2**24
        high = self.twister.getrandbits(32)
        low = self.twister.getrandbits(32)
        return ((high << 32 | low) % 2**53) / 2**53

    def integer(self, low, high):
        """A whole number from low to high - 1."""
        return low + self.twister.getrandbits(32) % (high - low)

    def normal_numbers(self, n, double=False):
        """n numbers with mean 0 and variance 1, by the method of Box and Muller."""
        if n < 16:
            return [self.one_normal() for _ in range(n)]
        numbers = [self.uniform(double) for _ in range(n)]
        for start in range(0, n - 15, 16):
            self.turn(numbers, start)
        if n % 16:  # the last sixteen are drawn again
            numbers[n - 16 :] = [self.uniform(double) for _ in range(16)]
            self.turn(numbers, n - 16)
        return numbers

    def turn(self, numbers, start):
        """Turn sixteen uniform numbers into normal ones, a pair at a time."""
        for i in range(start, start + 8):
            radius = math.sqrt(-2 * math.log(1 - numbers[i]))
            angle = 2 * math.pi * numbers[i + 8]
            numbers[i] = radius * math.cos(angle)
            numbers[i + 8] = radius * math.sin(angle)

    def one_normal(self):
        """A single normal number; its partner waits for the next call."""
        if self.next_normal is not None:
            number = self.next_normal
            self.next_normal = None
            return number
        angle = 2 * math.pi * self.uniform(double=True)
        radius = math.sqrt(-2 * math.log1p(-self.uniform(double=True)))
        self.next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)


default_generator = Generator()


def manual_seed(seed):
    """Seed the numbers of every call without a generator."""
    return default_generator.manual_seed(seed)


@contextmanager
def fork_rng(devices=None):
    """Within `with`, random numbers may be drawn; afterwards all is as it was."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)
