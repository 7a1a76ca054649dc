"""Translate: captions of pictures, or two files of which each line is the other's translation."""

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

from ..base.ranges import ONE_OR_MORE, at_least
from .base import KEPT, Data, FileName, Say, Task, in_shell, progress, ready_parts, say_known

PENALTIES = (0.6, 1.0, 1.4)  # of length, one of which is chosen


@dataclass
class PairData(Data):
    "Pairs of sentences, and the last weights of a run that learns from them."

    states: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Pairs(Task):
    "A translator."

    vocabulary: int = 5000  # subwords, of both languages together
    longest: int = 100  # pairs with more tokens are left out
    batch_tokens: int = 2500  # tokens per step, all processes together
    average: int = 5  # the last so many saved weights are averaged
    d_model: int = 160
    n_heads: int = 5
    d_ff: int | None = 640
    dropout: float = 0.0
    positions: str = "rotary"
    minutes: float | None = 10.0
    label_smoothing: float = 0.1
    eval_every: int | None = 100

    rules = Task.rules | {
        "vocabulary": at_least(260),  # a token for each byte, and the special ones
        "longest": at_least(4),
        "batch_tokens": ONE_OR_MORE,
        "average": ONE_OR_MORE,
    }
    other_data = ("src", "tgt")

    @abstractmethod
    def read_parts(self) -> tuple[list[list[tuple[str, str]]], str]:
        "Two or three parts as (sentence, translation), and where they come from."

    def load_data(self) -> PairData:
        from ..base.core import from_extra
        from ..data.batches import make_batches
        from ..data.data_sets import compare_parts
        from ..data.tokenization import SubwordTokenizer
        from ..inspection.translation import pair_rows
        from ..models.encoder_decoder import collate_pairs

        self.check_own()
        with from_extra("bleu", "sacrebleu"):
            import sacrebleu  # noqa: F401 - the report needs it, and comes after the training
        parts, source = self.read_parts()
        texts = []
        for pair in parts[0]:
            texts.extend(pair)
        tokenizer = SubwordTokenizer.train(texts, self.vocabulary)
        for name, side in (("src", 0), ("tgt", 1)):
            compare_parts(name, [[pair[side] for pair in part] for part in parts], refuse=False)
        train = pair_rows(parts[0], tokenizer, self.longest)
        valid = pair_rows(parts[1], tokenizer, self.longest)
        left_out = len(parts[0]) - len(train)
        if left_out:
            source += f"; {left_out:,} left out, empty or of more than {self.longest - 2} tokens"
        batches = dict(
            max_tokens=max(self.batch_tokens, self.longest + 1),
            collate=collate_pairs,
            length=lambda row: max(map(len, row)),
        )
        return PairData(
            source,
            parts,
            make_batches(train, shuffle=True, seed=self.seed, **batches),
            make_batches(valid, **batches),
            tokenizer,
            max_len=self.longest,
        )

    def make_model(self, data: Data):
        from ..models.savable import EncoderDecoder

        return EncoderDecoder.from_config(self.model_config(data))

    def save(self, folder: Path, model, data: PairData) -> None:
        "Write the model, and keep its weights: the last are averaged in the end."
        super().save(folder, model, data)
        state = {name: t.detach().cpu().clone() for name, t in model.state_dict().items()}
        data.states = keep_state(folder, data.states, state, self.average)

    def resume(self, folder: Path, data: PairData) -> None:
        "Read the last weights of a run that goes on."
        from ..base.checkpoints import read_tensors

        for file in sorted(folder.glob(KEPT)):
            state, _ = read_tensors("resume", file)
            data.states.append(state)

    def report(self, model, data: Data, folder: Path, say: Say) -> dict:
        "BLEU and chrF on held-out sentences, greedy and by beam search, and ten to read."
        valid = data.parts[1][:1000]
        if isinstance(data, PairData) and data.states:  # of a run that has just ended
            average_if_better(model, data, valid, say)
            super().save(folder, model, data)
        penalty = choose_penalty(model, data.tokenizer, valid, say) if valid else 1.0
        test = data.parts[-1]
        part = f"{len(test):,} held-out sentences, read once"
        if len(data.parts) < 3:
            part = "the validation part, which also chose the weights: there is no other"
        say(f"On {part}:")
        scores = {}
        searches = {"greedy": dict(num_beams=1), "beam": dict(length_penalty=penalty)}
        for name, search in searches.items():
            texts, table = translate_and_score(model, data.tokenizer, test, **search)
            scores[name] = table["score"].to_dict()
            for metric, (score, signature) in table.iterrows():
                say(f"  {score:.2f}  {metric}, {name}  ({signature})")
        for (source, target), text in list(zip(test, texts))[:10]:
            say(f"\n  {source}\n  → {text}\n  = {target}")
        use = f"former-nb translate --model {in_shell(folder)} --length-penalty {penalty} < FILE"
        say(f"\nThe model is in {folder}. Try: {use}")
        return {
            "judged_on": part,
            "scores": scores,
            "signature": table["signature"]["BLEU"],
            "length_penalty": penalty,
        }

    @staticmethod
    def row_key(row):
        "The sentence, whatever its translation."
        return row[0]

    def read_other(self, given, model, tokenizer, labels):
        "Two files of which each line is the other's translation."
        pairs = read_both(given, "src", "tgt")
        return pairs, f"{len(pairs):,} pairs from {Path(given['src']).name}"


