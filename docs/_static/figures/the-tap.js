// Lesson 11: temperature, and three filters that cut the same bars.
courseFigure("the-tap", {
  title: "The tap.",
  riddle: "Can you put all three cuts behind the same letter?",
  height: 396,
}, (figure, data, softmax) => {
  const beginning = figure.choice("The name begins", data.map(({ text }) => text), 0, "name");
  const heat = figure.slider("Temperature", { min: 0.1, max: 3, step: 0.1, value: 1, show: (x) => x.toFixed(1) });
  const n = data[0].letters.length;
  const k = figure.slider("top-k", { min: 1, max: n, step: 1, value: 12 });
  const p = figure.slider("top-p", { min: 0.05, max: 1, step: 0.05, value: 0.8, show: (x) => x.toFixed(2) });
  const m = figure.slider("min-p", { min: 0, max: 0.5, step: 0.01, value: 0.1, show: (x) => x.toFixed(2) });

  const STEP = 392 / n, FLOOR = 196, HIGH = 176;
  const bars = data[0].letters.map((_, i) => [
    figure.add("rect", { x: 6 + STEP * i, width: STEP - 3, rx: 2 }),
    figure.text(6 + STEP * i + (STEP - 3) / 2, FLOOR + 15, "", "mid"),
  ]);
  figure.add("path", { class: "line thin", d: `M4 ${FLOOR}H400` });
  const top = figure.text(400, 14, "", "end note");
  const cuts = ["top-k", "top-p", "min-p"].map((name, i) => {
    const y = 232 + 52 * i;
    figure.text(4, y, name, "strong");
    figure.add("rect", { x: 4, y: y + 8, width: 396, height: 10, rx: 3, class: "track" });
    return { y: y + 13, bar: figure.add("rect", { x: 4, y: y + 8, height: 10, rx: 3, class: "n" }),
      words: figure.text(400, y, "", "end keeps"), line: figure.add("path", { class: "line dash thin" }) };
  });
  let hot, tails; // the probability of each letter, and of all after it
  const settings = [ // of each cut, if it keeps so many letters
    [k, (count) => count],
    [p, (count) => 1 - tails[count]],
    [m, (count) => Math.floor((100 * hot[count - 1]) / hot[0]) / 100],
  ];
  const grips = settings.map(([slider, setting], i) => figure.scrub(slider, [0, cuts[i].y - 26, 404, 52],
    (x) => setting(Math.min(n, Math.max(1, Math.round((x - 4.5) / STEP))))));
  const left = figure.text(4, 390, "", "left");

  return () => {
    const { letters, logits, text } = data[beginning.value];
    hot = softmax(logits.map((z) => z / heat.value));
    tails = [...hot, 0];
    for (let i = n - 1; i >= 0; i--) tails[i] += tails[i + 1];
    const kept = [
      k.value,
      p.value === 1 ? n : Math.max(1, hot.filter((_, i) => tails[i] > 1 - p.value).length),
      m.value ? hot.filter((x) => x >= m.value * hot[0]).length : n,
    ];
    const least = Math.min(...kept), mass = hot.slice(0, least).reduce((a, b) => a + b);
    bars.forEach(([bar, name], i) => {
      const high = (HIGH * hot[i]) / hot[0];
      bar.setAttribute("y", FLOOR - high);
      bar.setAttribute("height", high);
      bar.setAttribute("class", i < least ? "a" : "shade");
      name.textContent = letters[i] === "end" ? "■" : letters[i];
    });
    kept.forEach((count, i) => {
      const { y, bar, words, line } = cuts[i], at = 4.5 + STEP * count + i - 1;
      bar.setAttribute("width", at - 4);
      grips[i].at(at, y);
      words.textContent = `keeps ${count} of ${n}`;
      line.setAttribute("d", `M${at} ${12 + 8 * i}V${y}`);
    });
    top.textContent = `highest bar ${(100 * hot[0]).toFixed(1)} %`;
    const shares = letters.slice(0, Math.min(3, least))
      .map((letter, i) => `${letter} ${((100 * hot[i]) / mass).toFixed(1)} %`);
    left.textContent = `After all cuts: ${shares.join(", ")}${least > 3 ? " …" : ""}`;
    const solved = kept.every((count) => count === least) && least > 2 && least < n;
    figure.say(`After “${text}” top-k keeps ${kept[0]}, top-p ${kept[1]} and min-p ${kept[2]} of ${n} tokens, `
      + `and ${least} can be drawn.`, solved,
      "One cut by three rules: a count, a sum, a share of the highest. At another temperature top-k keeps as many, and the others follow the bars.");
  };
});
