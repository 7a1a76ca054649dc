"""How good a model is, on data that were held out, beside a rival that is simple."""

from pathlib import Path

from .settings import FILES, toml_lines


def bar(items, unit, **kwargs):
    "The items, with a progress bar on a terminal."
    from tqdm import tqdm

    return tqdm(items, unit=unit, leave=False, disable=None, **kwargs)


def say_losses(say, title, losses):
    "Name each loss, one per line."
    say(title)
    say("\n".join(f"  {value:.3f}  {name}" for name, value in losses.items()))


def new_names(
    model,  # a `LanguageModel`
    tokenizer,  # its `CharTokenizer`
    prompt: str,  # how each name begins
    n: int,  # how many
    known: set[str],  # names that do not count as new, normalised
    sampling=None,  # temperature 0.8 and seed 0 if left out
) -> list[str]:  # up to n different names
    "Draw names that start with `prompt` until `n` are new, or forty times as many were drawn."
    from dataclasses import replace

    from former_nb.decoding import generate_text
    from former_nb.sampling import Sampling

    found, sampling = {}, sampling or Sampling(temperature=0.8, seed=0)
    for attempt in range(10):
        how = replace(sampling, seed=sampling.seed + 4 * n * attempt)
        drawn = generate_text(model, tokenizer, prompt, 4 * n, sampling=how)
        new = [name for name in drawn if name and tokenizer.normalise(name) not in known]
        found |= dict.fromkeys(name.capitalize() for name in new)
        if len(found) >= n:
            break
    return list(found)[:n]


def name_losses(model, tokenizer, rows) -> dict[str, float]:
    "Nats per character on held-out names, of the model and of two that count."
    from former_nb.batches import make_batches
    from former_nb.losses import evaluate
    from former_nb.ngrams import NGram

    choices = tokenizer.vocab_size - 3  # padding, beginning and unknown never follow
    counted = {"bigram": 2, "Kneser–Ney 6-gram": 6}
    losses = {"transformer": evaluate(model, bar(make_batches(rows[2], 512), "batch"))}
    return losses | {k: NGram(rows[0], n, choices).nats(rows[2]) for k, n in counted.items()}


def report_names(model, folder, say, tokenizer, texts, rows, seed) -> dict:
    "Losses beside models that count, new names, and a picture of the attention weights."
    import matplotlib.pyplot as plt

    from former_nb.checkpoints import atomic_write
    from former_nb.sampling import Sampling
    from former_nb.viewer import plot_heads, view

    losses = name_losses(model, tokenizer, rows)
    say_losses(say, "Nats per character on held-out names, their end counted:", losses)
    known, longest = {tokenizer.normalise(n) for part in texts for n in part}, model.config.max_len
    prompts = [p for p in ("Jo", "Mi", "Au") if not tokenizer.unknown(p) and len(p) < longest]
    for prompt in prompts or [""]:
        new = new_names(model, tokenizer, prompt, 10, known, Sampling(temperature=0.8, seed=seed))
        say(f"New names {prompt}…: {', '.join(new)}")
    figure = plot_heads(view(model, texts[2][0], tokenizer))
    with atomic_write(folder) as whole:
        figure.savefig(whole / "attention.png", dpi=120)
    plt.close(figure)
    say(f"Attention weights of each head on {texts[2][0]!r}: {folder / 'attention.png'}")
    more = f" {prompts[0]}" if prompts else ""
    say(f"The model is in {folder}. Try: former-nb generate --model {folder}{more}")
    return {"held_out_nats_per_character": losses}


def report_toy(model, folder, say, texts, rows, collate) -> dict:
    "The share of held-out questions that are answered right from end to end."
    from former_nb.batches import make_batches
    from former_nb.toy_data import SEPARATOR
    from former_nb.training import exact_match

    share = exact_match(model, bar(make_batches(rows[2], 500, collate=collate), "batch"))
    say(f"Right from end to end: {share:.1%} of {len(texts[2]):,} held-out questions")
    question = texts[2][0].split(SEPARATOR)[0] + SEPARATOR
    use = f"former-nb generate --model {folder} {question} --temperature 0 --n 1"
    say(f"The model is in {folder}. Try: {use}")
    return {"held_out_exact_match": share}


COUNTED = 2_000_000  # characters that the counting models read, and are judged on


