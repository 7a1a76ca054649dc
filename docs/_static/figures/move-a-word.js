// Lesson 01: drag a word, and see its scores, its weights and its new vector.
courseFigure("move-a-word", {
  title: "Move a word.",
  riddle: "Where must “bank” lie so that it comes out exactly where “river” is?",
  height: 424,
}, (figure, data, softmax) => {
  const LEFT = 36, BOTTOM = 214, WIDE = 112, HIGH = 60, most = 3; // water to the right, money upwards
  const px = (water) => LEFT + WIDE * water, py = (money) => BOTTOM - HIGH * money;
  const asked = "bank";
  let place = null;

  const sentence = figure.choice("Sentence", data.labels);
  const factor = figure.slider("Length of all vectors", {
    min: 0, max: 3, step: 0.1, value: 1, key: "length", show: (t) => `× ${t.toFixed(1)}` });

  for (let i = 0; i <= most; i++) {
    figure.add("path", { class: "grid", d: `M${px(i)} ${py(0)}V${py(most)}M${px(0)} ${py(i)}H${px(most)}` });
    figure.text(px(i), py(0) + 36, i, "note mid");
    if (i) figure.text(px(0) - 8, py(i) + 4, i, "note end");
  }
  figure.text(px(most) - 12, py(0) + 36, "water →", "note end");
  figure.text(px(0) - 8, py(most) - 12, "↑ money", "note");
  const words = figure.add("g"), path = figure.add("path", { class: "line v", "marker-end": figure.arrow("v") });
  const ring = figure.add("circle", { r: 7, class: "line v" });
  const result = figure.text(0, 0, "new bank", "strong");
  const bank = figure.handle("the word bank in the plane of water and money",
    (dx, dy) => move(place[0] + dx / 10, place[1] + dy / 10),
    (x, y) => move((x - LEFT) / WIDE, (BOTTOM - y) / HIGH));
  figure.add("circle", { r: 8, class: "q" }, "", bank);
  figure.text(0, -13, asked, "strong mid", bank);
  const rows = figure.add("g");
  const columns = [[98, "score", "note end"], [112, "weight", "note"]];
  for (const [x, name, kind] of columns) figure.text(x, 276, name, kind);

  function move(water, money) { // to a tenth, within the plane
    place = [water, money].map((n) => Math.round(10 * Math.min(most, Math.max(0, n))) / 10);
  }

  const dot = (a, b) => a.reduce((sum, n, i) => sum + n * b[i], 0);
  place = data.meaning[asked].slice(0, 2);
  for (const [i, key] of ["water", "money"].entries())
    figure.keep(key, () => place[i].toFixed(1), (text) => {
      move(...place.map((n, at) => (at === i ? Number(text) || 0 : n)));
      return place[i] === Number(text);
    });

  figure.plays(9, (t) => { // to the water, past the words of neither, to the money, and home
    const along = Math.cos(2 * Math.PI * t), across = Math.sin(2 * Math.PI * t);
    place = [0.9 + 0.1 * along + 0.8 * across, 0.6 + 0.4 * along - 0.3 * across];
  });

  return () => {
    const tokens = data.sentences[sentence.value];
    const x = tokens.map((w) => (w === asked ? [...place, 0, 0] : data.meaning[w]));
    const query = [...place, 0, 0], t = factor.value;
    const scores = x.map((key) => t * t * dot(query, key)), weights = softmax(scores);
    const y = query.map((_, c) => x.reduce((sum, row, j) => sum + weights[j] * row[c], 0));

    words.replaceChildren();
    const hidden = []; // words without water and money lie in the corner
    for (const [i, word] of tokens.entries()) {
      const [water, money] = x[i];
      if (word === asked) continue;
      figure.add("circle", { cx: px(water), cy: py(money), r: 6, class: "k" }, "", words);
      if (!water && !money) hidden.push(word);
      else if (water) figure.text(px(water), py(money) + 19, word, "mid", words);
      else figure.text(px(water) + 12, py(money) + 4, word, "", words);
    }
    figure.text(px(0), py(0) + 19, hidden.join(", "), "", words);
    bank.setAttribute("transform", `translate(${px(place[0])} ${py(place[1])})`);
    const [nx, ny] = [px(y[0]), py(y[1])];
    path.setAttribute("d", `M${px(place[0])} ${py(place[1])}L${nx} ${ny}`);
    ring.setAttribute("cx", nx);
    ring.setAttribute("cy", ny);
    result.setAttribute("x", nx + 13);
    result.setAttribute("y", ny - 6);

    rows.replaceChildren();
    for (const [j, word] of tokens.entries()) {
      const at = 290 + 22 * j;
      figure.text(4, at + 11, word, word === asked ? "strong" : "", rows);
      figure.text(98, at + 11, scores[j].toFixed(2), "end score", rows);
      figure.add("rect", { x: 112, y: at, width: 230, height: 15, rx: 3, class: "track" }, "", rows);
      figure.add("rect", { x: 112, y: at, width: 230 * weights[j], height: 15, rx: 3, class: "n" }, "", rows);
      figure.text(400, at + 11, weights[j].toFixed(2), "end weight", rows);
    }
    const where = `water ${place[0].toFixed(1)}, money ${place[1].toFixed(1)}`;
    bank.setAttribute("aria-valuetext", where);
    bank.setAttribute("aria-valuenow", place[0]);
    bank.setAttribute("aria-valuemin", 0);
    bank.setAttribute("aria-valuemax", most);
    const target = data.meaning.river, river = tokens.includes("river");
    const solved = river && t === 1 && Math.hypot(y[0] - target[0], y[1] - target[1]) < 0.05;
    figure.say(`Bank goes in with ${where} and comes out with water ${y[0].toFixed(2)}, `
      + `money ${y[1].toFixed(2)}.`, solved, "Bank had to overshoot: the average pulls it back to its neighbours.");
  };
});
