"""The benchmarks take turns, name a peer that is missing, and keep what they have measured."""

import json

import pytest
import torch

from benchmarks import peers, start, timing, workloads
from benchmarks.__main__ import main

CPU = torch.device("cpu")


def test_contenders_take_turns():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    timing.LEAST, least = 0.0, timing.LEAST
    try:
        found = timing.interleave(runs, 3, CPU)
    finally:
        timing.LEAST = least
    assert {name: len(times) for name, times in found.items()} == dict(a=3, b=3, c=3)
    assert order[-9:] == [*"abc", *"bca", *"cab"]
    assert timing.quartiles([4.0, 1.0, 2.0, 3.0, 5.0]) == [2.0, 3.0, 4.0]


def test_a_missing_peer_is_named_and_left_out(capsys):
    def missing():
        import no_such_peer  # noqa: F401

    assert peers.available({"ours": lambda: 1, "theirs": missing}) == {"ours": 1}
    assert "theirs is left out: no_such_peer is not installed" in capsys.readouterr().err


def test_every_contender_of_the_smallest_workloads_runs():
    for name in ("attention/128/causal/backward", "multi_head/128/causal/forward"):
        runs, flop = workloads.WORKLOADS[name](CPU)
        assert len(runs) == 2 and flop > 0
        for run in runs.values():
            run()


def test_the_command_measures_and_keeps(tmp_path):
    out, name = tmp_path / "results.json", "attention/128/full/forward"
    kept = {"workloads": {"an older one": {"ratio": {}, "seconds": {}, "flop": None}}}
    out.write_text(json.dumps(kept))
    main([name, "--rounds", "1", "--out", str(out)])
    found = json.loads(out.read_text())["workloads"]
    assert found.keys() == {"an older one", name} and out.with_suffix(".svg").exists()
    assert found[name]["ratio"].keys() == {"ours again", "F.scaled_dot_product_attention"}


def test_an_unknown_name_is_told_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="nonsense"):
        main(["nonsense"])
    assert capsys.readouterr().out.split() == [*workloads.WORKLOADS, *start.NAMES]


def test_saved_models_load_and_say_a_token_in_a_fresh_process():
    found = start.measure("first_token", 1)
    assert {"ours", "ours again", "torch"} <= found["seconds"].keys()
    assert found["ratio"].keys() == found["seconds"].keys() - {"ours"}
