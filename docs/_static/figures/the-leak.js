// Lesson 04: change a word, and see which outputs of two layers move, with a causal mask in both, in one or in none.
courseFigure("the-leak", {
  title: "The leak.",
  riddle: "Which word can you change so that only one output moves?",
  height: 330,
}, (figure, data) => {
  const { words, others, moves } = data, T = words.length, x = (i) => 37 + 66 * i;
  const WORDS = 56, MIDDLE = 152, OUT = 248;
  const masks = ["both layers", "layer 1 only", "no layer"];
  const mask = figure.choice("Causal mask in", masks, 0, "mask");
  let changed = words.map((_, i) => i === 2);
  figure.keep("changed", () => changed.map(Number).join(""), (text) => {
    if (!/^[01]+$/.test(text) || text.length !== T) return false;
    changed = [...text].map((bit) => bit === "1");
    return true;
  });
  figure.text(4, 18, "words: press one to change it", "note");
  figure.text(4, 322, "outputs of two layers, and how far each has moved", "note");
  const lines = figure.add("g", { "data-part": "layers" });
  const cells = words.map((word, i) => {
    const cell = figure.add("g", { class: "cell", role: "checkbox", tabindex: 0, "data-part": "words" });
    const box = figure.add("rect", { x: x(i) - 31, y: WORDS - 27, width: 62, height: 54, rx: 8 }, "", cell);
    const old = figure.text(x(i), 0, word, "mid", cell), fresh = figure.text(x(i), WORDS + 16, others[i], "strong mid", cell);
    const flip = () => { changed[i] = !changed[i]; figure.draw(); };
    cell.addEventListener("click", flip);
    cell.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      flip();
    });
    return { cell, box, old, fresh };
  });
  const middles = words.map((_, i) => figure.add("circle", { cx: x(i), cy: MIDDLE, r: 9 }));
  const outs = words.map((_, i) => {
    const out = figure.add("g", { "data-part": "moved" });
    figure.add("circle", { cx: x(i), cy: OUT, r: 22, class: "box" }, "", out);
    return { light: figure.add("circle", { cx: x(i), cy: OUT, r: 21, class: "a" }, "", out),
      ring: figure.add("circle", { cx: x(i), cy: OUT, r: 27, class: "frame" }, "", out),
      number: figure.text(x(i), OUT + 46, "", "mid moved", out) };
  });
  figure.plays(10, (t) => { // one word after another, and then one whose mask is lost
    const n = Math.floor(7.9 * t);
    changed = words.map((_, i) => i === Math.min(n, T - 2));
    mask.value = Math.min(2, Math.max(0, n - T + 2));
    return n;
  });

  return () => {
    const open = [mask.value > 1, mask.value > 0]; // whether a layer has no mask
    const reached = words.map((_, i) => changed.some((is, j) => is && (open[0] || j <= i)));
    const choice = changed.reduce((sum, is, i) => sum + (is ? 2 ** i : 0), 0);
    const moved = moves[mask.value][choice], first = changed.indexOf(true);
    lines.replaceChildren();
    for (const [top, bottom, lit, any] of [[WORDS + 27, MIDDLE - 9, changed, open[0]], [MIDDLE + 9, OUT - 22, reached, open[1]]])
      for (const strong of [false, true]) // what carries the change is above
        words.forEach((_, from) => words.forEach((_, to) => {
          if ((any || from <= to) && lit[from] === strong)
            figure.add("path", { class: strong ? "line a" : "grid", d: `M${x(from)} ${top}L${x(to)} ${bottom}` }, "", lines);
        }));
    cells.forEach(({ cell, box, old, fresh }, i) => {
      cell.setAttribute("aria-checked", changed[i]);
      cell.setAttribute("aria-label", `“${words[i]}” is changed to “${others[i]}”`);
      box.setAttribute("class", changed[i] ? "box a" : "box");
      old.setAttribute("class", changed[i] ? "mid note struck" : "strong mid");
      old.setAttribute("y", changed[i] ? WORDS - 7 : WORDS + 4);
      fresh.setAttribute("visibility", changed[i] ? "visible" : "hidden");
    });
    middles.forEach((circle, i) => circle.setAttribute("class", reached[i] ? "a" : "box"));
    const most = Math.max(...moves.flat(2));
    outs.forEach(({ light, ring, number }, i) => {
      light.setAttribute("opacity", moved[i] ? (0.25 + (0.75 * moved[i]) / most).toFixed(2) : 0);
      ring.setAttribute("visibility", moved[i] && i < first ? "visible" : "hidden");
      number.textContent = moved[i].toFixed(2);
    });
    const count = moved.filter(Boolean).length, leaks = moved.filter((far, i) => far && i < first).length;
    const names = words.filter((_, i) => changed[i]).map((word) => `“${word}”`);
    figure.say(first < 0 ? "No word is changed, so no output moves."
      : `With a mask in ${masks[mask.value]}, ${names.join(", ")} ${names.length > 1 ? "move" : "moves"} ${count} of ${T} outputs, `
        + (leaks ? `${leaks} of them before the change: a leak.` : "none of them before the change."),
      count === 1, "The mask lets a word reach only itself and what comes later. If one layer loses it, every output has read the word that it should guess.");
  };
});
