"""What only a real CUDA device can show: the numbers of the CPU, and how often the host waits.

`torch.cuda.set_sync_debug_mode` makes PyTorch warn wherever the host waits, uploads that are not
pinned included. Numbers of two lengths are subtracted, so that what happens once does not count.
"""

import copy
import warnings
from pathlib import Path
from unittest import mock

import pytest
import torch
from test_devices import LETTERS, MODELS, ROWS, classifier, encoder_decoder, language_model

from former_nb.attention.fused import attention
from former_nb.data.text import BOS
from former_nb.decoding import classification
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import generate
from former_nb.decoding.classification import predict
from former_nb.decoding.sampling import Sampling
from former_nb.decoding.translating import translate
from former_nb.training.fitting import fit
from former_nb.training.losses import evaluate
from former_nb.training.training_config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def waits(work) -> int:
    "How often the host waits for the device while it does the work."
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            work()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(w.message) for w in seen)


def trained(model, batches, steps, every, device="cuda", **kwargs):
    plan = TrainingConfig(steps=steps, lr=1e-2, eval_every=every, **{"precision": "no"} | kwargs)
    return fit(model, batches, batches, plan, device=device, progress=False)


@pytest.mark.parametrize("which", MODELS)
def test_training_gives_the_numbers_of_the_cpu(which):
    torch.manual_seed(0)
    model, batches = MODELS[which]()
    twin = copy.deepcopy(model)
    here, there = trained(model, batches, 8, 4), trained(twin, batches, 8, 4, "cpu")
    for name in ("train", "valid"):
        assert here[name].tolist() == pytest.approx(there[name].tolist(), rel=1e-2)


@pytest.mark.parametrize("which", MODELS)
def test_training_waits_for_evaluations_only(which):
    model, batches = MODELS[which]()
    trained(model, batches, 4, 4)  # all is on the device, all kernels are loaded
    few, many = (waits(lambda n=n: trained(model, batches, n, n)) for n in (4, 24))
    assert many == few
    assert waits(lambda: trained(model, batches, 24, 8)) - many == 2  # two evaluations more
    assert waits(lambda: evaluate(model, batches)) == 1


def test_decoding_waits_once_for_each_token_at_most():
    model, two = language_model()[0].eval().cuda(), encoder_decoder()[0].eval().cuda()
    never, prompts = dict(eos_token_ids=None), [[BOS, 5], [BOS, 6, 7, 8]]

    def per_token(work):
        work(6)
        return (waits(lambda: work(26)) - waits(lambda: work(6))) / 20

    for sampling in (Sampling(), Sampling(seed=3, top_p=0.9), Sampling(temperature=0)):
        assert per_token(lambda n, s=sampling: generate(model, prompts, n, s, **never)) <= 1
    assert per_token(lambda n: beam_search(model, prompts[0], 3, n, **never)) <= 1
    for beams in (1, 3):
        translate(two, LETTERS, ["abc"], beams)
        assert waits(lambda b=beams: translate(two, LETTERS, ["abc", "hgfe", "ab"], b)) <= 40 + 5


def test_predictions_are_read_at_once():
    model, texts = classifier()[0].eval(), ["abc", "hgfe" * 30, "ab", "a"]
    expected = predict(model, LETTERS, texts)
    model.cuda()
    assert predict(model, LETTERS, texts).label.tolist() == expected.label.tolist()
    one = waits(lambda: predict(model, LETTERS, texts))
    with mock.patch.object(classification, "MAX_TOKENS", 40):
        assert waits(lambda: predict(model, LETTERS, texts)) == one


def test_greedy_text_is_that_of_the_cpu_while_no_two_tokens_are_near():
    torch.manual_seed(0)
    model, _ = language_model()
    trained(model, [r for r in language_model()[1]], 40, 40)
    model.eval().cpu()
    greedy = dict(pick=Sampling(temperature=0), eos_token_ids=None)
    here = generate(model, [ROWS[3][:2]], 8, **greedy)
    there = generate(model.cuda(), [ROWS[3][:2]], 8, **greedy)
    logits = model.cpu()(torch.tensor(here)[:, 1:-1])
    best = logits.topk(2).values
    if (best[..., 0] - best[..., 1]).min() > 1e-3:
        assert here == there


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("T, S", [(7, 7), (5, 9), (64, 64), (192, 192), (1, 300)])
@pytest.mark.parametrize("d", [16, 20, 64])
def test_attention_and_its_gradient_are_those_of_float64(dtype, T, S, d):
    torch.manual_seed(0)
    q, k, v, dy = (torch.randn(2, 3, n, d, dtype=torch.float64) for n in (T, S, S, T))
    padding = torch.rand(2, 1, 1, S) > 0.3
    padding[0] = False  # rows with nothing to attend to
    bias = torch.randn(2, 3, T, S)
    bias[:, 1, 0] = -torch.inf
    near = 1e-5 if dtype is torch.float32 else 2e-2
    for how in (dict(), dict(is_causal=True), dict(mask=padding), dict(mask=bias)):
        found = []
        for device, kind in (("cpu", torch.float64), ("cuda", dtype)):
            inputs = [x.clone().to(device, kind).requires_grad_() for x in (q, k, v)]
            y = attention(
                *inputs, **{n: x.to(device) if n == "mask" else x for n, x in how.items()}
            )
            y.backward(dy.to(device, kind))
            found.append([t.double().cpu() for t in (y.detach(), *(x.grad for x in inputs))])
        for expected, got in zip(*found):
            assert (got - expected).norm() <= near * expected.norm(), how


@pytest.mark.parametrize("which", MODELS)
def test_half_precision_and_the_compiler_learn(which):
    torch.manual_seed(0)
    model, batches = MODELS[which]()
    batches = list(batches)
    before = evaluate(model.cuda(), batches)
    history = trained(model, batches, 30, 30, precision="auto", compile=which != "classifier")
    assert history["valid"].iloc[-1] < before
