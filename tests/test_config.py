"""The configurations: JSON and back, and what is refused."""

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_tools import CONFIG, configs
from refusals import refuses

from former_nb.models.config import TransformerConfig

JSON = settings(max_examples=30, deadline=None, database=None, derandomize=True)
WRONG = [None, True, 0, -1, 2.5, "3", "", [], {}, [4], float("nan"), float("inf"), "Learned"]
FINE = {"n_kv_heads": [None], "dropout": [0], "norm_first": [True]}  # of those, what is allowed
FINE |= {"d_k": [None], "rope_base": [2.5], "rope_scaling": [None], "tied_head": [True]}
KINDS = (ValueError, TypeError)


@JSON
@given(configs())
def test_a_configuration_comes_back_from_json(config):
    back = TransformerConfig(**json.loads(json.dumps(asdict(config))))
    assert back == config
    assert list(map(type, asdict(back).values())) == list(map(type, asdict(config).values()))


@JSON
@given(configs(), st.data())
def test_what_is_no_configuration_is_refused(config, data):
    name = data.draw(st.sampled_from(list(asdict(config))))
    fine = FINE.get(name, [])
    wrong = data.draw(st.sampled_from([v for v in WRONG if not any(v is f for f in fine)]))
    refuses(lambda: replace(config, **{name: wrong}), KINDS, name)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("d_model", dict(n_heads=5)),
        ("d_model", dict(n_heads=4, positions="rotary")),  # heads of an odd width
        ("n_heads", dict(n_kv_heads=2)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, changes):
    refuses(lambda: replace(CONFIG, **changes), ValueError, name)
