// Depth: a row that begins again, and the arcs of both layers.
courseFigure("induction-head", {
  title: "The induction head.",
  riddle: "Which head never looks at the answer, and yet the answer is gone without it?",
  height: 500,
}, (figure, data) => {
  const { width, saved, table, curves, every } = data, models = saved.map((one) => readWeights(data, one));
  const field = figure.field("A row of letters that begins again", "harmonicharmo", "row");
  const step = figure.slider("Step of training", { min: 0, max: saved.length - 1, step: 1, value: saved.length - 1, key: "nth-step",
    show: (n) => saved[Math.round(n)].step });
  const cut = figure.toggle("Cut the head of layer 1", false, "cut");
  const ROW = 102;
  figure.text(4, 14, "layer 1 looks one letter back", "n strong");
  figure.text(4, 202, "layer 2 looks at what followed last time", "a strong");
  const arcs = figure.add("g"), letters = figure.add("g");

  figure.text(4, 246, "the next letter", "strong");
  figure.text(400, 246, "line: with both heads", "note end");
  const bars = Array.from({ length: 5 }, (_, i) => {
    const y = 256 + 22 * i;
    figure.add("rect", { x: 34, y, width: 310, height: 14, rx: 3, class: "track" });
    return { y, name: figure.text(22, y + 11, "", "strong mid"), bar: figure.add("rect", { x: 34, y, height: 14, rx: 3, class: "a" }),
      whole: figure.add("path", { class: "frame" }), share: figure.text(400, y + 11, "", "end") };
  });

  figure.text(4, 390, "loss on new rows, in nats", "strong");
  const last = every * (curves.two.length - 1), px = (s) => 28 + (292 * s) / last, py = (nats) => 474 - 21 * nats;
  for (const nats of [0, 1, 2, 3]) {
    figure.add("path", { class: "grid", d: `M28 ${py(nats)}H320` });
    figure.text(22, py(nats) + 4, nats, "note end");
  }
  for (const s of [0, 200, 400, 600]) figure.text(px(s), 492, s, "note mid");
  figure.text(400, 492, "step of training", "note end");
  const path = (curve) => `M${curve.map((nats, i) => `${px(i * every).toFixed(1)} ${py(nats).toFixed(1)}`).join("L")}`;
  figure.add("path", { class: "line dash thin", d: path(curves.one) });
  figure.add("path", { class: "line a", d: path(curves.two) });
  figure.text(340, py(curves.one.at(-1)) + 4, "one layer", "note");
  figure.text(340, py(curves.two.at(-1)) + 4, "two layers", "note");
  for (const { step: s } of saved) figure.add("circle", { class: "box a", cx: px(s), cy: py(curves.two[s / every]), r: 3.5 });
  const here = figure.scrub(step, [20, 394, 310, 100], (x) => figure.nearest(saved.map((one) => px(one.step)), x));
  figure.plays(8, (t) => (step.value = Math.min(saved.length - 1, Math.floor(saved.length * t))));

  function arc(from, to, weight, x, up) { // wide arcs are high
    const high = up ? -Math.min(62, 14 + 9 * Math.abs(from - to)) : Math.min(72, 22 + 8 * Math.abs(from - to));
    const y = up ? ROW - 17 : ROW + 17, middle = (x(from) + x(to)) / 2;
    const line = figure.add("path", { class: `line ${up ? "n" : "a"}`, d: `M${x(from)} ${y}Q${middle} ${y + 2 * high * 0.8} ${x(to)} ${y}` }, "", arcs);
    line.style.strokeWidth = (0.8 + 3.4 * weight).toFixed(2);
    line.style.strokeOpacity = Math.min(1, 0.12 + weight).toFixed(2);
  }

  return () => {
    const typed = field.value.toLowerCase(), text = typed.replace(/[^a-z]/g, ""), others = typed.replace(/[a-z\s]/g, "");
    const dropped = others && ` Left out: ${others}.`, tokens = [...text].map((letter) => letter.charCodeAt(0) - 97);
    if (!tokens.length) return figure.say("Type letters from a to z.");
    const now = step.value, n = tokens.length, end = n - 1;
    const { p, maps } = readRow(models[now], width, tokens, cut.on), whole = readRow(models[now], width, tokens, false).p;
    const room = Math.min(30, 396 / n), x = (i) => 202 + (i - (n - 1) / 2) * room;
    const before = tokens.lastIndexOf(tokens[end], end - 1), answer = end > 0 && before >= 0 ? before + 1 : -1;
    arcs.replaceChildren();
    letters.replaceChildren();
    if (!cut.on) maps[0].forEach((row, i) => row.forEach((weight, j) => { if (j < i && weight > 0.1) arc(i, j, weight, x, true); }));
    maps[1][end].forEach((weight, j) => { if (j < end && weight > 0.04) arc(end, j, weight, x, false); });
    tokens.forEach((token, i) => {
      const kind = i === answer ? "box k" : i === end ? "box q" : "box";
      figure.add("rect", { x: x(i) - room / 2 + 1, y: ROW - 14, width: room - 2, height: 28, rx: 5, class: kind }, "", letters);
      figure.text(x(i), ROW + 5, text[i], `mid big ${i === answer || i === end ? "strong" : ""}`, letters);
    });
    const order = whole.map((_, token) => token).sort((a, b) => Math.max(whole[b], p[b]) - Math.max(whole[a], p[a])).slice(0, 5);
    bars.forEach(({ y, name, bar, whole: mark, share }, i) => {
      name.textContent = String.fromCharCode(97 + order[i]);
      bar.setAttribute("width", (310 * p[order[i]]).toFixed(1));
      mark.setAttribute("d", `M${(34 + 310 * whole[order[i]]).toFixed(1)} ${y - 2}v18`);
      share.textContent = `${(100 * p[order[i]]).toFixed(1)} %`;
    });
    here.at(px(saved[now].step), py(curves.two[saved[now].step / every]));
    const [, right, without] = table[now], per = (share) => `${Math.round(100 * share)} %`;
    const rows = `On a thousand new rows ${per(cut.on ? without : right)} is right.${dropped}`;
    if (answer < 0) return figure.say(`“${text[end]}” is new in this row, so nothing tells what follows. ${rows}`);
    const good = tokens[answer], looks = maps[1][end][answer];
    const found = cut.on && now > 4 && whole[good] > 0.5 && p[good] < 0.25;
    figure.say(`Last time “${text[end]}” was followed by “${text[answer]}”. ${cut.on ? "Without the head of layer 1, layer" : "Layer"} 2 puts `
      + `${looks.toFixed(2)} of its weight there, and “${text[answer]}” gets ${(100 * p[good]).toFixed(1)} %. ${rows}`, found,
      `That head wrote into each place what stood before; layer 2 looks for that, and ${per(whole[good])} fell to ${per(p[good])}.`);
  };
});
