// Lesson 15: letters become pieces, one merge after another; a word of your own is cut, too.
courseFigure("merge-by-merge", {
  title: "Merge by merge.",
  riddle: "After how many merges of the twenty pages is “statement” one piece?",
  height: 330,
}, (figure, data) => {
  const corpus = figure.choice("Learn from", data.map(({ name }) => name), 0, "from");
  const steps = figure.slider("Merges", { min: 0, max: 4, step: 1, value: 0, show: Math.round });
  const own = figure.field("A word of yours", "another", "word");
  const W = 21, LEFT = 10;
  const rows = figure.add("g"), ROW = 31;
  const next = figure.text(4, 228, "", "next");
  figure.text(4, 253, "tokens of all texts", "strong");
  const count = figure.text(400, 253, "", "end count");
  const curve = figure.add("path", { class: "line" });
  const here = figure.scrub(steps, [0, 260, 404, 52], (x) => ((x - 8) * steps.input.max) / 388);
  figure.text(4, 326, "no merges", "note");
  const last = figure.text(400, 326, "", "end note");

  figure.plays(11, (t) => { // the five words slowly, then the twenty pages
    corpus.value = t < 0.5 ? 0 : 1;
    steps.value = t < 0.5 ? Math.min(4, Math.floor(12 * t)) : Math.round(300 * Math.min(1, (t - 0.5) / 0.45));
    return steps.value + corpus.value / 2;
  });

  function merge(row, [a, b]) { // as lesson 15's merge
    const pieces = [];
    for (const piece of row) {
      if (pieces[pieces.length - 1] === a && piece === b) pieces[pieces.length - 1] += piece;
      else pieces.push(piece);
    }
    return pieces;
  }

  return () => {
    const { name, words, merges, counts, tokens, bytes } = data[corpus.value];
    if (Number(steps.input.max) !== merges.length) {
      steps.input.max = merges.length;
      steps.value = Math.min(steps.value, merges.length);
    }
    const n = steps.value;
    const letters = (word) => (bytes
      ? [...new TextEncoder().encode(` ${word}`)].map((byte) => bytes[byte]) : [...word]);
    const cut = (word) => merges.slice(0, n).reduce(merge, letters(word));

    rows.replaceChildren();
    const typed = own.value.trim().slice(0, 24), shown = [...words, typed].filter(Boolean);
    const cuts = shown.map(cut);
    const unit = Math.min(W, 384 / Math.max(...shown.map((word) => letters(word).length)));
    cuts.forEach((pieces, i) => {
      let at = LEFT;
      const y = 4 + ROW * i, mine = typed && i === shown.length - 1;
      const row = figure.add("g", { class: "row", "data-pieces": pieces.join("·") }, "", rows);
      for (const piece of pieces) {
        const size = [...piece].length, wide = unit * size;
        figure.add("rect", { x: at + 1, y, width: wide - 2, height: 24, rx: 5, class: size > 1 ? "box a" : "box" }, "", row);
        [...piece].forEach((c, j) => figure.text(at + unit * (j + 0.5), y + 16.5, c, mine ? "strong mid" : "mid", row));
        at += wide;
      }
    });
    next.textContent = n < merges.length
      ? `next: ${merges[n].join(" + ")}, ${counts[n]} times` : "no merge is left";
    const most = tokens[0], x = (i) => 8 + (388 * i) / merges.length, y = (i) => 308 - (36 * tokens[i]) / most;
    curve.setAttribute("d", `M${tokens.map((_, i) => `${x(i).toFixed(1)} ${y(i).toFixed(1)}`).join("L")}`);
    here.at(x(n), y(n));
    count.textContent = `${tokens[n].toLocaleString("en")} of ${most.toLocaleString("en")}`;
    last.textContent = `${merges.length} merges`;
    const target = words.indexOf("statement");
    const one = (m) => merges.slice(0, m).reduce(merge, letters("statement")).length === 1;
    const solved = target >= 0 && n > 0 && one(n) && !one(n - 1);
    const yours = typed ? ` “${typed}” is ${cuts[cuts.length - 1].join(" · ")}.` : "";
    figure.say(`${n} ${n === 1 ? "merge" : "merges"} from ${name}: ${tokens[n].toLocaleString("en")} tokens.${yours}`, solved,
      "Nobody said what a word is: neighbours that met most often were joined, and what is written often becomes one token.");
  };
});
