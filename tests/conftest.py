"""What holds for all tests."""

import re

import pytest


def pytest_collection_modifyitems(items):
    "Refuse names that differ from process to process, as an object's address does."
    for item in items:
        if re.search(r" at 0x[0-9a-f]+", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid}: a test's name may not hold an address")
