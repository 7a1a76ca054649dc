"""Every device, on machines that have none: nothing is mixed, and the processor waits as seldom as
is said. Each test runs in a process of its own, in which `pretend` makes PyTorch believe."""

import copy
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from unittest import mock

import pytest
import torch
from pretend import KINDS, pretend
from process_tools import succeeds
from refusals import refuses
from thorough import some

from former_nb.base.core import pick_device
from former_nb.data.batches import make_batches
from former_nb.data.text import BOS, EOS
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding import classification
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import generate
from former_nb.decoding.classification import collate_labels, predict
from former_nb.decoding.sampling import Sampling
from former_nb.decoding.translating import translate
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import collate_pairs
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.training import muon
from former_nb.training.fitting import fit
from former_nb.training.losses import evaluate, exact_match
from former_nb.training.training_config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="a device is pretended on Linux only")
SIZES = dict(d_model=16, n_heads=2, n_layers=2, d_ff=32, dropout=0.0)
LETTERS = CharTokenizer("abcdefgh")
ROWS = [[BOS, *[4 + (i * j) % 8 for j in range(2 + i % 5)], EOS] for i in range(24)]


def config(**kwargs):
    return TransformerConfig(LETTERS.vocab_size, 40, **SIZES | kwargs)


def language_model():
    return LanguageModel.from_config(config(positions="rotary")), make_batches(
        ROWS, 6, shuffle=True
    )


def classifier():
    rows = [(row, i % 2) for i, row in enumerate(ROWS)]
    return Classifier.from_config(config(), 2), make_batches(
        rows, 6, collate=collate_labels, length=first
    )


def encoder_decoder():
    rows = [(row, row[:1] + row[:0:-1]) for row in ROWS]
    return EncoderDecoder.from_config(config()), make_batches(
        rows, 6, collate=collate_pairs, length=first
    )


def first(row):
    return len(row[0])


MODELS = {"generator": language_model, "classifier": classifier, "two stacks": encoder_decoder}


def each_kind(test):
    "Run the test once for each kind of device."
    return LINUX(pytest.mark.parametrize("kind", KINDS)(test))


def alone(function, *args):
    "Run a function of this file in a process of its own."
    succeeds(f"import test_devices; test_devices.{function.__name__}(*{args!r})")


def count(seen, work):
    "How often the processor waits for the device, and hands data over, while it does the work."
    seen.waits.clear(), seen.uploads.clear()
    work()
    return sum(seen.waits.values()), sum(seen.uploads.values())


def see_training(kind, which):
    torch.manual_seed(0)
    muon.fast_precision = lambda device: torch.float32  # on purpose, devices differ in it
    model, batches = MODELS[which]()
    twin = copy.deepcopy(model)

    def run(steps, every, model=model, device=kind):
        plan = TrainingConfig(steps=steps, lr=1e-2, precision="no", eval_every=every)
        return fit(model, batches, batches, plan, device=device, progress=False)

    angles = kind == "mps" and which == "generator"  # in float64, so on the CPU
    with pretend(kind) as seen:
        on_device = run(8, 4)
        at_once, sent = count(seen, lambda: run(4, 4))
        assert angles or at_once == 1, seen
        assert angles or count(seen, lambda: run(8, 4))[0] == 2, seen  # evaluations
        assert kind == "mps" or count(seen, lambda: run(8, 8)) == (1, sent), seen  # pinned
        assert next(model.parameters()).device.type == kind
        assert angles or count(seen, lambda: evaluate(model, batches))[0] == 1, seen
        assert (
            angles
            or which == "classifier"
            or count(seen, lambda: exact_match(model, batches))[0] == 1
        )
    on_cpu = run(8, 4, twin, "cpu")
    for name in ("train", "valid"):
        assert on_device[name].tolist() == pytest.approx(on_cpu[name].tolist(), rel=1e-3)


@LINUX
@pytest.mark.parametrize(("kind", "which"), some(product(KINDS, MODELS), 2))
def test_training_waits_once_for_each_evaluation_and_learns_the_same(kind, which):
    alone(see_training, kind, which)


def see_bf16(kind):
    with pretend(kind):
        model, batches = language_model()
        seen = set()
        linear = model.stack.blocks[0].ff.w_in
        linear.register_forward_hook(lambda m, _, x: seen.add((m.training, x.dtype)) and None)
        fit(model, batches, batches, TrainingConfig(steps=2), device=kind, progress=False)
        half = torch.bfloat16 if kind == "cuda" else torch.float32
        assert seen == {(True, half), (False, torch.float32)}


@each_kind
def test_cuda_computes_a_step_in_bf16(kind):
    alone(see_bf16, kind)


def see_decoding(kind):
    torch.manual_seed(0)
    model, two = language_model()[0].eval(), encoder_decoder()[0].eval()
    never = dict(eos_token_ids=None)
    with pretend(kind) as seen:
        model.to(kind), two.to(kind)
        prompts = [[BOS, 5], [BOS, 6, 7, 8]]

        def per_token(work):
            few, many = (count(seen, lambda n=n: work(n))[0] for n in (13, 33))
            return (many - few) / 20

        most = 2 if kind == "mps" else 1  # angles are in float64, so on the CPU
        for sampling in (Sampling(), Sampling(seed=3, top_p=0.9), Sampling(temperature=0)):
            assert per_token(lambda n, s=sampling: generate(model, prompts, n, s, **never)) <= most
        assert per_token(lambda n: beam_search(model, prompts[0], 3, n, **never)) <= most
        assert per_token(lambda n: beam_search(model, prompts[:1] * 2, 3, n, **never)) <= most
        texts = ["abc", "hgfedcba", "ab"]
        for beams in (1, 3):
            waits = count(seen, lambda b=beams: translate(two, LETTERS, texts, b))[0]
            assert waits <= 40 + 3, (beams, seen.waits)  # max_len steps, and at the ends


