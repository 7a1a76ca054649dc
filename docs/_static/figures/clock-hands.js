// Lesson 05: a position is a row of clock hands; two positions have the dot product of their hands.
courseFigure("clock-hands", {
  title: "Clock hands.",
  riddle: "At which distance are the two positions least alike?",
  height: 356,
}, (figure, table) => {
  const hands = table[0].length / 2, far = 32;
  const start = figure.slider("First position", { min: 0, max: table.length - 1 - far, step: 1, value: 3, key: "first", show: Math.round });
  const distance = figure.slider("Distance to the second", { min: 0, max: far, step: 1, value: 4, key: "distance", show: Math.round });
  const R = 38, FLOOR = 312;
  const clocks = Array.from({ length: hands }, (_, i) => {
    const x = 52 + 100 * (i % 4), y = 48 + 102 * Math.floor(i / 4);
    figure.add("circle", { cx: x, cy: y, r: R, class: "box" });
    const words = figure.text(x, y + R + 15, "", "mid note alike");
    words.dataset.part = "alike";
    const line = (kind, part) => figure.add("path", { class: `line ${kind}`, "data-part": part });
    return { x, y, words, second: line("n", "second"), first: line("a", "first") };
  });
  const dot = (a, b) => a.reduce((sum, n, i) => sum + n * b[i], 0);
  const curve = Array.from({ length: far + 1 }, (_, d) => dot(table[0], table[d]));
  const px = (d) => 30 + (366 * d) / far, py = (n) => FLOOR - 9 * n;
  figure.text(4, 232, "dot product of the two positions", "strong");
  const total = figure.text(400, 232, "", "strong end total");
  total.dataset.part = "product";
  for (const n of [0, 4, 8]) {
    figure.add("path", { class: "grid", d: `M30 ${py(n)}H396` });
    figure.text(22, py(n) + 4, n, "note end");
  }
  figure.add("path", { class: "line", "data-part": "product", d: `M${curve.map((n, d) => `${px(d).toFixed(1)} ${py(n).toFixed(1)}`).join("L")}` });
  for (const d of [0, 8, 16, 24, 32]) figure.text(px(d), FLOOR + 20, d, "note mid");
  figure.text(213, FLOOR + 38, "distance", "note mid");
  const here = figure.scrub(distance, [20, 236, 384, 100], (x) => ((x - 30) * far) / 366);
  // Between two positions, while it plays: each hand goes on at its own speed.
  const speeds = Array.from({ length: hands }, (_, i) => Math.atan2(table[1][2 * i], table[1][2 * i + 1]));
  const row = (p) => table[p] ?? speeds.flatMap((speed) => [Math.sin(speed * p), Math.cos(speed * p)]);
  const begins = distance.value;
  figure.plays(9, (t) => { // out, and back
    distance.value = t < 0.75 ? begins + ((far - begins) * t) / 0.75 : far - ((far - begins) * (t - 0.75)) / 0.25;
  });

  return () => {
    const p = Math.round(start.value), d = distance.value, first = table[p], second = row(p + d);
    clocks.forEach(({ x, y, first: one, second: other, words }, i) => {
      const tip = (row, r) => `M${x} ${y}L${(x + r * row[2 * i]).toFixed(1)} ${(y - r * row[2 * i + 1]).toFixed(1)}`;
      one.setAttribute("d", tip(first, R - 8));
      other.setAttribute("d", tip(second, R - 3));
      const alike = first[2 * i] * second[2 * i] + first[2 * i + 1] * second[2 * i + 1];
      words.textContent = alike.toFixed(2).replace("-0.00", "0.00");
    });
    const sum = dot(first, second);
    total.textContent = sum.toFixed(2);
    here.at(px(d), py(sum));
    const least = curve.indexOf(Math.min(...curve));
    figure.say(`Positions ${p} and ${p + Math.round(d)}: the dot product is ${sum.toFixed(2)} of ${hands}.`,
      d === least, "Now move the first position: both move, and the number stays.");
  };
});
