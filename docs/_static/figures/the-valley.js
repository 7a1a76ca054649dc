// Lesson 08: recorded runs at nine learning rates, three seeds each, with warm-up and without.
courseFigure("the-valley", {
  title: "The valley.",
  riddle: "At which rate do two of three runs end below 0.01 with warm-up, and none without?",
  height: 388,
}, (figure, data) => {
  const { rates, runs, steps, word } = data, seeds = runs[0][0].length;
  const rate = figure.slider("Learning rate", { min: 1, max: rates.length, step: 1, value: 2, key: "nth-rate", show: (n) => rates[Math.round(n) - 1] });
  const step = figure.slider("Step", { min: 0, max: steps, step: 20, value: steps, show: Math.round });
  const warm = figure.toggle("Warm-up", true);
  const log = Math.log10, x = (n) => 44 + 43 * n, y = (nats) => 26 + 29 * (0.6 - log(Math.max(nats, 5e-5)));
  figure.text(4, 14, "loss at the end of 200 steps, three seeds", "strong");
  for (const nats of [1, 0.1, 0.01, 0.001]) {
    figure.add("path", { class: "grid", d: `M34 ${y(nats)}H400` });
    figure.text(30, y(nats) + 4, nats, "note end");
  }
  rates.forEach((r, n) => figure.text(x(n), 182, String(r).replace("0.", "."), "note mid"));
  const band = figure.add("rect", { y: 20, width: 36, height: 148, rx: 6, class: "track" });
  const valley = figure.add("path", { class: "line" }), dots = figure.add("g");
  const dip = figure.scrub(rate, [22, 20, 382, 166], (at) => 1 + (at - 44) / 43);

  figure.text(4, 206, "loss on the way", "strong");
  const px = (s) => 34 + (366 * s) / steps, py = (nats) => 308 - 30 * Math.min(nats, 3);
  for (const nats of [0, 1, 2, 3]) {
    figure.add("path", { class: "grid", d: `M34 ${py(nats)}H400` });
    figure.text(30, py(nats) + 4, nats, "note end");
  }
  const curves = Array.from({ length: seeds }, (_, i) => figure.add("path", { class: `line ${["", "dash", "thin"][i]}` }));
  const veil = figure.add("rect", { y: 210, height: 104, class: "paper", opacity: 0.7 });
  const now = figure.add("path", { class: "line dash thin" });
  const here = figure.scrub(step, [20, 208, 384, 108], (at) => ((at - 34) * steps) / 366);
  figure.plays(8, (t) => { step.value = steps * t; });
  figure.text(4, 338, "one word, seed 0", "note");
  const asked = figure.text(4, 366, "", "note");
  const letters = [...word].map((_, i) => [
    figure.add("rect", { x: 146 + 23 * i, y: 324, width: 21, height: 24, rx: 5 }),
    figure.text(156.5 + 23 * i, 341, "", "strong mid said"),
    figure.text(156.5 + 23 * i, 366, word[i], "mid note"),
  ]);
  asked.textContent = "it should be";
  const mean = (numbers) => numbers.reduce((a, b) => a + b) / numbers.length;

  return () => {
    const side = runs[warm.on ? 0 : 1], n = rate.value - 1, runs_here = side[n];
    const ends = side.map((each) => each.map(({ end }) => end));
    band.setAttribute("x", x(n) - 18);
    valley.setAttribute("d", `M${ends.map((each, i) => `${x(i)} ${y(mean(each)).toFixed(1)}`).join("L")}`);
    dots.replaceChildren();
    ends.forEach((each, i) => each.forEach((end, seed) => figure.add("circle",
      { cx: x(i) + 5 * (seed - 1), cy: y(end).toFixed(1), r: 3.5, class: "n" }, "", dots)));
    runs_here.forEach(({ losses }, seed) => {
      const wide = steps / losses.length;
      curves[seed].setAttribute("d", `M${losses.map((loss, i) => `${px((i + 0.5) * wide).toFixed(1)} ${py(loss).toFixed(1)}`).join("L")}`);
    });
    const at = step.value, nearest = Math.round(at / 20);
    now.setAttribute("d", `M${px(at)} 214V312`);
    veil.setAttribute("x", px(at) + 3); // what comes later is pale
    veil.setAttribute("width", 374 - (366 * at) / steps);
    here.at(px(at), 308);
    dip.at(x(n), y(mean(ends[n])));
    const said = runs_here[0].words[nearest];
    let right = 0;
    letters.forEach(([box, text], i) => {
      const good = said[i] === word[i];
      right += good;
      text.textContent = said[i];
      box.setAttribute("class", good ? "box a" : "box");
    });
    const show = (nats) => (nats < 0.01 ? nats.toExponential(0) : nats.toFixed(2));
    const [low, high] = [Math.min(...ends[n]), Math.max(...ends[n])];
    const learn = (some) => some.filter(({ end }) => end < 0.01).length;
    const saved = learn(runs[0][n]) === 2 && learn(runs[1][n]) === 0;
    const solved = !warm.on && saved;
    figure.say(`Rate ${rates[n]}, ${warm.on ? "with" : "without"} warm-up: the three runs end at ${show(mean(ends[n]))} nats `
      + `on average, from ${show(low)} to ${show(high)}. At step ${20 * nearest} ${right} of ${word.length} letters are right.`, solved, "Warm-up makes the valley wider: here it saves two runs of three.");
  };
});
