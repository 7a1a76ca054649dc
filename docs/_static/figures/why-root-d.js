// Lesson 02: what wide keys do to scores and weights, with and without the division.
courseFigure("why-root-d", {
  title: "Why √d_k.",
  riddle: "From which width on does one of ten keys get nine tenths of the attention?",
  height: 284,
}, (figure, data) => {
  const width = figure.slider("Width of queries and keys, d_k", {
    min: 1, max: data.widths.length, step: 1, value: 4, key: "nth-width", show: (n) => data.widths[n - 1] });
  const divide = figure.toggle("Divide by √d_k", false, "divided");
  const EDGE = 64, BIN = 2, x = (score) => 202 + (score * 190) / EDGE;

  figure.text(4, 16, "scores", "strong");
  const spread = figure.text(400, 16, "", "end spread");
  const hill = figure.add("path", { class: "q" });
  figure.add("path", { class: "line thin", d: "M8 122H396" });
  for (const score of [-60, -30, 0, 30, 60]) figure.text(x(score), 138, score, "note mid");

  figure.text(4, 168, "weights of one query, largest first", "strong");
  const bars = data.weights[0][0].map((_, i) => {
    figure.add("rect", { x: 8 + 39 * i, y: 178, width: 32, height: 84, rx: 3, class: "track" });
    return [figure.add("rect", { x: 8 + 39 * i, width: 32, rx: 3, class: "n" }),
      figure.text(24 + 39 * i, 278, "", "mid weight")];
  });

  return () => {
    const n = width.value - 1, side = divide.on ? 1 : 0;
    const counts = data.hills[side][n], most = Math.max(...counts);
    const outline = counts.map((count, i) => {
      const left = x(-EDGE + BIN * i), high = 122 - (92 * count) / most;
      return `L${left} ${high.toFixed(1)}H${x(-EDGE + BIN * (i + 1)).toFixed(1)}`;
    });
    hill.setAttribute("d", `M${x(-EDGE)} 122${outline.join("")}V122Z`);
    const wide = data.spread[side][n].toFixed(2), largest = data.weights[side][n][0];
    spread.textContent = `spread ${wide}`;
    data.weights[side][n].forEach((weight, i) => {
      bars[i][0].setAttribute("y", 262 - 84 * weight);
      bars[i][0].setAttribute("height", 84 * weight);
      bars[i][1].textContent = weight.toFixed(2);
    });
    const found = !side && n === data.weights[0].findIndex((weights) => weights[0] >= 0.9);
    figure.say(`d_k = ${data.widths[n]}, ${side ? "divided" : "undivided"}: the scores spread by ${wide}, `
      + `and the best of ten keys gets ${largest.toFixed(2)} of the attention.`
      + (found ? " That's as wide as the paper's heads are. The keys are random, so luck has chosen this one. Divide, and many are heard." : ""), found);
  };
});
