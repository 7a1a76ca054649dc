"""Lesson 07's `Embedding`, which nbdev writes below the blocks: two pages can share a module, but
only one that begins it is made anew with each export."""

from .block import Embedding

__all__ = ["Embedding"]
