// Lesson 11: which tokens go through the model at each step, with a cache and without.
courseFigure("the-cache", {
  title: "What is computed again.",
  riddle: "From how many letters on does the cache save nine visits of ten?",
  height: 272,
}, (figure, data) => {
  const steps = figure.slider("Letters written", { min: 1, max: 20, step: 1, value: 6, key: "letters" });
  const cache = figure.toggle("Keep keys and values", false, "cache");
  const start = data.prompt.length, W = 16, H = 11, LEFT = 40, TOP = 30;
  figure.text(LEFT, 14, "tokens that go through the model →", "note");
  figure.text(30, TOP + 9, "1", "note end");
  figure.text(30, TOP + 19 * H + 9, "20", "note end");
  figure.text(16, TOP + 10 * H, "step", "note mid").setAttribute("transform", `rotate(-90 16 ${TOP + 10 * H})`);
  const cells = [];
  for (let step = 0; step < 20; step++)
    for (let token = 0; token < start + step; token++)
      cells.push([step, token, figure.add("rect", { x: LEFT + W * token, y: TOP + H * step, width: W - 2, height: H - 2, rx: 2 })]);
  const total = figure.text(400, TOP + 30, "", "strong big end total");
  figure.text(400, TOP + 48, "visits", "note end");

  return () => {
    const n = steps.value, counts = [0, 0];
    for (const [step, token, cell] of cells) {
      const fresh = !step || token === start + step - 1, now = step < n;
      if (now) counts[0] += 1;
      if (now && fresh) counts[1] += 1;
      cell.setAttribute("class", !now ? "track pale" : fresh ? "v" : cache.on ? "track" : "n");
    }
    const [plain, kept] = counts, shown = cache.on ? kept : plain;
    total.textContent = shown;
    const saved = 1 - kept / plain, first = saved >= 0.9 && 1 - (kept - 1) / (plain - start - n + 1) < 0.9;
    const solved = cache.on && first;
    figure.say(`${n} ${n > 1 ? "letters" : "letter"}, ${cache.on ? "with" : "without"} a cache: ${shown} visits. `
      + (cache.on ? `That saves ${(100 * saved).toFixed(0)} % of ${plain}.` + (solved ? " With it each letter costs one visit; without it each costs one more than the last." : "") : `${plain - kept} of them are computed again (grey).`),
      solved);
  };
});