@each_kind
def test_decoding_waits_once_for_each_token_at_most(kind):
    alone(see_decoding, kind)


def see_predictions(kind):
    torch.manual_seed(0)
    model, texts = classifier()[0].eval(), ["abc", "hgfe" * 30, "", "ab", "a"]
    expected = predict(model, LETTERS, texts)
    with pretend(kind) as seen:
        model.to(kind)
        found = []
        one = count(seen, lambda: found.append(predict(model, LETTERS, texts)))[0]
        with mock.patch.object(classification, "MAX_TOKENS", 40):
            many = count(seen, lambda: predict(model, LETTERS, texts))[0]
        assert one == many == 1, seen
    assert found[0]["label"].tolist() == expected["label"].tolist()
    assert found[0]["p(1)"].tolist() == pytest.approx(expected["p(1)"].tolist(), nan_ok=True)


@each_kind
def test_predictions_are_read_at_once(kind):
    alone(see_predictions, kind)


def see_defaults(kind):
    with pretend(kind):
        torch.set_default_device(kind)  # as many lessons do
        for make in MODELS.values():
            model, batches = make()
            history = fit(model, batches, batches, TrainingConfig(steps=4), progress=False)
            assert math.isfinite(history["train"].item())
        assert translate(model, LETTERS, ["abc"], 2)[0].text is not None
        torch.set_default_device(None)


@each_kind
def test_all_works_where_tensors_are_made_on_the_device(kind):
    alone(see_defaults, kind)


def see_mistakes(kind):
    with pretend(kind) as seen:
        x = torch.ones(3, device=kind)
        for wrong in (lambda: x + torch.ones(3), lambda: torch.ones(3)[x.long()], x.numpy):
            with pytest.raises((RuntimeError, TypeError)):
                wrong()
        assert not seen.waits
        assert count(seen, lambda: (x.sum().item(), x.tolist(), x[x > 0])) == (3, 0)
        assert count(seen, lambda: torch.ones(3).to(kind)) == (0, 1)
        if kind == "mps":
            with pytest.raises(TypeError, match="float64"):
                x.double()
        assert (x + 1).requires_grad_().square().sum().backward() is None
        assert pick_device(kind).type == kind


@each_kind
def test_what_is_pretended_catches_what_a_device_refuses(kind):
    alone(see_mistakes, kind)


def test_a_device_that_is_not_there_is_refused_in_one_sentence(monkeypatch):
    for name in ("cuda", "mps"):
        module = torch.cuda if name == "cuda" else torch.backends.mps
        monkeypatch.setattr(module, "is_available", lambda: False)
    model, batches = language_model()
    monkeypatch.setenv("FORMER_NB_DEVICE", "cuda")
    for device in ("auto", "cuda", "mps"):
        name = "cuda" if device == "auto" else device
        call = lambda: fit(model, batches, batches, device=device)
        refuses(call, ValueError, "device", f"'{name}'")


HEAVY = "torch._dynamo torch._inductor pandas accelerate matplotlib altair sacrebleu pooch scipy"


def test_what_a_command_that_writes_does_not_need_is_not_imported():
    code = "import sys; from former_nb.cli import main; sys.argv[1:] = 'generate --device cpu'"
    code += ".split()\ntry: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY.split()) & set(done.stdout.split())


def see_graphs(which):
    import torch._dynamo
    from torch._dynamo.utils import counters

    compiled = torch.compile
    torch.compile = lambda model: compiled(model, backend="eager")  # the graphs, and no compiler
    torch.manual_seed(0)
    model, _ = MODELS[which]()
    twin, plan = MODELS[which]()[0], dict(steps=8, lr=1e-2)
    twin.load_state_dict(model.state_dict())
    batches = list(MODELS[which]()[1])
    plain, built = (
        fit(m, batches, batches, TrainingConfig(**plan, compile=c), device="cpu", progress=False)
        for m, c in ((twin, False), (model, True))
    )
    assert built["valid"].tolist() == pytest.approx(plain["valid"].tolist(), rel=1e-4)
    assert not counters["graph_break"], counters["graph_break"]
    assert 1 <= counters["stats"]["unique_graphs"] <= 3, counters["stats"]


@pytest.mark.parametrize("which", some(MODELS, 2))
def test_a_compiled_model_is_one_graph_for_all_lengths(which):
    alone(see_graphs, which)


ON_DEVICE = [("mps", "02_attention"), ("cuda", "02_attention"), ("mps", "05_positions")]


@LINUX
@pytest.mark.parametrize(("kind", "page"), some(ON_DEVICE, 3))
def test_a_page_runs_on_the_device(kind, page):
    page = f"nbs/{page}.ipynb"
    done = subprocess.run([sys.executable, "tests/pretend.py", kind, page], cwd=ROOT)
    assert done.returncode == 0
