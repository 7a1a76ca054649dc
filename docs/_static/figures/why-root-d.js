// Lesson 02: what wide keys do to scores and weights, with and without the division.
courseFigure("why-root-d", {
  title: "Why √d_k.",
  riddle: "From which width on does one of ten keys get nine tenths of the attention?",
  height: 284,
}, (figure, data) => {
  const width = figure.slider("Width of queries and keys, d_k", {
    min: 1, max: data.widths.length, step: 1, value: 4, key: "nth-width", show: (n) => data.widths[Math.round(n) - 1] });
  const divide = figure.toggle("Divide by √d_k", false, "divided");
  const EDGE = 64, BIN = 2, x = (score) => 202 + (score * 190) / EDGE;

  figure.text(4, 16, "scores", "strong");
  const spread = figure.text(400, 16, "", "end spread");
  const plain = figure.add("path", { class: "track" }), hill = figure.add("path", { class: "n" });
  figure.add("path", { class: "line thin", d: "M8 122H396" });
  for (const score of [-60, -30, 0, 30, 60]) figure.text(x(score), 138, score, "note mid");

  figure.text(4, 168, "weights of one query, largest first", "strong");
  const bars = data.weights[0][0].map((_, i) => {
    figure.add("rect", { x: 8 + 39 * i, y: 178, width: 32, height: 84, rx: 3, class: "track" });
    return [figure.add("rect", { x: 8 + 39 * i, width: 32, rx: 3, class: "n" }),
      figure.text(24 + 39 * i, 278, "", "mid weight")];
  });

  const flank = (n) => Math.min(EDGE, 2 * data.spread[0][n]); // two spreads from the middle
  const here = figure.scrub(width, [4, 22, 396, 120], (at) =>
    1 + figure.nearest(data.widths.map((_, n) => x(flank(n))), 202 + Math.abs(at - 202)));
  figure.plays(9, (t) => { // wider and wider, and then divided
    width.value = 1 + Math.min(9, Math.floor(15 * t));
    divide.on = t > 0.8;
    return width.value + divide.on / 2;
  });

  function outline(counts) {
    const most = Math.max(...counts);
    const tops = counts.map((count, i) =>
      `L${x(-EDGE + BIN * i)} ${(122 - (92 * count) / most).toFixed(1)}H${x(-EDGE + BIN * (i + 1)).toFixed(1)}`);
    return `M${x(-EDGE)} 122${tops.join("")}V122Z`;
  }

  return () => {
    const n = width.value - 1, side = divide.on ? 1 : 0;
    plain.setAttribute("d", outline(data.hills[0][n]));
    hill.setAttribute("d", outline(data.hills[side][n]));
    here.at(x(flank(n)), 122);
    const wide = data.spread[side][n].toFixed(2), largest = data.weights[side][n][0];
    spread.textContent = `spread ${wide}`;
    data.weights[side][n].forEach((weight, i) => {
      bars[i][0].setAttribute("y", 262 - 84 * weight);
      bars[i][0].setAttribute("height", 84 * weight);
      bars[i][1].textContent = weight.toFixed(2);
    });
    const found = !side && n === data.weights[0].findIndex((weights) => weights[0] >= 0.9);
    figure.say(`d_k = ${data.widths[n]}, ${side ? "divided" : "undivided"}: the scores spread by ${wide}, `
      + `and the best of ten keys gets ${largest.toFixed(2)} of the attention.`, found,
      "That's as wide as the paper's heads are. The keys are random, so luck has chosen this one. Divide, and many are heard.");
  };
});