def long_losses(model, data, length) -> dict[str, float]:
    "Nats per character on the last part of a text, of the model and of three that count."
    from former_nb.losses import evaluate
    from former_nb.ngrams import NGram
    from former_nb.text import BOS, SPECIALS

    train, last = data.rows[0][-COUNTED:].tolist(), data.rows[-1].tolist()
    where = f", its first {COUNTED:,} characters" if len(last) > COUNTED else ""
    choices = data.tokenizer.vocab_size - len(SPECIALS)
    losses = {
        "transformer": evaluate(model, bar(data.held_out(), "batch")),
        "transformer, half a window before each": evaluate(
            model, bar(data.held_out(length // 2), "batch")
        ),
    }
    for n in bar((2, 3, 5), "n-gram"):
        counts = NGram([[BOS, *train]], n, choices)
        losses[f"{n}-gram, Kneser–Ney{where}"] = counts.nats([[BOS, *last[:COUNTED]]])
    return losses


def report_long(model, folder, say, data, settings, tested) -> dict:
    "Losses beside models that count, and a sample."
    from former_nb.decoding import generate_text
    from former_nb.long_texts import bits_per_character
    from former_nb.sampling import Sampling

    length, chosen = settings["length"], "validation part, which also chose the weights"
    part = "test part" if tested else f"{chosen}: there is no other"
    losses = long_losses(model, data, length)
    title = f"Nats per character, {part}; the model reads at most {length} before it:"
    say_losses(say, title, losses)
    say(f"In bits per character: {bits_per_character(losses['transformer']):.3f}")
    window = length if model.embed.positions is None else None
    sampling = Sampling(temperature=0.8, seed=settings["seed"])
    [text] = generate_text(model, data.tokenizer, "", 1, 400, sampling, window=window)
    use = f"former-nb generate --model {folder} --n 1 --stream"
    say(f"\n{text.strip()}\n\nThe model is in {folder}. Try: {use}")
    return {"held_out_nats_per_character": losses, "judged_on": part, "sample": text}


JUDGED = 100  # texts; with fewer, an accuracy of .9 is known to six points or worse


def few_texts(n) -> str:
    "What to beware of in a classifier that was judged on `n` texts; empty for enough."
    what = "how right or how sure it is cannot be known from so few"
    return f"this classifier was judged on {n} texts; {what}" if n < JUDGED else ""


def report_labels(model, folder, say, tokenizer, names, parts) -> dict:
    "Accuracy beside the commonest label and a linear model, and how good each label is."
    import pandas as pd

    from former_nb.baselines import nb_svm
    from former_nb.labels import classification_report, predict

    texts, right = [text for text, _ in parts[2]], [label for _, label in parts[2]]
    some = (texts[i : i + 500] for i in bar(range(0, len(texts), 500), "500 texts"))
    answers = pd.concat([predict(model, tokenizer, part, names) for part in some])
    accuracy = {
        "transformer": sum(a == b for a, b in zip(answers["label"], right)) / len(right),
        "commonest label": max(map(right.count, names)) / len(right),
    }
    try:
        same = [[(tokenizer.normalise(text), y) for text, y in part] for part in parts]
        accuracy["NB-SVM, words and pairs"] = nb_svm(same[0] + same[1], same[2])
    except ImportError:
        say("Without scikit-learn there is no linear rival: pip install scikit-learn")
    say_losses(say, f"Accuracy on {len(right):,} held-out texts, read once:", accuracy)
    table = classification_report(right, list(answers["label"]))
    say(table.round(3).to_string())
    if note := few_texts(len(right)):
        say(f"Note: {note}")
    some = "".join(c for c in " ".join(texts[0].split()[:8]) if c not in '"$`!\\')  # for a shell
    say(f'The model is in {folder}. Try: former-nb classify --model {folder} "{some}"')
    by_label = table.astype(object).where(table.notna(), None).to_dict("index")  # JSON has no NaN
    return {"held_out_accuracy": accuracy, "by_label": by_label}


class KeepLast:
    "Saves a translator whenever it is called, and keeps the last weights to be averaged."

    def __init__(
        self,
        tokenizer,  # saved beside the model
        n: int,  # how many are kept
    ):
        self.tokenizer, self.n, self.states = tokenizer, n, []

    def __call__(self, folder, model):
        "Save the model, keep its weights."
        from former_nb.saving import save_model

        save_model(folder, model, self.tokenizer)
        state = {name: t.detach().cpu().clone() for name, t in model.state_dict().items()}
        self.states = [*self.states, state][-self.n :]


def translate_and_score(model, tokenizer, pairs, **kwargs):
    "The translations of the sources, and their BLEU and chrF."
    from former_nb.scores import score_translations
    from former_nb.translating import stream_translations

    sources = [source for source, _ in pairs]
    found = stream_translations(model, tokenizer, sources, ahead=250, **kwargs)
    texts = [translation.text for translation in bar(found, "sentence", total=len(pairs))]
    return texts, score_translations(texts, [target for _, target in pairs])


def _bleu(model, tokenizer, pairs, **kwargs):
    return translate_and_score(model, tokenizer, pairs, **kwargs)[1]["score"]["BLEU"]


def average_if_better(model, keep, pairs, say) -> None:
    "Give `model` the mean of the kept weights, if its greedy BLEU on `pairs` is higher."
    from former_nb.translation import average_weights

    own = {name: t.clone() for name, t in model.state_dict().items()}
    before = after = _bleu(model, keep.tokenizer, pairs, num_beams=1)
    if len(keep.states) > 1:
        model.load_state_dict(average_weights(keep.states))
        after = _bleu(model, keep.tokenizer, pairs, num_beams=1)
        many = f"with the last {len(keep.states)} weights averaged"
        say(f"Greedy BLEU on the validation part: {before:.2f}; {many}: {after:.2f}")
    if after <= before:
        model.load_state_dict(own)


def choose_penalty(model, tokenizer, pairs, say) -> float:
    "The length penalty with the best BLEU on `pairs`."
    found = {p: _bleu(model, tokenizer, pairs, length_penalty=p) for p in (0.6, 1.0, 1.4)}
    listed = ", ".join(f"{p}: {x:.2f}" for p, x in found.items())
    say(f"Beam search on the validation part, BLEU by length penalty: {listed}")
    return max(found, key=found.get)


def report_translations(model, folder, say, keep, parts, tested) -> dict:
    "BLEU and chrF on held-out sentences, greedy and by beam search, and ten to read."
    if keep.states:  # of a run that has just ended
        average_if_better(model, keep, parts[1][:1000], say)
        keep(folder, model)
    penalty = choose_penalty(model, keep.tokenizer, parts[1][:1000], say)
    part = f"{len(parts[-1]):,} held-out sentences, read once"
    other = "the validation part, which also chose the weights: there is no other"
    part = part if tested else other
    say(f"On {part}:")
    scores, searches = {}, {"greedy": dict(num_beams=1), "beam": dict(length_penalty=penalty)}
    for name, how in searches.items():
        texts, table = translate_and_score(model, keep.tokenizer, parts[-1], **how)
        scores[name] = table["score"].to_dict()
        for metric, (score, signature) in table.iterrows():
            say(f"  {score:.2f}  {metric}, {name}  ({signature})")
    for (source, target), text in list(zip(parts[-1], texts))[:10]:
        say(f"\n  {source}\n  → {text}\n  = {target}")
    use = f"former-nb translate --model {folder} --length-penalty {penalty} < FILE"
    say(f"\nThe model is in {folder}. Try: {use}")
    found = {"judged_on": part, "scores": scores, "signature": table["signature"]["BLEU"]}
    return found | {"length_penalty": penalty}


CARD = "---\nlibrary_name: former_nb\n---\n\n"  # how a card begins


def _lines(metadata):
    "Markdown's list of what is known, a level deeper for each dict."
    for name, value in metadata.items():
        name = name.replace("_", " ")
        if isinstance(value, dict):
            yield f"- {name}:"
            yield from (f"  {line}" for line in _lines(value))
        elif value is None or not isinstance(value, str) or "\n" not in value:
            number = f"{value:.4g}" if isinstance(value, float) else value
            yield f"- {name}: {'–' if value is None else number}"


def model_card(
    task: str,
    metadata: dict,  # data, seed, device, minutes and what the report found
    settings: dict,
    command: str,  # what made the model
) -> str:  # Markdown
    "What there is to know about a trained model."
    names = {k: Path(settings[k]).name for k in FILES if k in settings}  # no folders
    toml = "\n".join(toml_lines(settings | names))
    sample = metadata.get("sample", "").strip()
    sample = f"\n## A sample\n\n```text\n{sample}\n```\n" if sample else ""
    head = f"{CARD}# {task}\n\nA small Transformer, trained by `{command}`.\n\n"
    return head + "\n".join(_lines(metadata)) + f"\n{sample}\n## Settings\n\n```toml\n{toml}\n```\n"
