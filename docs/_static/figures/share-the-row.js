// Lesson 03: one row of weights for two questions, and what a second row is worth.
courseFigure("share-the-row", {
  title: "Share the row of saw.",
  riddle: "Where must a second head look, so that both green bars are full?",
  height: 306,
}, (figure, data) => {
  const share = figure.slider("Weight on the left neighbour", { min: 0, max: 1, step: 0.01, value: 0.5,
    key: "left", show: (a) => a.toFixed(2) });
  const second = figure.toggle("Give it a second head", false, "second");
  const other = figure.slider("Its weight on the left neighbour", { min: 0, max: 1, step: 0.01, value: 0.5,
    key: "second-left", show: (b) => b.toFixed(2) });
  const words = data.words, SAW = 1, x = (i) => 42 + 80 * i, TOP = 132;
  const heads = [92, 140].map((high, head) => [0, 2].map((to) => { // a row of weights: an arc to each neighbour
    const arc = figure.add("path", { class: "line q",
      d: `M${x(SAW)} ${TOP - 2}C${x(SAW)} ${TOP - high} ${x(to)} ${TOP - high} ${x(to)} ${TOP - 2}` });
    arc.style.strokeDasharray = head ? "16 5" : "none";
    return [arc, figure.text((x(SAW) + x(to)) / 2, head ? 16 : 48, "", "strong mid")];
  }));
  for (const [i, word] of words.entries()) {
    figure.add("rect", { x: x(i) - 35, y: TOP, width: 70, height: 34, rx: 9, class: i === SAW ? "box q" : "box" });
    figure.text(x(i), TOP + 22, word, i === SAW ? "big strong mid" : "big mid");
  }
  const bars = ["left", "right"].map((side, i) => {
    const at = 196 + 42 * i;
    figure.text(4, at + 11, `known of the ${side} neighbour`);
    figure.add("rect", { x: 4, y: at + 18, width: 396, height: 12, rx: 3, class: "track" });
    return [figure.add("rect", { x: 4, y: at + 18, width: 0, height: 12, rx: 3, class: "v" }),
      figure.text(400, at + 11, "", "strong end known")];
  });
  const error = figure.text(4, 296, "", "error");

  return () => {
    const two = second.on, a = share.value, b = other.value, apart = two && a !== b;
    other.input.disabled = !two;
    const rows = [[a, 1 - a], [b, 1 - b]], weights = rows[0];
    const known = apart ? [1, 1] : weights.map((w) => w * w / (a * a + (1 - a) ** 2)); // two equations, or one
    heads.forEach((arcs, head) => arcs.forEach(([arc, said], i) => {
      const weight = rows[head][i], shown = two || !head;
      arc.style.visibility = shown ? "visible" : "hidden";
      arc.style.strokeWidth = 1 + (two ? 5 : 13) * weight;
      said.textContent = shown ? (head ? `head 2: ${weight.toFixed(2)}` : weight.toFixed(2)) : "";
      said.setAttribute("x", (x(SAW) + x(2 * i)) / 2 + (head ? 28 * i - 14 : 0)); // words take more room
    }));
    for (const i of [0, 1]) {
      bars[i][0].setAttribute("width", 396 * known[i]);
      bars[i][1].textContent = known[i].toFixed(2);
    }
    const left = 1 - (known[0] + known[1]) / 2;
    error.textContent = `mean squared error ${left.toFixed(2)}`;
    const [l, r] = known.map((share) => share.toFixed(2));
    const row = `${weights[0].toFixed(2)} on ${words[0]}, ${weights[1].toFixed(2)} on ${words[2]}`;
    figure.say(apart
      ? `Anywhere but where the first looks. Rows that differ, here by ${Math.abs(a - b).toFixed(2)}, are two equations for `
        + "two numbers: the error falls from 0.50 to 0.00."
      : `${two ? "Two equal rows say the same" : "One row"}: ${row}. `
        + `${two ? "They know" : "It knows"} ${l} of the left number and ${r} of the right one, and they add up to 1.`, apart);
  };
});
