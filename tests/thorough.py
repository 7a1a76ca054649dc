"Which cases a run of the tests takes: a part, and with FORMER_NB_THOROUGH=1, as once a week, all."

import os

THOROUGH = bool(os.environ.get("FORMER_NB_THOROUGH"))


def some(cases, of, first=0):
    "One of so many cases, from the `first` on."
    cases = list(cases)
    return cases if THOROUGH else cases[first::of]


def weekly(test):
    "A test that is run with all cases only."
    import pytest  # some of this runs where there is none

    return pytest.mark.skipif(not THOROUGH, reason="once a week")(test)


def drawn(n):
    """Settings of hypothesis: the same n cases each time, or as many new ones as FORMER_NB_CASES
    says."""
    from hypothesis import HealthCheck, settings

    return settings(
        max_examples=int(os.environ.get("FORMER_NB_CASES", n)),
        deadline=None,
        database=None,
        derandomize="FORMER_NB_CASES" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
