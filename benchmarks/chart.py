"""What was measured as a picture, as a table, and as README.md tells it."""

import re

README = {  # what README.md calls a workload -> the workload and the peer
    "train a generator, 10.8 M, bf16": ("train_generator/10.8M/bfloat16", "Hugging Face GPT-2"),
    "train a classifier": ("train_classifier", "BERT, our buckets"),
    "train a translator": ("train_translator/buckets", "Hugging Face BART"),
    "write 1 text, 10.8 M": ("write/10.8M/1", "Hugging Face GPT-2"),
    "write 16 texts, 10.8 M": ("write/10.8M/16", "Hugging Face GPT-2"),
    "translate with 4 beams": ("translate/4", "Hugging Face BART"),
}
AIMS = [  # in words, the workload, the peer, the share of PyTorch's kernels in ours, the aim
    ("train 10.8 M, float32", "train_generator/10.8M/float32", "Hugging Face GPT-2", 0.93, 0.85),
    ("train 10.8 M, bf16", "train_generator/10.8M/bfloat16", "Hugging Face GPT-2", 0.84, 0.70),
    ("train 10.8 M, bf16", "train_generator/10.8M/bfloat16", "nn.TransformerEncoder", 0.84, 0.95),
    ("train a translator", "train_translator/buckets", "Hugging Face BART", 0.90, 0.80),
    ("train a translator", "train_translator/buckets", "Hugging Face Marian", 0.90, 0.80),
    ("train a classifier", "train_classifier", "BERT, our buckets", 0.91, 0.95),
    ("train a classifier", "train_classifier", "Hugging Face BERT", 0.91, 0.75),
    ("write 1 text, .8 M", "write/0.8M/1", "Hugging Face GPT-2", 0.33, 0.45),
    ("write 16 texts, .8 M", "write/0.8M/16", "Hugging Face GPT-2", 0.67, 0.60),
    ("write 1 text, 10.8 M", "write/10.8M/1", "Hugging Face GPT-2", 0.80, 0.70),
    ("write 16 texts, 10.8 M", "write/10.8M/16", "Hugging Face GPT-2", 0.90, 0.75),
    ("translate, greedy", "translate/1", "Hugging Face BART", 0.84, 0.80),
    ("translate, 4 beams", "translate/4", "Hugging Face BART", 0.82, 0.60),
    ("translate, 4 beams", "translate/4", "Hugging Face Marian", 0.82, 0.60),
]
AIMS_HEAD = "| work | rival | ratio | share of kernels | no lower than | aim | reached on |\n"
AIMS_TABLE = re.compile(re.escape(AIMS_HEAD) + r"(?:\|.*\n)+")
README_HEAD = "| | rival | CPU, one thread | H100 |\n"
README_TABLE = re.compile(re.escape(README_HEAD) + r"(?:\|.*\n)+")


def draw(results: dict, file) -> None:
    "A dot per contender and workload with its quartiles; left of the line ours needs less."
    import matplotlib.pyplot as plt

    rows = [
        (name, who, ratio)
        for name, found in results["workloads"].items()
        for who, ratio in found["ratio"].items()
        if who != "ours again"
    ]
    kinds = sorted({who for _, who, _ in rows})
    fig, ax = plt.subplots(figsize=(8, 1 + 0.2 * len(rows)), layout="constrained")
    for y, (_, who, (low, middle, high)) in enumerate(rows):
        color = f"C{kinds.index(who) % 10}"
        ax.plot([low, high], [y, y], color=color, lw=2)
        ax.plot(middle, y, "o", color=color)
    ax.axvline(1, color="grey", lw=1)
    ax.set_xscale("log")
    marks = [0.1, 0.25, 0.5, 1, 2, 4]
    ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
    ax.minorticks_off()
    ax.set_xlabel("ours / theirs, seconds or bytes")
    ax.set_yticks(range(len(rows)), [f"{name} · {who}" for name, who, _ in rows], fontsize=7)
    ax.set_ylabel("workload · peer")
    ax.invert_yaxis()
    where = f"{results['device']}, {results['threads']} thread(s)"
    ax.set_title(f"left of 1 ours needs less: {where}", fontsize=9)
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "benchmarks"}):  # small, the same
        fig.savefig(file, metadata={"Date": None})
    plt.close(fig)


