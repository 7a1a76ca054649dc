"""DEFault++'s 52 mutation operators, put into small models of four families with random weights.

Each is first asked whether it changes anything: logits, loss, gradients, weights after a step, or
the logits with a cache. What it changes is then given to `diagnose`.
"""

import functools
import sys
from pathlib import Path

import torch

from former_nb import diagnose

FAMILIES = {  # name -> what the family is, its class and its config
    "GPT-2": ("decoder", "GPT2LMHeadModel", "GPT2Config"),
    "GPT-Neo": ("decoder", "GPTNeoForCausalLM", "GPTNeoConfig"),
    "BERT": ("encoder", "BertForSequenceClassification", "BertConfig"),
    "DistilBERT": ("encoder", "DistilBertForSequenceClassification", "DistilBertConfig"),
}
SIZES = {
    "GPT-2": dict(n_embd=32, n_layer=2, n_head=4, n_positions=32),
    "GPT-Neo": dict(
        hidden_size=32, num_layers=2, num_heads=4, window_size=4, max_position_embeddings=32,
        attention_types=[[["global", "local"], 1]],
    ),
    "BERT": dict(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32,
    ),
    "DistilBERT": dict(dim=32, hidden_dim=64, n_layers=2, n_heads=4, max_position_embeddings=32),
}  # fmt: skip


def make(family):
    "A small model, a batch with padding, an optimizer. Attention is eager, as their benchmark's."
    import transformers

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from healthy_models import V, adamw, padded

    kind, name, config = FAMILIES[family]
    torch.manual_seed(1)
    special = dict(vocab_size=V, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    settings = getattr(transformers, config)(
        attn_implementation="eager", **special, **SIZES[family]
    )
    model = getattr(transformers, name)(settings)
    ids, keep = padded(1)
    labels = ids.masked_fill(~keep, -100) if kind == "decoder" else ids[:, 1] % 2
    batch = {"input_ids": ids, "attention_mask": keep.long(), "labels": labels}
    return model, batch, None, adamw(model)


def mutate(model, operator, value):
    """Put an operator in. What wraps a `forward` becomes a class, which copies as models do."""
    from defaultplusplus.deform.injection import DynamicFault
    from defaultplusplus.deform.operator_impls import get_injector

    injector = get_injector(operator.op_id, param_value=value)(model)
    if not isinstance(injector, DynamicFault):
        injector.__enter__()
        return
    for module in injector.target_modules(model):
        kind = type(module)

        @functools.wraps(kind.forward)
        def forward(self, *args, _plain=kind.forward, **given):
            return injector.make_faulty_forward(self, functools.partial(_plain, self))(
                *args, **given
            )

        module.__class__ = type(kind.__name__, (kind,), {"forward": forward})


def traces(family, operator=None, value=None):
    "What may differ: logits, loss, gradients, weights after a step, logits with a cache."
    model, batch, _, optimizer = make(family)
    if operator is not None:
        mutate(model, operator, value)
    torch.manual_seed(0)
    found = {}
    with torch.no_grad():
        logits = model.eval()(**batch).logits
        asked = batch["labels"] != -100  # what a model says of padding is nobody's business
        found["logits"] = logits[asked] if logits.ndim == 3 else logits
        if FAMILIES[family][0] == "decoder":
            past, parts = None, []
            for t in range(batch["input_ids"].shape[1]):
                out = model(batch["input_ids"][:1, t : t + 1], past_key_values=past, use_cache=True)
                past = out.past_key_values
                parts.append(out.logits)
            found["logits with a cache"] = torch.cat(parts, dim=1)
    torch.manual_seed(0)
    loss = model.train()(**batch).loss
    found["loss"] = loss.detach()
    if loss.requires_grad:
        loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    found |= {f"gradient of {n}": g.clone() for n, g in grads.items()}
    optimizer.step()
    return found | {f"{n} after a step": p.detach().clone() for n, p in model.named_parameters()}


def changed(before, after):
    "The first thing that differs by more than rounding, or nothing."
    for name in [*before, *(set(after) - set(before))]:
        a, b = before.get(name), after.get(name)
        if a is None or b is None or a.shape != b.shape:
            return name
        if not b.isfinite().all() or (a - b).abs().max() > 1e-5 * a.abs().max().clamp_min(1e-6):
            return name
    return ""


def one(family, operator, value, before):
    "An operator in one family."
    row = {"operator": operator.op_id, "category": operator.component.value}
    row |= {"root cause": operator.root_cause, "family": family, "value": value}
    try:
        row["changes"] = changed(before, traces(family, operator, value))
    except Exception as error:  # of the model that was changed, or of an operator without a place
        said = str(error).partition("\n")[0][:100]
        row["changes"] = "" if "found no compatible" in said else f"it doesn't run: {said}"
        row["not applied"] = said
    if row["changes"]:
        model, *rest = make(family)
        mutate(model, operator, value)
        row["said"] = [finding.name for finding in diagnose(model, *rest).findings]
    return row


def measure():
    "A row for each operator and family; the first of a family is the model as it is."
    from defaultplusplus.deform.operators import OPERATORS

    rows = []
    for family, (kind, *_) in FAMILIES.items():
        before = traces(family)
        said = [finding.name for finding in diagnose(*make(family)).findings]
        rows.append({"operator": "", "family": family, "said": said})
        print(family, said, flush=True)
        for operator in OPERATORS.values():
            if operator.scope not in (kind, "both"):
                continue
            shorter = operator.param_name in ("length", "cutoff")  # of which the least is most
            value = (operator.param_grid or [None])[0 if shorter else -1]
            rows.append(one(family, operator, value, before))
            print(rows[-1], flush=True)
    return rows
