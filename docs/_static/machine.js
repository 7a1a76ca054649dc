// The open machine of the home page: one word on its way through the model of names, one step at a
// time, with the numbers of this word. live.js computes them; the map's boxes lead to the steps.
window.courseMachine = ({ place, make, model, redraw, closed }) => {
  const STEPS = ["embedding", "scores", "mask", "softmax", "mix", "network", "letters"];
  const TITLES = {
    embedding: "Embedding", scores: "Scores", mask: "Mask", softmax: "Softmax", mix: "Mix",
    network: "Network", letters: "The next letter",
  };
  const OF_HEAD = ["scores", "mask", "softmax", "mix"]; // steps that show one head
  const SVG = "http://www.w3.org/2000/svg";
  const { n_layers: layers, n_heads: heads, d_model: width } = model().c;
  let at = null; // { step, layer, head }, counted from 0, or null while it is closed
  let shown = null; // what was drawn last

  // ------------------------------------------------------------ numbers

  const two = (x) => (Math.abs(x) < 0.005 ? "0.00" : x.toFixed(2).replace("-", "−"));
  const name = (layer) => `stack.blocks.${layer}.attention`;
  const key = () => `${name(at.layer)}.${at.head}`;
  const part = (row, head) => row.slice((head * width) / heads, ((head + 1) * width) / heads);

  function scores({ q, k }, head) { // q · k / √d_k of every pair, the later letters too
    return q.map((asks) => k.map((offers) => part(asks, head)
      .reduce((sum, x, i) => sum + x * part(offers, head)[i], 0) / Math.sqrt(width / heads)));
  }

  // ------------------------------------------------------------ what is drawn

  function strip(values, kind) { // a bar for each number, up or down
    const svg = document.createElementNS(SVG, "svg"), most = Math.max(...values.map(Math.abs)) || 1;
    svg.setAttribute("viewBox", `0 0 ${values.length * 4} 40`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const bars = values.map((x, i) => `M${4 * i + 0.5} 20v${((-19 * x) / most).toFixed(1)}h3V20`).join("");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", `M0 19.7H${values.length * 4}v.6H0Z${bars}`);
    path.setAttribute("class", kind);
    svg.append(path);
    return svg;
  }

  // One vector to a line: its name, all its numbers as bars, and the first four of them.
  const vector = (label, values, kind = "n") => make("tr", {}, make("th", { scope: "row" }, label),
    make("td", { class: "inside-strip" }, strip(values, kind)),
    make("td", { class: "inside-first" }, `${values.slice(0, 4).map(two).join("  ")} …`));
  const vectors = (...rows) => make("table", { class: "inside-vectors" }, make("tbody", {}, ...rows));

  // A square of numbers: who asks down the side, who is asked along the top.
  function square(labels, rows, look) {
    const head = make("tr", {}, make("td"), ...labels.map((label) => make("th", { scope: "col" }, label)));
    return make("table", { class: "inside-square" }, make("thead", {}, head), make("tbody", {},
      ...rows.map((row, i) => make("tr", i === rows.length - 1 ? { class: "asks" } : {},
        make("th", { scope: "row" }, labels[i]), ...row.map((x, j) => {
          const { text = two(x), ...attributes } = look(x, i, j);
          return make("td", attributes, text);
        })))));
  }

  // ------------------------------------------------------------ the steps

  const last = (rows) => rows[rows.length - 1];

  function drawn({ labels, inside, causal }) { // what a step shows, and the sentence above it
    const letter = last(labels), own = inside[name(at.layer)], off = model().off.has(key());
    const block = inside[`stack.blocks.${at.layer}`];
    const table = scores(own, at.head);
    const hidden = (i, j) => causal && j > i;
    const masked = table.map((row, i) => row.map((x, j) => (hidden(i, j) ? -Infinity : x)));
    const weights = model().seen[name(at.layer)][at.head].map((row) => labels.map((_, j) => row[j] ?? 0));
    const shade = (p) => ({ style: `--p:${p.toFixed(3)}` });
    switch (at.step) {
      case "embedding": return [
        `“${letter}” looks up its row in a table, ${width} numbers. Its place has a row, too, and the two are added.`,
        vectors(vector(`“${letter}”`, last(inside.letters)), vector(`place ${labels.length - 1}`, last(inside.places)),
          vector("sum", last(inside.embedding), "sum"))];
      case "scores": return [
        `Each letter asks, down the side, and each offers a key, along the top. The score is query · key, divided by √${width / heads}.`,
        square(labels, table, (x) => shade(Math.min(1, Math.abs(x) / 6)))];
      case "mask": return [
        causal ? "No letter may look at what comes after it: those scores become −∞."
          : "The causal mask is off, so each letter looks at the later ones, too.",
        square(labels, masked, (x, i, j) => (hidden(i, j) ? { class: "gone", text: "−∞" } : {}))];
      case "softmax": return [
        `Each row becomes weights that add up to 1. “${letter}” asks in the last row.`,
        square(labels, weights, (p, i, j) => (hidden(i, j) ? { class: "gone", text: "0" } : shade(p)))];
      case "mix": return [
        `Each value counts by its weight for “${letter}”, and the sum is what this head brings.`
          + (off ? " It is switched off, and brings zeros." : ""),
        vectors(...labels.map((label, j) => vector(`${last(weights)[j].toFixed(2)} × ${label}`, part(own.v[j], at.head), "v")),
          vector(off ? "off" : "sum", part(last(own.mixed), at.head), "v"))];
      case "network": return [
        `All heads are joined and added to the stream. Then a network looks at “${letter}” alone: ${last(block.hidden).length} numbers inside, ${last(block.hidden).filter((x) => x > 0.1).length} of them above 0.1 after GELU, and what comes out is added.`,
        vectors(vector("after attention", last(block.attended)), vector("inside", last(block.hidden)),
          vector("adds", last(block.added)), vector("after it", last(block.stream), "sum"))];
      default: return [
        "The stream meets the row of each letter in the table of the beginning, and a dot product says how well it fits: the logit. Softmax makes probabilities of them; the bars of the figure divide by the temperature first.",
        ranking()];
    }
  }

  function ranking() {
    const { logits, letters } = shown, most = Math.max(...logits), powers = logits.map((x) => Math.exp(x - most));
    const total = powers.reduce((a, b) => a + b);
    const best = logits.map((x, t) => t).sort((a, b) => logits[b] - logits[a]).slice(0, 6);
    const head = make("tr", {}, ...["letter", "logit", "probability"].map((word) => make("th", { scope: "col" }, word)));
    return make("table", { class: "inside-letters" }, make("thead", {}, head), make("tbody", {}, ...best.map((t) =>
      make("tr", {}, make("th", { scope: "row" }, letters(t)), make("td", {}, two(logits[t])),
        make("td", { style: `--p:${(powers[t] / total).toFixed(3)}` }, make("span", {}, (powers[t] / total).toFixed(3)))))));
  }

  // ------------------------------------------------------------ the way

  // Every layer has its own round of steps between the embedding and the letters.
  const round = STEPS.slice(1, -1), way = [{ step: "embedding" }];
  for (let layer = 0; layer < layers; layer++) way.push(...round.map((step) => ({ step, layer })));
  way.push({ step: "letters" });
  const number = () => way.findIndex(({ step, layer }) => step === at.step && (layer ?? at.layer) === at.layer);

  function go(by) {
    const next = way[number() + by];
    if (next) set({ ...at, ...next, layer: next.layer ?? (next.step === "letters" ? layers - 1 : 0) });
  }

  function set(to) {
    at = to;
    redraw();
  }

  const button = (label, act, attributes = {}) => make("button", { type: "button", onclick: act, ...attributes }, label);
  const back = button("← Back", () => go(-1)), next = button("Next →", () => go(1));
  const choice = (label, count, act) => {
    const buttons = Array.from({ length: count }, (_, i) => button(i + 1, () => act(i), { "aria-label": `${label} ${i + 1}` }));
    return { buttons, group: make("div", { class: "inside-choice", role: "group", "aria-label": label }, make("span", {}, label), ...buttons) };
  };
  // Where a step shows no layer or no head, a choice of one leads to its scores.
  const layer = choice("layer", layers, (i) => set({ ...at, layer: i, step: round.includes(at.step) ? at.step : "scores" }));
  const head = choice("head", heads, chooseHead);

  function chooseHead(i) {
    set({ ...at, head: i, step: OF_HEAD.includes(at.step) ? at.step : "scores" });
  }

  const off = button("", () => {
    const { off: without } = model();
    if (!without.delete(key())) without.add(key());
    redraw();
  });
  const title = make("p", { class: "inside-title" }), says = make("p", { class: "inside-says", role: "status" });
  const drawing = make("div", { class: "inside-drawing" }), bars = make("p", { class: "inside-next", "aria-live": "polite" });
  const box = make("section", { class: "inside", tabindex: -1, "aria-label": "Inside the model", onkeydown: press },
    make("div", { class: "inside-head" }, title, button("Close", close)),
    make("div", { class: "inside-way" }, back, next, layer.group, head.group, off),
    says, drawing, bars);

  function press(event) {
    const act = {
      ArrowRight: () => go(1),
      ArrowLeft: () => go(-1),
      ArrowDown: () => chooseHead((at.head + 1) % heads),
      ArrowUp: () => chooseHead((at.head + heads - 1) % heads),
      Escape: close,
    }[event.key];
    if (!act || event.target === drawing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  function close() {
    if (!at) return;
    at = null;
    box.remove();
    closed();
  }

  // ------------------------------------------------------------ for live.js

  return {
    get at() { return at; },
    close,

    // Open it at a step: what is missing is as before, what doesn't fit is left out. Says whether all fit.
    open({ step, layer: l, head: h }) {
      const now = at ?? { step: "embedding", layer: 0, head: 0 };
      const take = (to, known, before) => (to === undefined ? [before, true] : known ? [to, true] : [before, false]);
      const steps = take(step, STEPS.includes(step), now.step);
      const rounds = take(l, Number.isInteger(l) && l >= 0 && l < layers, now.layer);
      const eyes = take(h, Number.isInteger(h) && h >= 0 && h < heads, now.head);
      at = { step: steps[0], layer: rounds[0], head: eyes[0] };
      place.append(box);
      return steps[1] && rounds[1] && eyes[1];
    },

    show() { // for the hand that opened it
      box.focus({ preventScroll: true });
      const fits = box.offsetHeight < 0.8 * innerHeight; // else its buttons would be under the bar
      box.scrollIntoView({ block: fits ? "nearest" : "start" });
    },

    // Draw the word. said: { labels, inside, causal, logits, letters, best }
    draw(said) {
      if (!at) return;
      shown = said;
      const [sentence, table] = drawn(said), ofHead = OF_HEAD.includes(at.step), n = number();
      const where = `, layer ${at.layer + 1}${ofHead ? `, head ${at.head + 1}` : ""}`;
      title.replaceChildren(make("b", {}, TITLES[at.step]), way[n].layer === undefined ? "" : where, make("small", {}, ` ${n + 1} of ${way.length}`));
      if (says.textContent !== sentence) says.textContent = sentence; // or it's read out again
      drawing.replaceChildren(table);
      drawing.removeAttribute("tabindex");
      if (drawing.scrollWidth > drawing.clientWidth) drawing.tabIndex = 0; // keys reach what scrolls
      bars.textContent = `The next letter, with the settings below: ${said.best}`;
      back.disabled = n === 0;
      next.disabled = n === way.length - 1;
      const marks = [[layer.buttons, way[n].layer], [head.buttons, ofHead ? at.head : undefined]];
      for (const [buttons, now] of marks) buttons.forEach((one, i) => one.setAttribute("aria-pressed", i === now));
      const without = model().off.has(key());
      off.textContent = `Switch head ${at.layer + 1}.${at.head + 1} ${without ? "on" : "off"}`;
      off.setAttribute("data-off", without);
    },
  };
};
