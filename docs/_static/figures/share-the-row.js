// Lesson 03: one row of weights for two questions, and what a second row is worth.
courseFigure("share-the-row", {
  title: "Share the row of saw.",
  riddle: "Can you make both green bars full?",
  height: 306,
}, (figure, data) => {
  const share = figure.slider("Weight on the left neighbour", { min: 0, max: 1, step: 0.01, value: 0.5,
    key: "left", show: (a) => a.toFixed(2) });
  const second = figure.toggle("Give it a second head", false, "second");
  const words = data.words, SAW = 1, x = (i) => 42 + 80 * i, TOP = 132;
  const arcs = [0, 2].map((to) => figure.add("path", { class: "line q" }));
  const said = [0, 2].map((to) => figure.text((x(SAW) + x(to)) / 2, 0, "", "strong mid"));
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
    const two = second.on, a = share.value;
    share.input.disabled = two;
    const weights = two ? [1, 1] : [a, 1 - a];
    const known = two ? [1, 1] : weights.map((w) => w * w / (a * a + (1 - a) ** 2));
    for (const [i, to] of [0, 2].entries()) {
      const high = two ? 128 : 92;
      arcs[i].setAttribute("d", `M${x(SAW)} ${TOP - 2}C${x(SAW)} ${TOP - high} ${x(to)} ${TOP - high} ${x(to)} ${TOP - 2}`);
      arcs[i].setAttribute("stroke-width", (1 + 13 * weights[i]).toFixed(1));
      arcs[i].style.strokeWidth = 1 + 13 * weights[i];
      arcs[i].style.strokeDasharray = two && i ? "16 5" : "none";
      said[i].textContent = (two ? `head ${i}: ` : "") + weights[i].toFixed(2);
      said[i].setAttribute("y", two ? 20 : 48);
      said[i].setAttribute("x", (x(SAW) + x(to)) / 2 + (two ? 28 * i - 14 : 0)); // words take more room
      bars[i][0].setAttribute("width", 396 * known[i]);
      bars[i][1].textContent = known[i].toFixed(2);
    }
    const left = 1 - (known[0] + known[1]) / 2;
    error.textContent = `mean squared error ${left.toFixed(2)}`;
    const [l, r] = known.map((share) => share.toFixed(2));
    figure.say(two
      ? "Each head has a row of its own, and both neighbours are known: 1.00 and 1.00."
      : `One row: ${weights[0].toFixed(2)} on ${words[0]}, ${weights[1].toFixed(2)} on ${words[2]}. `
        + `It knows ${l} of the left number and ${r} of the right one, and they add up to 1.`, two);
  };
});
