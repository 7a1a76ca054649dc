"""A dot per contender and workload: how many times as long as the contender we take."""

import matplotlib.pyplot as plt


def draw(results: dict, file) -> None:
    "Ratios with their quartiles, 1 marked; what lies left of it is faster with us."
    rows = [
        (name, who, ratio)
        for name, found in results["workloads"].items()
        for who, ratio in found["ratio"].items()
        if who != "ours again"
    ]
    kinds = sorted({who for _, who, _ in rows})
    fig, ax = plt.subplots(figsize=(8, 1 + 0.22 * len(rows)), layout="constrained")
    for y, (_, who, (low, middle, high)) in enumerate(rows):
        color = f"C{kinds.index(who)}"
        ax.plot([low, high], [y, y], color=color, lw=2)
        ax.plot(middle, y, "o", color=color)
    ax.axvline(1, color="grey", lw=1)
    ax.set(xscale="log", xlabel="our seconds / theirs (below 1 ours is faster)")
    ax.set_yticks(range(len(rows)), [f"{name} · {who}" for name, who, _ in rows], fontsize=7)
    ax.set_xticks([0.25, 0.5, 1, 2], ["0.25", "0.5", "1", "2"])
    ax.invert_yaxis()
    ax.set_title(f"{results['device']}, {results['threads']} thread(s), torch {results['torch']}")
    fig.savefig(file)
    plt.close(fig)
