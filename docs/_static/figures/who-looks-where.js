// Lesson 14: which letters of the source a head reads for each letter that is written, and what is
// written when a head is switched off.
courseFigure("who-looks-where", {
  title: "Who looks where.",
  riddle: "One head brings the ones. Which must you switch off to lose them?",
  height: 262,
}, (figure, data) => {
  const heads = data.heads;
  const word = figure.choice("Number", data.words.map(({ number }) => number));
  const seen = figure.choice("Look through layer and head", heads, 2, "head");
  const off = figure.choice("Switch off", ["none", ...heads], 0, "off");
  const letter = figure.slider("Letter", { min: 1, max: 20, step: 1, value: 1, key: "letter" });
  const STEP = 24.4, TOP = 62, BOTTOM = 176;
  figure.text(4, 16, "what it reads, and the weight in %", "note");
  const drawn = figure.add("g");
  figure.text(4, 252, "what it writes: press a letter, or drag", "note");
  let middles = [];
  const here = figure.scrub(letter, [0, BOTTOM - 26, 404, 86], (at) => 1 + figure.nearest(middles, at));
  figure.plays(8, (t) => (letter.value = 1 + Math.floor(t * (letter.input.max - 0.01))));

  return () => {
    const { source, runs } = data.words[word.value];
    const { answer, maps } = runs[off.value], map = maps[seen.value];
    const written = [...answer, "■"], n = written.length;
    letter.input.max = n;
    const chosen = Math.min(n, letter.value) - 1;
    letter.input.setAttribute("aria-valuetext", `${written[chosen]}, letter ${chosen + 1} of ${n}`);
    letter.input.parentElement.querySelector("output").textContent = `${written[chosen]}, ${chosen + 1} of ${n}`;
    const middle = (count) => (i) => 202 + STEP * (i - (count - 1) / 2);
    const x = middle(source.length), y = middle(n);
    drawn.replaceChildren();
    const [weights, read, wrote] = ["weights", "read", "written"].map((part) => figure.add("g", { "data-part": part }, "", drawn));
    const line = (i, j, attributes) => figure.add("path", {
      d: `M${y(i)} ${BOTTOM - 16}C${y(i)} ${BOTTOM - 60} ${x(j)} ${TOP + 60} ${x(j)} ${TOP + 16}`, ...attributes,
    }, "", weights);

    map.forEach((row, i) => {
      if (i !== chosen) line(i, row.indexOf(Math.max(...row)), { class: "line thin pale" });
    });
    map[chosen].forEach((percent, j) => {
      if (percent > 0) line(chosen, j, { class: "line q", style: `stroke-width:${(0.5 + percent / 9).toFixed(1)}` });
    });
    source.forEach((token, j) => {
      const percent = map[chosen][j];
      figure.add("rect", { x: x(j) - 11, y: TOP - 15, width: 22, height: 30, rx: 5, class: "box" }, "", read);
      figure.add("rect", { x: x(j) - 11, y: TOP - 15, width: 22, height: 30, rx: 5, class: "k", opacity: percent / 125 }, "", read);
      figure.text(x(j), TOP + 5, token, "strong mid", read);
      figure.text(x(j), TOP - 21, percent || "", "mid percent", read);
    });
    written.forEach((token, i) => {
      figure.add("rect", { x: y(i) - 11, y: BOTTOM - 15, width: 22, height: 30, rx: 5, class: i === chosen ? "box q" : "box" }, "", wrote);
      figure.text(y(i), BOTTOM + 5, token === " " ? "␣" : token, "strong mid", wrote);
    });
    middles = written.map((_, i) => y(i));
    here.at(y(chosen), BOTTOM + 32);
    const best = map[chosen].map((percent, j) => [percent, source[j]]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    const most = best.filter(([percent]) => percent).map(([percent, token]) => `“${token}” ${percent} %`);
    const [whole] = runs, lost = off.value > 0 && whole.answer.startsWith(`${answer}-`);
    const switched = off.value ? ` without head ${heads[off.value - 1]}` : "";
    figure.say(`It writes “${answer}”${switched}. For “${written[chosen]}” head ${heads[seen.value]} reads ${most.join(", ")}.`,
      lost, "The tens stay, and the ones are gone.");
  };
});
