"""The benchmarks name what is left out, and keep what they have measured."""

import json
from pathlib import Path

import pytest
import torch
from thorough import some, weekly

import benchmarks.__main__ as command
from benchmarks import (
    chart,
    doctor,
    doctor_page,
    growth,
    peers,
    processes,
    profile,
    start,
    timing,
    workloads,
)
from benchmarks.__main__ import main
from former_nb.data.data_sets import load_translations
from former_nb.data.text import PAD
from former_nb.tasks.pairs import Multi30k

PEERS = {
    "write": {"ours", "Hugging Face GPT-2"},
    "translate": {"ours", "Hugging Face BART", "Hugging Face Marian"},
}
CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[1]
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


def results():
    files = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def test_the_readme_tells_what_was_measured():
    (table,) = chart.README_TABLE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert table == chart.readme(results()) and table.count("\n") > 3


def test_the_page_of_the_benchmarks_tells_what_was_reached(tmp_path):
    page = tmp_path / "README.md"
    page.write_bytes((ROOT / "benchmarks" / "README.md").read_bytes())
    command.write_aims(results(), page)
    assert page.read_bytes() == (ROOT / "benchmarks" / "README.md").read_bytes()
    assert len(chart.AIMS_TABLE.findall(page.read_text(encoding="utf-8"))) == 1


def test_the_page_of_quality_tells_what_the_doctors_said(tmp_path):
    page = tmp_path / "QUALITY.md"
    page.write_bytes(doctor_page.PAGE.read_bytes())
    doctor_page.write(json.loads(doctor.RESULTS.read_text(encoding="utf-8")), page)
    text = page.read_text(encoding="utf-8")
    assert page.read_bytes() == doctor_page.PAGE.read_bytes()
    assert all(text.count(head) == 1 for head in doctor_page.TABLES)


def test_a_tool_that_takes_too_long_or_fails_has_no_verdict(capsys):
    def slow(make):
        while True:
            pass

    def fails(make):
        raise RuntimeError("the size of tensor a must match")

    assert "no verdict" in doctor.ask(slow, None, 0.1)
    assert doctor.ask(fails, None, 1.0)["not taken"].startswith("RuntimeError: the size")
    assert doctor.ask(lambda make: ["a leak"], None, 1.0)["said"] == ["a leak"]


def test_an_aim_is_reached_by_rounded_medians_or_out_of_reach(monkeypatch):
    known = [("a", "one", "peer", 0.5, 0.8), ("b", "some", "peer", 0.9, 0.5)]
    monkeypatch.setattr(chart, "AIMS", known)
    several = [run_of("cpu, a", one=0.804, some=0.6), run_of("cpu, b", one=0.9)]
    several += [run_of("NVIDIA H100", one=0.1), run_of("cpu, a", one=0.1) | {"threads": 2}]
    rows = [
        "| a | peer | .80–.90 | 50% | .40–.45 | .80 | 1 of 2 |",
        "| b | peer | .60 | 90% | .54 | .50 | out of reach |",
    ]
    assert chart.aims(several).splitlines()[2:] == rows


def test_no_result_is_of_a_workload_that_is_no_more():
    assert {name for run in results() for name in run["workloads"]} <= {*command.NAMES}
    assert {name for _, name, *_ in chart.AIMS} <= {*command.NAMES}
    assert {name for name, _ in chart.README.values()} <= {*command.NAMES}


def run_of(device, **medians):
    works = {name: {"ratio": {"peer": [0, median, 9]}} for name, median in medians.items()}
    return {"device": device, "threads": 1, "workloads": works}


