// Lesson 02: what wide keys do to scores, weights and gradients, with and without the division.
courseFigure("why-root-d", {
  title: "Why √d_k.",
  riddle: "At which width has half of the queries lost more than nine tenths of the gradient?",
  height: 372,
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

  figure.text(4, 308, "gradient at half of the queries, less than", "strong");
  const gradient = figure.text(400, 308, "", "strong end gradient");
  const place = (g) => 22 + 374 * Math.min(1, Math.max(0, (Math.log10(g) + 5) / 5)); // 1e-5 to 1
  figure.add("rect", { x: 22, y: 318, width: 374, height: 12, rx: 3, class: "track" });
  const gauge = figure.add("rect", { x: 22, y: 318, height: 12, rx: 3, class: "v" });
  const tick = figure.add("path", { class: "line thin" });
  for (let n = -5; n <= 0; n++) figure.text(place(10 ** n), 346, n ? `1e${n}` : "1", n ? "note mid" : "note end");
  figure.text(4, 366, "the line: the same with the division", "note");

  return () => {
    const n = width.value - 1, side = divide.on ? 1 : 0;
    const counts = data.hills[side][n], most = Math.max(...counts);
    const outline = counts.map((count, i) => {
      const left = x(-EDGE + BIN * i), high = 122 - (92 * count) / most;
      return `L${left} ${high.toFixed(1)}H${x(-EDGE + BIN * (i + 1)).toFixed(1)}`;
    });
    hill.setAttribute("d", `M${x(-EDGE)} 122${outline.join("")}V122Z`);
    const wide = data.spread[side][n].toFixed(2), middle = data.median[side][n];
    spread.textContent = `spread ${wide}`;
    data.weights[side][n].forEach((weight, i) => {
      bars[i][0].setAttribute("y", 262 - 84 * weight);
      bars[i][0].setAttribute("height", 84 * weight);
      bars[i][1].textContent = weight.toFixed(2);
    });
    const short = middle < 0.01 ? middle.toExponential(0) : middle.toFixed(2);
    gradient.textContent = short;
    gauge.setAttribute("width", place(middle) - 22);
    tick.setAttribute("d", `M${place(data.median[1][n])} 314V334`);
    const lost = data.median[0].findIndex((g, i) => g < data.median[1][i] / 10);
    const found = !side && n === lost, share = middle / data.median[1][n];
    const left = share < 0.01 ? "less than 1 %" : `${Math.round(100 * share)} %`;
    figure.say(`d_k = ${data.widths[n]}, ${side ? "divided" : "undivided"}: the scores spread by ${wide}, `
      + `and the largest weight is ${data.weights[side][n][0].toFixed(2)}. Half of the queries have a gradient `
      + `below ${short}` + (side ? "." : `, which is ${left} of the divided one.`)
      + (found ? " One weight takes nearly all, and half of the queries barely learn. But heads are 16 to 128 wide, and there the division matters for the weights." : ""), found);
  };
});
