"""What each tool is given, and what it says: a function for each, from a model's maker to words.

A maker gives (model, batch, loss, optimizer) anew. Others' tools are imported when they're asked.
"""

import contextlib
import io
import time

import torch
from torch import nn

from former_nb import diagnose
from former_nb.diagnosis.case import Case, logits_of


class NotTaken(Exception):
    "A tool doesn't take a model of this kind."


def ours(make):
    "The names of the findings."
    return [finding.name for finding in diagnose(*make()).findings]


def torchtest2(make):
    "The checks that failed, or that warn."
    import torchtest2

    model, batch, loss, optimizer = make()
    case = Case.of(model, batch, loss, optimizer)
    given = {"optimizer": optimizer}
    if case.loss is not None:
        given["loss_fn"] = lambda out, targets: case.loss(logits_of(out), targets)
    targets = None if case.loss is None else case.targets
    report = torchtest2.check_model(model, case.inputs, targets, **given)
    return [f"{r.status.name}: {r.name}" for r in (*report.failures, *report.warnings)]


class Logits(nn.Module):
    "A model as neural_net_checklist calls it: one tensor that may have a slope in, logits out."

    def __init__(self, model, ids):
        super().__init__()
        self.model = model
        self.table = None if ids is None else (table_of(model, ids),)  # not twice a part

    def forward(self, inputs):
        if self.table is None:
            return logits_of(self.model(inputs))
        (table,) = self.table
        hook = table.register_forward_hook(lambda *_: inputs @ table.weight)
        try:
            return logits_of(self.model(inputs.argmax(dim=-1)))
        finally:
            hook.remove()


def table_of(model, ids):
    "The embedding that is read at the tokens."
    found = []
    hooks = [
        module.register_forward_pre_hook(
            lambda module, given: found.append(module) if torch.equal(given[0], ids) else None
        )
        for module in model.modules()
        if isinstance(module, nn.Embedding)
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    if not found:
        raise NotTaken("no nn.Embedding that reads the tokens")
    return found[0]


def checklist(make):
    "The first check that failed. It has a loss and an optimizer of its own, and takes one tensor."
    from neural_net_checklist import torch_diagnostics as checks

    case = Case.of(*make())
    inputs, targets = case.inputs, case.targets
    if isinstance(inputs, dict):
        others = set(inputs) - {"input_ids", "attention_mask", "labels", "use_cache"}
        if others or not inputs.get("attention_mask", torch.ones(1)).all():
            raise NotTaken("it takes one tensor")
        inputs = inputs["input_ids"]
        if case.loss is None and targets.shape == inputs.shape:  # which the model would shift
            inputs, targets = inputs[:, :-1], targets[:, 1:]
    if not isinstance(inputs, torch.Tensor) or targets.is_floating_point():
        raise NotTaken("it takes one tensor, and classes")
    with torch.no_grad():
        logits = logits_of(case.model.eval()(inputs))
    case = Case(case.model, inputs, targets, case.loss, None)
    case.classify(logits)
    ids = None
    if not inputs.is_floating_point():
        ids = inputs
        inputs = nn.functional.one_hot(ids, table_of(case.model, ids).num_embeddings).float()
    if case.kind == "causal":
        check = checks.assert_all_for_causal_llm_cross_entropy_loss
        given = {"vocab_size": logits.shape[-1]}
    elif logits.ndim == 2 and targets.ndim == 1 and logits.shape[-1] > 1:
        check = checks.assert_all_for_classification_cross_entropy_loss
        given = {"num_classes": logits.shape[-1]}
    else:
        raise NotTaken("neither a causal model nor a classifier of rows")

    def batches(n):  # it asks for more rows than there are
        rows = torch.arange(n or len(inputs)) % len(inputs)
        return inputs[rows], targets[rows]

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            check(lambda: Logits(make()[0], ids), batches, device="cpu", **given)
    except AssertionError:
        begun = [line for line in said.getvalue().splitlines() if line.startswith("🔍 Check")]
        begun += [line for line in said.getvalue().splitlines() if "Overfitting" in line]
        return [begun[-1].strip("🔍 .")]
    return []


def default_plus_plus(make, epochs=6, steps=5):
    "Category and root cause that its weights predict from thirty steps of training."
    from defaultplusplus import FeatureExtractor
    from defaultplusplus.diagnosis import load_pretrained
    from defaultplusplus.processing import RuntimeNormalizer

    model, batch, loss, optimizer = make()
    case = Case.of(model, batch, loss, optimizer)
    if not hasattr(model, "config"):
        raise NotTaken("no Hugging Face config")
    try:
        extractor = FeatureExtractor(model)
    except Exception as error:
        raise NotTaken(str(error)) from error
    with contextlib.suppress(Exception):
        model.set_attn_implementation("eager")  # which alone gives its weights
    inputs = case.inputs if isinstance(case.inputs, dict) else {"input_ids": case.inputs}
    wanted = dict(output_attentions=True, output_hidden_states=True)
    model.train()
    for epoch in range(epochs):
        for _ in range(steps):
            begin = time.perf_counter()
            optimizer.zero_grad()
            out = model(**inputs, **wanted)
            cost = out.loss if case.loss is None else case.loss(logits_of(out), case.targets)
            cost.backward()
            optimizer.step()
            known = dict(input_ids=inputs.get("input_ids"), labels=case.targets)
            mask = inputs.get("attention_mask")
            extractor.step(
                loss=cost, outputs=out, attention_mask=mask, optimizer=optimizer,
                step_time=time.perf_counter() - begin, **known,
            )  # fmt: skip
        extractor.epoch_end(epoch)
        said, asked = logits_of(out).argmax(dim=-1), case.targets
        right = (said == asked).float().mean().item() if said.shape == asked.shape else 0.0
        extractor.record_validation(epoch, {"loss": cost.item(), "accuracy": right})
    features = RuntimeNormalizer.load(extractor.arch).encode(extractor.finalize(), mode="raw")
    found = load_pretrained(extractor.arch).predict(features)
    return [f"{found.category}/{found.root_cause}"] if found.is_faulty else []


TOOLS = {
    "ours": ours,
    "torchtest2": torchtest2,
    "neural_net_checklist": checklist,
    "DEFault++": default_plus_plus,
}