def test_the_readme_gives_a_range_and_leaves_out_what_nobody_measured(monkeypatch, tmp_path):
    known = {word: (word, "peer") for word in ("one", "some", "none", "gpu")}
    monkeypatch.setattr(chart, "README", known)
    several = [
        run_of("cpu, a", some=0.9, one=1.05),
        run_of("cpu, b", some=0.72),
        run_of("cpu, c", some=0.8),
    ]
    several += [run_of("NVIDIA H100", gpu=0.5), run_of("NVIDIA T4", some=0.1)]
    several += [run_of("cpu, a", some=0.1) | {"threads": 2}]
    rows = [
        "| one | peer | 1.05 | – |",
        "| some | peer | .72–.90 | – |",
        "| gpu | peer | – | .50 |",
    ]
    assert chart.readme(several).splitlines()[2:] == rows
    old = "before\n\n" + chart.README_HEAD + "|---|---|---|---|\n| old | x | .1 | .2 |\n\nafter ·"
    index = tmp_path / "index.ipynb"
    index.write_text(json.dumps({"cells": [{"source": old.splitlines(keepends=True)}]}))
    command.write_readme(several, index)
    (cell,) = json.loads(index.read_text(encoding="utf-8"))["cells"]
    assert "".join(cell["source"]) == f"before\n\n{chart.readme(several)}\nafter ·"


def test_writing_the_table_that_is_there_changes_no_byte(tmp_path):
    index = tmp_path / "index.ipynb"
    index.write_bytes((ROOT / "nbs" / "index.ipynb").read_bytes())
    command.write_readme(results(), index)
    assert index.read_bytes() == (ROOT / "nbs" / "index.ipynb").read_bytes()


def test_processors_of_one_name_have_files_of_their_own(tmp_path):
    told = (
        "processor\t: 0\ncpu family\t: 6\nmodel\t\t: {}\nmodel name\t: Intel(R) Xeon(R) Processor\n"
    )
    files = set()
    for model in (143, 207):
        (tmp_path / "cpuinfo").write_text(told.format(model))
        said = command.machine(CPU, tmp_path / "cpuinfo")
        assert said == f"cpu, Intel(R) Xeon(R) Processor, family 6, model {model}"
        files.add(command.results_file(tmp_path, said, 2).name)
    assert files == {f"cpu-2-intel-xeon-processor-family-6-model-{n}.json" for n in (143, 207)}
    assert command.results_file(tmp_path, "NVIDIA H100 80GB HBM3", 1).name[:7] == "cuda-1-"
    assert command.machine(CPU, tmp_path / "none").startswith("cpu, ")


@weekly
def test_the_translator_is_timed_in_the_batches_of_its_recipe():
    pads = {}
    for kind in ("buckets", "unsorted"):
        sides = [t for x, _ in workloads.translator_batches(kind) for t in x]
        pads[kind] = sum((t == PAD).sum().item() for t in sides) / sum(t.numel() for t in sides)
        assert all(t.numel() <= Multi30k.batch_tokens for t in sides)
    assert len(sides) == 2 and pads["buckets"] < 0.15
    if load_translations()[1].startswith("Multi30k"):  # number words are nearly of one length
        assert 0.25 < pads["unsorted"]


def test_everyone_writes_to_the_end_and_nobody_rewrites_logits_for_it(monkeypatch):
    pytest.importorskip("transformers")
    from transformers import MinNewTokensLengthLogitsProcessor as Rewrites

    monkeypatch.setattr(Rewrites, "__call__", lambda *args: pytest.fail("logits are rewritten"))
    new = {"write": 128, "translate": 32}
    for name in some(("write/0.8M/1", "translate/4", "translate/1"), 2):
        runs = workloads.WORKLOADS[name](CPU).runs
        assert runs.keys() == PEERS[name.split("/")[0]]
        for who, run in runs.items():
            begin = 16 if name.startswith("write") else 1
            assert {len(row) for row in run()} == {begin + new[name.split("/")[0]]}, (name, who)


def test_every_contender_of_the_smallest_workloads_runs():
    for name, n in {
        "attention/128/causal/backward": 2,
        "multi_head/128/causal/forward": 2,
        "train_generator/0.8M/float32": 3,
    }.items():
        work = workloads.WORKLOADS[name](CPU)
        assert len(work.runs) >= n and work.flops > 0
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
    file = command.results_file(tmp_path, command.machine(CPU), 1)
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
    file = command.results_file(tmp_path, command.machine(CPU), 1)
    file.unlink()
    monkeypatch.setattr(command, "is_there", lambda device: False)
    with pytest.raises(SystemExit, match="cpu is gone; what was measured is in"):
        main([*names, *QUICK, "--out", str(tmp_path)])
    assert json.loads(file.read_text())["workloads"].keys() == {names[0]}


