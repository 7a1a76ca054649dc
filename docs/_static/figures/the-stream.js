// Lesson 06: the stream of one position through three blocks, and what becomes of the next letter
// if parts are switched off.
courseFigure("the-stream", {
  title: "The stream through depth.",
  riddle: "Which part alone, switched off, costs the likeliest letter most?",
  height: 388,
}, (figure, data) => {
  const names = ["attention 1", "network 1", "attention 2", "network 2", "attention 3", "network 3"];
  const beginning = figure.choice("The name begins", data.map(({ text }) => text), 0, "name");
  const parts = names.map((name) => figure.toggle(name, true));
  const MIDDLE = 104, x = (n) => 26 + 56 * n, scale = 4;
  figure.text(4, 14, "attention adds", "strong");
  figure.text(4, 204, "the feed-forward network adds", "strong");
  figure.text(400, 14, "length of the stream", "end note");
  const river = figure.add("path", { class: "shade", "data-part": "stream" });
  const lengths = Array.from({ length: 7 }, (_, n) => figure.text(n ? (n < 6 ? x(n) : 382) : 10, MIDDLE + 4, "", "mid length"));
  const flows = names.map((name, n) => {
    const up = n % 2 === 0, at = x(n) + 22;
    const flow = figure.add("g", { "data-part": up ? "attention" : "network" });
    return { up, at, path: figure.add("path", { class: "line a" }, "", flow),
      size: figure.text(at, up ? 32 : 186, "", "mid size", flow) };
  });
  parts.forEach((part, n) => figure.add("rect", { // an inflow is a tap
    x: x(n), y: n % 2 ? 124 : 18, width: 54, height: 68, class: "letter", "data-part": n % 2 ? "network" : "attention", fill: "none", "pointer-events": "all",
    onclick: () => { part.on = !part.on; figure.draw(); } }));
  figure.plays(8, (t) => { // one after the other
    const flowing = Math.floor(7.5 * t);
    parts.forEach((part, n) => { part.on = n < flowing; });
    return flowing;
  });
  figure.text(4, 232, "the next letter, and a line where it is with all parts", "note");
  const bars = data[0].letters.map((_, i) => {
    const y = 242 + 24 * i;
    figure.add("rect", { x: 34, y, width: 300, height: 15, rx: 3, class: "track" });
    return { name: figure.text(24, y + 12, "", "strong end"), y,
      bar: figure.add("rect", { x: 34, y, height: 15, rx: 3, class: "a" }),
      whole: figure.add("path", { class: "frame" }), share: figure.text(400, y + 12, "", "end share") };
  });

  return () => {
    const { text, letters, rows } = data[beginning.value];
    const choice = parts.reduce((sum, part, n) => sum + (part.on ? 0 : 2 ** n), 0);
    const [stream, added, p] = rows[choice], whole = rows[0][2];
    const edge = (sign) => stream.map((s, n) => `${x(n)} ${(MIDDLE + (sign * scale * s) / 2).toFixed(1)}`);
    river.setAttribute("d", `M${edge(-1).join("L")}L${edge(1).reverse().join("L")}Z`);
    stream.forEach((s, n) => { lengths[n].textContent = s.toFixed(1); });
    flows.forEach(({ up, at, path, size }, n) => {
      const sign = up ? -1 : 1, from = up ? 38 : 170;
      const to = MIDDLE + (sign * scale * (stream[n] + stream[n + 1])) / 4;
      path.setAttribute("d", `M${at} ${from}C${at} ${(from + to) / 2} ${at} ${to - sign * 6} ${at + 18} ${to - sign * 4}`);
      path.style.strokeWidth = ((scale * added[n]) / 2).toFixed(1);
      path.style.visibility = parts[n].on ? "visible" : "hidden";
      size.textContent = parts[n].on ? added[n].toFixed(1) : "off";
    });
    bars.forEach(({ name, bar, y, whole: mark, share }, i) => {
      name.textContent = letters[i] === "end" ? "■" : letters[i];
      bar.setAttribute("width", 300 * p[i]);
      mark.setAttribute("d", `M${34 + 300 * whole[i]} ${y - 2}v19`);
      share.textContent = `${(100 * p[i]).toFixed(1)} %`;
    });
    const off = names.filter((_, n) => !parts[n].on), on = names.filter((_, n) => parts[n].on);
    const which = !off.length ? "with all parts" : off.length < 4 ? `without ${off.join(", ")}` : `with ${on.join(", ") || "no part"}`;
    const alone = names.map((_, n) => rows[2 ** n][2][0]);
    const solved = off.length === 1 && choice === 2 ** alone.indexOf(Math.min(...alone));
    figure.say(`After “${text}”, ${which}: the stream grows from `
      + `${stream[0].toFixed(1)} to ${stream[6].toFixed(1)}, and “${letters[0]}” gets ${(100 * p[0]).toFixed(1)} %.`, solved,
      "Each part only adds to the stream, so the rest runs on without it; but no other part is missed as much.");
  };
});