@dataclass(frozen=True)
class Multi30k(Pairs):
    "Translate German captions."

    def read_parts(self):
        from ..data.data_sets import load_translations

        parts, source = load_translations()
        return list(parts.values()), source


@dataclass(frozen=True)
class Translate(Pairs):
    "Translate sentences of your own."

    src: FileName = ""  # sentences, UTF-8, one per line
    tgt: FileName = ""  # their translations, line by line
    val_src: FileName = ""  # sentences to choose by; a part of src if left out
    val_tgt: FileName = ""  # their translations
    test_src: FileName = ""  # sentences that are held out; a part of src if left out
    test_tgt: FileName = ""  # their translations

    def read_parts(self):
        from ..base.guards import check_that

        check_that(bool(self.src), "src", "a file", self.src)
        check_that(bool(self.tgt), "tgt", "a file", self.tgt)
        given = self.settings()
        pairs = read_both(given, "src", "tgt")
        source = f"{len(pairs):,} pairs from {Path(self.src).name} and {Path(self.tgt).name}"
        valid = read_both(given, "val_src", "val_tgt")
        test = read_both(given, "test_src", "test_tgt")
        parts = ready_parts(pairs, lambda n: hold_out(pairs, self.seed, n), valid, test)
        if test is not None:
            source += f", those held out from {Path(self.test_src).name}"
            source += say_known(parts, self.row_key)
        return parts, source


def read_both(
    given: dict,  # settings or options
    *names: str,  # of two files
) -> list[tuple[str, str]] | None:  # None where neither is given
    "Pairs from two files. Raises `ValueError` where one of both is missing."
    from ..base.guards import check_that
    from ..decoding.translating import read_pairs

    files = [given.get(name) for name in names]
    if not any(files):
        return None
    check_that(all(files), ", ".join(names), "both or neither", files)
    return read_pairs(*files)


def hold_out(
    pairs: list[tuple[str, str]],
    seed: int,
    n_parts: int = 3,  # or 2, without a test part
) -> list[list[tuple[str, str]]]:
    "Training, validation and test part, all but the first a twentieth or 1,000 sentences each."
    from ..data.data_sets import split

    n = len({source for source, _ in pairs})
    if n < 3:
        raise ValueError(f"src: expected at least three different sentences, got {n}")
    share = max(1, min(1000, n // 20)) / n
    held_out = [share] * (n_parts - 1)
    return split(pairs, (1 - sum(held_out), *held_out), seed, group=lambda pair: pair[0])


def translate_and_score(model, tokenizer, pairs, **search):
    "The translations of the sources, and a table of their BLEU and chrF."
    from ..decoding.translating import stream_translations
    from ..inspection.scores import score_translations

    sources = [source for source, _ in pairs]
    targets = [target for _, target in pairs]
    lines = stream_translations(model, tokenizer, sources, ahead=250, **search)
    texts = [line.text for line in progress(lines, "sentence", total=len(pairs))]
    return texts, score_translations(texts, targets)


def bleu(model, tokenizer, pairs, **search) -> float:
    "The BLEU of the model's translations."
    _, table = translate_and_score(model, tokenizer, pairs, **search)
    return table["score"]["BLEU"]


def keep_state(
    folder: Path,
    states: list[dict],  # those that are kept
    state: dict,  # the newest, on the CPU
    most: int,  # how many are kept
) -> list[dict]:
    "Keep weights in the folder, too, a file for each, so that a run can go on."
    from ..base.checkpoints import atomic_write, write_tensors

    if states and all(t.equal(states[-1][name]) for name, t in state.items()):
        return states  # the run was stopped after them and has done its last steps again
    files = sorted(folder.glob(KEPT))
    number = int(files[-1].stem.removeprefix("last-")) + 1 if files else 1
    with atomic_write(folder) as temporary:
        write_tensors(temporary / f"last-{number:06}.safetensors", state, "{}")
    for file in files[: max(0, len(files) + 1 - most)]:
        file.unlink()
    return [*states, state][-most:]


def average_if_better(model, data: PairData, pairs, say: Say) -> None:
    "Give `model` the mean of the last weights, if its greedy BLEU on `pairs` is higher."
    from ..inspection.translation import average_weights

    if len(data.states) < 2:
        return
    before = bleu(model, data.tokenizer, pairs, num_beams=1)
    last = {name: t.clone() for name, t in model.state_dict().items()}
    model.load_state_dict(average_weights(data.states))
    after = bleu(model, data.tokenizer, pairs, num_beams=1)
    averaged = f"with the last {len(data.states)} weights averaged"
    say(f"Greedy BLEU on the validation part: {before:.2f}; {averaged}: {after:.2f}")
    if after <= before:
        model.load_state_dict(last)


def choose_penalty(model, tokenizer, pairs, say: Say) -> float:
    "The length penalty with the best BLEU on `pairs`."
    scores = {p: bleu(model, tokenizer, pairs, length_penalty=p) for p in PENALTIES}
    listed = ", ".join(f"{p}: {score:.2f}" for p, score in scores.items())
    say(f"Beam search on the validation part, BLEU by length penalty: {listed}")
    return max(scores, key=scores.get)
