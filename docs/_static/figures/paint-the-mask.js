// Lesson 04: paint a mask, and see which inputs each output knows after one, two or three layers.
courseFigure("paint-the-mask", {
  title: "Paint the mask.",
  riddle: "Empty the cell where “quietly” looks at “cat”. Does it still hear of “cat”?",
  height: 340,
}, (figure, data) => {
  const { words, presets } = data, T = words.length, CELL = 52, LEFT = 92, TOP = 32;
  const last = T - 1;
  let mask, here = [last, 1];

  for (const name of Object.keys(presets))
    figure.press(name, () => { mask = presets[name].map((row) => row.map(Boolean)); });
  mask = presets.causal.map((row) => row.map(Boolean));
  const layers = figure.choice("Attention layers", ["1", "2", "3"], 0, "layers");
  figure.keep("mask", () => mask.map((row) => row.map(Number).join("")).join("."), (text) => {
    const rows = text.split(".");
    if (rows.length !== T || rows.some((row) => row.length !== T || /[^01]/.test(row))) return false;
    mask = rows.map((row) => [...row].map((bit) => bit === "1"));
    return true;
  });

  words.forEach((word, i) => {
    figure.text(LEFT + (i + 0.5) * CELL, TOP - 12, word, "mid");
    figure.text(LEFT - 12, TOP + (i + 0.5) * CELL + 4, word, "end");
  });
  figure.add("path", { class: "line q", d: `M${LEFT - 5} ${TOP}v${T * CELL}` });
  figure.add("path", { class: "line k", d: `M${LEFT} ${TOP - 5}h${T * CELL}` });
  const cells = words.map((query, i) => words.map((key, j) => {
    const x = LEFT + j * CELL, y = TOP + i * CELL;
    const cell = figure.add("g", { class: "cell", role: "checkbox", "aria-label": `${query} may attend to ${key}` });
    figure.add("rect", { x, y, width: CELL, height: CELL, fill: "none", "pointer-events": "all" }, "", cell);
    const square = figure.add("rect", { x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 2, rx: 4 }, "", cell);
    const dot = figure.add("circle", { cx: x + CELL / 2, cy: y + CELL / 2, r: 9 }, "", cell);
    const flip = () => { mask[i][j] = !mask[i][j]; here = [i, j]; figure.draw(); };
    cell.addEventListener("click", flip);
    cell.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step && event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      if (!step) return flip();
      here = [i + step[0], j + step[1]].map((n) => Math.min(last, Math.max(0, n)));
      figure.draw();
      cells[here[0]][here[1]].cell.focus();
    });
    return { cell, square, dot };
  }));
  const legend = TOP + T * CELL + 26;
  figure.add("rect", { x: 6, y: legend - 13, width: 18, height: 18, rx: 3, class: "shade" });
  figure.text(30, legend, "may attend");
  figure.add("circle", { cx: 128, cy: legend - 4, r: 7, class: "a" });
  figure.text(142, legend, "output knows input");
  figure.add("circle", { cx: 290, cy: legend - 4, r: 5.5, class: "frame" });
  figure.text(304, legend, "leaks: later word");

  const product = (a, b) => a.map((row) => row.map((_, j) => row.some((may, l) => may && b[l][j])));
  const list = (names) => (names.length ? names.join(", ") : "nothing");

  return () => {
    const n = layers.value + 1;
    let reach = mask;
    for (let layer = 1; layer < n; layer++) reach = product(mask, reach);
    let leaks = 0;
    cells.forEach((row, i) => row.forEach(({ cell, square, dot }, j) => {
      const leak = reach[i][j] && j > i;
      leaks += leak;
      cell.setAttribute("aria-checked", mask[i][j]);
      cell.setAttribute("tabindex", i === here[0] && j === here[1] ? 0 : -1);
      square.setAttribute("class", mask[i][j] ? "shade" : "track");
      dot.setAttribute("class", leak ? "frame" : "a");
      dot.setAttribute("visibility", reach[i][j] ? "visible" : "hidden");
    }));
    const known = words.filter((_, j) => reach[last][j]);
    const solved = !mask[last][1] && reach[last][1];
    const after = `After ${n} ${n > 1 ? "layers" : "layer"}`;
    figure.say(`${after} ${words[last]} knows ${list(known)}. `
      + (leaks ? `The future leaks at ${leaks} ${leaks > 1 ? "places" : "place"}.` : "Nothing leaks."),
      solved, "A word in between looked at “cat” and passed it on.");
  };
});