def test_the_table_has_a_column_per_run_and_a_row_per_peer():
    ratio = {"ours again": [0.99, 1.0, 1.02], "theirs": [0.5, 0.6, 0.7]}
    run = {"device": "cpu, a core", "versions": {"torch": "2.13"}}
    one = run | {"threads": 1, "workloads": {"work": {"ratio": ratio, "limit": 0.5}}}
    two = run | {"threads": 2, "workloads": {}}
    lines = chart.table([two, one]).splitlines()
    assert lines[0] == "| work | ours against | a core, 1 thread(s) | a core, 2 thread(s) |"
    assert "| work | ours again | 1.00 (0.99–1.02); 50% of the limit | – |" in lines
    assert "| work | theirs | 0.60 (0.50–0.70) | – |" in lines
    assert lines[-1] == "cpu, a core, 2 thread(s): torch 2.13."


def test_a_run_of_medians_only_has_a_number_in_the_table_and_widens_a_range():
    quartiles, only = [0.5, 0.57, 0.6], [0.76]
    run = {"threads": 1, "versions": {}}
    several = [
        run
        | {"device": f"cpu, {n}", "workloads": {"work": {"ratio": {"theirs": r}, "limit": None}}}
        for n, r in enumerate((quartiles, only))
    ]
    assert "| work | theirs | 0.57 (0.50–0.60) | 0.76 |" in chart.table(several)
    assert chart.span(chart.medians(several, "work", "theirs")) == ".57–.76"


def test_each_file_of_medians_only_says_so():
    for run in results():
        ratios = [q for w in run["workloads"].values() for q in w["ratio"].values()]
        assert ("note" in run) == any(len(ratio) == 1 for ratio in ratios)


def test_an_unknown_name_is_told_the_known_ones(capsys):
    with pytest.raises(SystemExit, match="nonsense"):
        main(["nonsense"])
    names = [*workloads.WORKLOADS, *start.NAMES, *processes.NAMES]
    assert capsys.readouterr().out.split() == names


def test_saved_models_load_and_say_a_token_in_a_fresh_process(monkeypatch, tmp_path):
    codes = start.save_models(tmp_path)
    assert {"ours", "ours again", "torch"} <= codes.keys()
    for code in some(dict.fromkeys(codes.values()), 3):
        start.run(code)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        start.run("1 / 0")


@weekly
def test_steps_of_two_processes_take_turns_with_those_of_one(tmp_path):
    tiny = dict(d_model=16, n_heads=2, n_layers=1, d_ff=16, max_len=8)
    assert len(processes.time_steps(tmp_path, 2, 4, tiny, 0.02)) == 4
    with pytest.raises(RuntimeError, match="n_heads"):
        processes.time_steps(tmp_path, 2, 1, tiny | {"n_heads": 3}, None)


def test_steps_of_processes_are_compared_as_ratios(monkeypatch):
    def pretend(folder, n, steps, *how):
        return [6.0 / n] * steps

    monkeypatch.setattr(processes, "time_steps", pretend)
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 2)
    found = processes.measure("two_processes/0.8M/Muon", 0)
    assert found["ratio"] == {"one process": [0.5] * 3}
    monkeypatch.setattr(processes.os, "cpu_count", lambda: 1)
    with pytest.raises(ValueError, match="two cores"):
        processes.measure("two_processes/0.8M/Muon", 0)


def test_memory_is_measured_in_a_process_of_its_own(monkeypatch, capsys):
    found = timing.peaks("memory/4096", ["ours"])
    assert found.keys() == {"ours"} and found["ours"] > 0
    monkeypatch.setattr(timing.sys, "executable", "false")  # as if it had been killed
    assert timing.peaks("memory/4096", ["ours"]) == {}
    assert "ours is left out: its process ended: not enough memory" in capsys.readouterr().err


