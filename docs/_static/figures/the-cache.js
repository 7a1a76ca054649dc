// Lesson 11: which tokens go through the model at each step, with a cache and without.
courseFigure("the-cache", {
  title: "What is computed again.",
  riddle: "From how many letters on does the cache save nine visits of ten?",
  height: 272,
}, (figure, data) => {
  const steps = figure.slider("Letters written", { min: 1, max: 20, step: 1, value: 6, key: "letters", show: Math.ceil });
  const cache = figure.toggle("Keep keys and values", false, "cache");
  const start = data.prompt.length, W = 16, H = 11, LEFT = 40, TOP = 30;
  figure.text(LEFT, 14, "tokens that go through the model →", "note");
  figure.text(30, TOP + 9, "1", "note end");
  figure.text(30, TOP + 19 * H + 9, "20", "note end");
  figure.text(16, TOP + 10 * H, "step", "note mid").setAttribute("transform", `rotate(-90 16 ${TOP + 10 * H})`);
  const cells = [];
  for (let step = 0; step < 20; step++)
    for (let token = 0; token < start + step; token++)
      cells.push([step, (token + 1) / (start + step), token, figure.add("rect", { x: LEFT + W * token, y: TOP + H * step, width: W - 2, height: H - 2, rx: 2 })]);
  const total = figure.text(400, TOP + 30, "", "strong big end total");
  figure.text(400, TOP + 48, "visits", "note end");

  const here = figure.scrub(steps, [LEFT - 30, TOP, 390, 20 * H], (x, y) => Math.ceil((y - TOP) / H), true);
  const rows = Array.from({ length: 20 }, (_, step) => start + step), all = rows.reduce((a, b) => a + b);
  figure.plays(9, (t) => { // as many visits a second, first without a cache and then with it
    cache.on = t >= 0.8;
    let left = 1 + ((cache.on ? t - 0.8 : t) / 0.8) * all, n = 0;
    const costs = (step) => (cache.on && step ? 1 : rows[step]);
    while (n < 20 && left >= costs(n)) left -= costs(n++);
    steps.value = n + (n < 20 ? Math.max(0.01, left / costs(n)) : 0);
  });

  return () => {
    const now_at = steps.value, n = Math.ceil(now_at), counts = [0, 0];
    for (const [step, share, token, cell] of cells) {
      const fresh = !step || token === start + step - 1, now = step + (cache.on ? 0.001 : share) <= now_at + 1e-9;
      if (now) counts[0] += 1;
      if (now && fresh) counts[1] += 1;
      cell.dataset.part = fresh ? "new" : "again";
      cell.setAttribute("class", !now ? "track pale" : fresh ? "a" : cache.on ? "track" : "n");
    }
    const [plain, kept] = counts, shown = cache.on ? kept : plain;
    total.textContent = shown;
    const saved = 1 - kept / plain, first = saved >= 0.9 && 1 - (kept - 1) / (plain - start - n + 1) < 0.9;
    here.at(LEFT + W * (start + n - 1) - 9, TOP + H * (n - 0.5) - 1);
    figure.say(`${n} ${n > 1 ? "letters" : "letter"}, ${cache.on ? "with" : "without"} a cache: ${shown} visits. `
      + (cache.on ? `That saves ${(100 * saved).toFixed(0)} % of ${plain}.` : `${plain - kept} of them are computed again (grey).`),
      cache.on && first, "With it each letter costs one visit; without it each costs one more than the last.");
  };
});