def cell(found: dict | None, who: str) -> str:
    "A ratio with its quartiles; ours against itself with the share of the limit."
    if found is None or who not in found["ratio"]:
        return "–"
    ratio = found["ratio"][who]
    if len(ratio) == 1:  # of a run of which only medians were kept
        return f"{ratio[0]:.2f}"
    text = "{1:.2f} ({0:.2f}–{2:.2f})".format(*ratio)
    share = who == "ours again" and found["limit"]
    return f"{text}; {share:.0%} of the limit" if share else text


def table(several: list[dict]) -> str:
    "Ratios in Markdown, a column per run; what it was measured on stands below."
    several = sorted(several, key=lambda run: (run["device"], run["threads"]))
    heads = [
        f"{run['device'].removeprefix('cpu, ')}, {run['threads']} thread(s)" for run in several
    ]
    lines = ["| work | ours against | " + " | ".join(heads) + " |"]
    lines.append("|---" * (2 + len(heads)) + "|")
    names = dict.fromkeys(name for run in several for name in run["workloads"])
    for name in names:
        found = [run["workloads"].get(name) for run in several]
        for who in dict.fromkeys(who for one in found if one for who in one["ratio"]):
            lines.append(
                f"| {name} | {who} | " + " | ".join(cell(one, who) for one in found) + " |"
            )
    for run in several:
        said = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
        lines.append(f"\n{run['device']}, {run['threads']} thread(s): {said}.")
    return "\n".join(lines)


def median(ratio: list[float]) -> float:
    "The middle of the quartiles, or the only number."
    return ratio[len(ratio) // 2]


def medians(several: list[dict], name: str, who: str) -> list[float]:
    "The median of a ratio on each machine that measured it, the least first."
    ratios = [run["workloads"][name]["ratio"] for run in several if name in run["workloads"]]
    return sorted(median(ratio[who]) for ratio in ratios if who in ratio)


def span(numbers: list[float]) -> str:
    "From the first to the last, with two digits."
    if not numbers:
        return "–"
    ends = (f"{number:.2f}".lstrip("0") for number in (numbers[0], numbers[-1]))
    return "–".join(dict.fromkeys(ends))  # one number where both are alike


def one_thread_on_cpus(several: list[dict]) -> list[dict]:
    "The runs that README's column of CPUs tells of."
    return [run for run in several if run["threads"] == 1 and run["device"].startswith("cpu")]


def aims(several: list[dict]) -> str:
    """What was aimed at and what was reached, on CPUs with one thread.

    If all but PyTorch's own kernels cost nothing, a ratio would fall to itself times their share.
    """
    lines = [AIMS_HEAD, "|---|---|---|---|---|---|---|\n"]
    for words, name, who, share, aim in AIMS:
        found = medians(one_thread_on_cpus(several), name, who)
        least = [ratio * share for ratio in found]
        n = sum(round(ratio, 2) <= aim for ratio in found)
        reached = f"{n} of {len(found)}"
        if found and round(least[0], 2) > aim:
            reached = "out of reach"
        cells = [words, who, span(found), f"{share:.0%}", span(least), span([aim]), reached]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def readme(several: list[dict]) -> str:
    "The table of README.md. What nobody has measured has no row."
    single = [run for run in several if run["threads"] == 1]
    cpus = one_thread_on_cpus(several)
    gpus = [run for run in single if "H100" in run["device"]]
    lines = [README_HEAD, "|---|---|---|---|\n"]
    for words, (name, who) in README.items():
        cells = [span(medians(runs, name, who)) for runs in (cpus, gpus)]
        if set(cells) != {"–"}:
            lines.append(f"| {words} | {who} | {cells[0]} | {cells[1]} |\n")
    return "".join(lines)