def test_growth_is_measured_in_processes_of_their_own(tmp_path, capsys, monkeypatch):
    def two(folder, largest):
        yield "rows", 3, "before, begin = peak(), time.process_time()\nreport(0.25)"
        yield "rows", 1_000, "before, begin = 0.0, 0.0\nreport()"

    monkeypatch.setitem(growth.KINDS, "two", two)
    growth.main(["two", "--name", "try", "--results", str(tmp_path)])
    rows = json.loads((tmp_path / "try.json").read_text(encoding="utf-8"))
    assert [row["size"] for row in rows] == [3, 1_000] and rows[0]["first"] == 0.25
    assert rows[0]["megabytes"] < rows[1]["megabytes"] and rows[1]["seconds"] > 0
    table = (tmp_path / "try.md").read_text(encoding="utf-8")
    assert "| rows | 1,000 |" in table and table.splitlines()[-1] in capsys.readouterr().out
    with pytest.raises(SystemExit):
        growth.main(["rows"])
    assert "kinds: expected some of" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="NameError"):
        growth.run("no_such_name")


def test_each_kind_of_growth_has_programs_that_run(tmp_path):
    code = growth.STEP.format(length=8, batch=2, vocabulary=9)
    assert len(growth.run(code)) == 3
    names = {name for name, _, _ in growth.steps(tmp_path, False)}
    assert names == {"length", "batch", "vocabulary"}
    growth.number_words(tmp_path / "lines", 5)
    code = growth.LINES.format(folder="numbers", file=str(tmp_path / "lines"))
    assert growth.run(code)[2] > 0


def test_energy_is_read_where_the_machine_counts_it(tmp_path):
    cpu = torch.device("cpu")
    assert timing.joules(lambda: None, cpu, 0.0, tmp_path) is None  # nothing is counted
    for name in ("intel-rapl:0", "intel-rapl:0:1", "intel-rapl:1"):  # two packages, a part of one
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text("1000000")
    counter = tmp_path / "intel-rapl:1" / "energy_uj"

    def run():
        counter.write_text(str(int(counter.read_text()) + 2_500_000))

    assert timing.read_joules(cpu, tmp_path) == 2
    assert timing.joules(run, cpu, 0.0, tmp_path) == 2.5
    assert timing.joules(lambda: counter.write_text("0"), cpu, 0.0, tmp_path) is None


def test_a_profile_gives_each_kind_of_operation_its_share():
    assert profile.kind_of("aten::addmm") == "matrix products"
    assert profile.kind_of("aten::native_layer_norm_backward") == "norms"
    assert profile.kind_of("aten::_softmax") == "softmax and loss"
    assert profile.kind_of("aten::_scaled_dot_product_flash_attention_for_cpu") == "attention"
    assert profile.kind_of("aten::unheard_of") == "other operations"
    a, b = torch.randn(300, 300), torch.randn(300, 300)
    found = profile.shares(lambda: a @ b, CPU)
    assert sum(found.values()) == pytest.approx(1)
    operations = [kind for kind in found if not kind.startswith("Python")]  # waits for a busy core
    assert operations[0] == "matrix products"  # 54 million operations beside a few calls
    assert "matrix products" in profile.say("work", "ours", found)


def test_a_compiled_contender_takes_the_same_step():
    def losses(compiled):
        torch.manual_seed(0)
        model, tokens = torch.nn.Embedding(7, 7), torch.arange(6)[None]
        seen = []

        def logits(model, x):
            seen.append(model(x))
            return seen[-1]

        models = {"theirs": lambda: (model, logits)}
        step = workloads.steps(models, [(tokens, tokens)], CPU, compiled=compiled)["theirs"]
        step(), step()
        return seen

    for plain, compiled in zip(losses(False), losses(True)):
        torch.testing.assert_close(plain, compiled)
