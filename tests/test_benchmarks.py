"""The benchmarks name what is left out, and keep what they have measured."""

import json
import re
from pathlib import Path

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import chart, peers, start, timing, workloads
from benchmarks.__main__ import main

CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[1]
TOLD = {  # what README.md says of a workload, by its words there
    "train a generator, 10.8 M, bf16": "train_generator/10.8M/bfloat16",
    "train a translator": "train_translator",
    "write 16 texts, 10.8 M": "generate/10.8M/16",
    "translate with 4 beams": "translate/beam/4",
}
QUICK = ["--seconds", "0"]


def broken():
    raise TypeError("forward() got an argument it does not know\nand more")


def missing():
    import no_such_peer  # noqa: F401


def test_a_missing_peer_or_one_of_another_version_is_named_and_left_out(capsys):
    makers = {"ours": lambda: 1, "theirs": missing, "another": broken}
    assert peers.available(makers) == {"ours": 1}
    said = capsys.readouterr().err.splitlines()
    assert [line.strip() for line in said] == [
        "theirs is left out: no_such_peer is not installed",
        "another is left out: forward() got an argument it does not know",
    ]
    with pytest.raises(TypeError):  # ours is never left out
        peers.that_run({"ours": broken, "theirs": lambda: 1})


def test_the_readme_tells_what_was_measured():
    text, row = (ROOT / "README.md").read_text(encoding="utf-8"), "| {} | {} | {} | {} |"
    there = re.findall(r"^\| .+ \| (?:Hugging Face|nn\.|x-).+ \| [\d.]+ \| [\d.]+ \|$", text, re.M)
    files = [ROOT / "benchmarks" / "results" / f"{name}.json" for name in ("cpu-1", "cuda-1")]
    found = [json.loads(file.read_text(encoding="utf-8"))["workloads"] for file in files]
    for said, (words, workload) in zip(there, TOLD.items()):
        peer = said.split(" | ")[1]
        ratios = (f"{works[workload]['ratio'][peer][1]:.2f}".lstrip("0") for works in found)
        assert said == row.format(words, peer, *ratios)
    assert len(there) == len(TOLD)


def test_every_contender_of_the_smallest_workloads_runs():
    for name in ("attention/128/causal/backward", "multi_head/128/causal/forward"):
        work = workloads.WORKLOADS[name](CPU)
        assert len(work.runs) == 2 and work.flops > 0
        for run in work.runs.values():
            run()


def test_what_does_not_fit_in_memory_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(timing, "free_memory", lambda device: 2**30)
    assert "written out" in workloads.memory(128, CPU).runs
    assert "written out" not in workloads.memory(16384, CPU).runs
    assert "left out: it needs some 20 GiB" in capsys.readouterr().err


def test_the_command_measures_and_keeps(tmp_path, monkeypatch):
    monkeypatch.setenv("FORMER_NB_DEVICE", "cpu")
    name, kept = "attention/128/full/forward", {"ratio": {}, "seconds": {}, "limit": None}
    file = tmp_path / "cpu-1.json"
    file.write_text(json.dumps({"workloads": {"an older one": kept}}))
    main([name, *QUICK, "--out", str(tmp_path)])
    results = json.loads(file.read_text())
    found = results["workloads"]
    assert found.keys() == {"an older one", name} and file.with_suffix(".svg").exists()
    assert found[name]["ratio"].keys() == {"ours again", "F.scaled_dot_product_attention"}
    assert results["versions"]["torch"] and 0 < found[name]["limit"]


def test_a_workload_that_fails_is_left_out_and_a_lost_device_stops(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("FORMER_NB_DEVICE", "cpu")
    names = [f"attention/128/{rule}/forward" for rule in ("full", "causal")]
    real = command.measure
    lost = lambda name, *rest: real(name, *rest) if name == names[0] else broken_device()

    def broken_device():
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(command, "measure", lost)
    main([*names, *QUICK, "--out", str(tmp_path)])
    assert f"{names[1]} is left out: out of memory\n" in capsys.readouterr().err
    (tmp_path / "cpu-1.json").unlink()
    monkeypatch.setattr(command, "is_there", lambda device: False)
    with pytest.raises(SystemExit, match="cpu is gone; what was measured is in"):
        main([*names, *QUICK, "--out", str(tmp_path)])
    assert json.loads((tmp_path / "cpu-1.json").read_text())["workloads"].keys() == {names[0]}


def test_the_table_has_a_column_per_run_and_a_row_per_peer():
    ratio = {"ours again": [0.99, 1.0, 1.02], "theirs": [0.5, 0.6, 0.7]}
    run = {"device": "cpu, a core", "versions": {"torch": "2.13"}}
    one = run | {"threads": 1, "workloads": {"work": {"ratio": ratio, "limit": 0.5}}}
    two = run | {"threads": 2, "workloads": {}}
    lines = chart.table([two, one]).splitlines()
    assert lines[0] == "| work | ours against | cpu, 1 thread(s) | cpu, 2 thread(s) |"
    assert "| work | ours again | 1.00 (0.99–1.02); 50% of the limit | – |" in lines
    assert "| work | theirs | 0.60 (0.50–0.70) | – |" in lines
    assert lines[-1] == "cpu, a core, 2 thread(s): torch 2.13."


def test_an_unknown_name_is_told_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="nonsense"):
        main(["nonsense"])
    assert capsys.readouterr().out.split() == [*workloads.WORKLOADS, *start.NAMES]


def test_saved_models_load_and_say_a_token_in_a_fresh_process(monkeypatch, tmp_path):
    codes = start.save_models(tmp_path)
    assert {"ours", "ours again", "torch"} <= codes.keys()
    for code in {*codes.values()}:
        start.run(code)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        start.run("1 / 0")


def test_memory_is_measured_in_a_process_of_its_own(monkeypatch, capsys):
    found = timing.peaks("memory/4096", ["ours"])
    assert found.keys() == {"ours"} and found["ours"] > 0
    monkeypatch.setattr(timing.sys, "executable", "false")  # as if it had been killed
    assert timing.peaks("memory/4096", ["ours"]) == {}
    assert "ours is left out: its process ended: not enough memory" in capsys.readouterr().err
