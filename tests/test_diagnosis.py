"""The report says where and what to try, and the model stays as it was."""

import copy

import pytest
import torch
from broken_models import BROKEN
from healthy_models import HEALTHY
from refusals import refuses
from typer.testing import CliRunner

from former_nb import diagnose
from former_nb.cli import app


@pytest.fixture(autouse=True)
def quiet():
    "Hugging Face says on making what it would say of a download."
    pytest.importorskip("transformers").logging.set_verbosity_error()


def test_it_leaves_the_model_as_it_was():
    model, batch, loss, optimizer = HEALTHY["nanogpt_dropout_half"]()
    model.train()
    model.h[0].eval()
    modes = [module.training for module in model.modules()]
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    drawn = torch.rand(3)
    torch.manual_seed(3)
    diagnose(model, batch, loss, optimizer)
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters()) and not optimizer.state
    assert [module.training for module in model.modules()] == modes
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_report_names_part_line_numbers_and_what_to_try():
    make, _ = BROKEN["nano_not_causal"]
    report = str(diagnose(*make()))
    assert report.startswith("1 finding, in ") and "says what comes next" in report
    assert "in h.0.attn · broken_models.py:" in report
    assert (
        "Attention has neither a mask nor is_causal." in report and "Try: is_causal=True" in report
    )


def test_a_model_that_raises_is_told_where():
    class Wrong(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x.float())

    found = diagnose(Wrong(3, 4), (torch.zeros(2, 5).long(), torch.zeros(2).long()))
    [finding] = found.findings
    assert finding.name == "it doesn't run" and "test_diagnosis.py" in finding.part


def test_what_is_no_model_and_no_batch_is_refused():
    model, batch, *_ = HEALTHY["nanogpt"]()
    refuses(lambda: diagnose(len, batch), TypeError, "model")
    refuses(lambda: diagnose(model, batch[0]), ValueError, "batch")
    refuses(lambda: diagnose(model, {"input_ids": batch[0]}), ValueError, "batch", "input_ids")


def test_the_command_runs_a_file(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from broken_models import BROKEN\nmake = BROKEN['nano_targets_unshifted'][0]\n"
    )
    done = CliRunner().invoke(app, ["diagnose", f"{file}:make"])
    assert done.exit_code == 1 and "1. targets aren't shifted" in done.output
    done = CliRunner().invoke(app, ["diagnose", f"{file}:BROKEN"])
    assert done.exit_code != 0 and "a function that gives (model, batch)" in done.output
