// The models that ship, at work in the page: what the hand meets. live-model.js computes, and comes
// with the weights at the first use; machine.js opens the model of the home page.
(() => {
  const here = document.currentScript.src;
  const [PAD, BOS, EOS, UNK] = [0, 1, 2, 3];
  const CUT = "…"; // after a text that the model's context has ended

  // ------------------------------------------------------------ before the model

  function softmax(scores) {
    const most = Math.max(...scores), e = scores.map((s) => Math.exp(s - most));
    const total = e.reduce((a, b) => a + b);
    return e.map((x) => x / total);
  }

  class Letters { // what a model needs before it computes: its alphabet, and what is switched off
    constructor({ config, alphabet }) {
      this.c = config;
      this.letters = [...alphabet];
      this.off = new Set(); // heads that are switched off, as "layer.head"
      this.causal = true;
    }

    encode(text) {
      return [...text.toLowerCase()].map((c) => (this.letters.indexOf(c) + 1 || UNK - 3) + 3);
    }

    text(tokens) {
      return tokens.map((t) => this.letters[t - 4] ?? "").join("");
    }
  }

  // What the model said to one text when the site was built, until the model itself is wanted.
  class Recorded extends Letters {
    constructor(record) {
      super(record);
      this.record = record;
    }

    next() {
      this.seen = this.record.seen;
      return this.record.logits.map((l) => l ?? -Infinity);
    }
  }

  function filter(p, { topK, topP }) { // probabilities, and 0 for what a filter rules out
    const order = p.map((_, i) => i).sort((a, b) => p[b] - p[a]), kept = new Set();
    let mass = 0;
    for (const [rank, i] of order.entries()) {
      if (rank && (rank >= topK || mass >= topP)) break;
      kept.add(i);
      mass += p[i];
    }
    return p.map((x, i) => (kept.has(i) ? x / mass : 0));
  }

  function draw(p) {
    let rest = Math.random();
    for (const [i, x] of p.entries()) if ((rest -= x) < 0 && x) return i;
    return p.indexOf(Math.max(...p));
  }

  // ------------------------------------------------------------ the page

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  function slider(label, min, max, step, value, show, change) {
    const said = make("output", {}, show(value));
    const tell = () => { said.textContent = show(Number(input.value)); };
    const input = make("input", { type: "range", min, max, step, value, oninput: () => {
      tell();
      change(Number(input.value));
    } });
    return {
      label: make("label", {}, make("span", {}, label, " ", said), input),
      get value() { return Number(input.value); },
      set value(to) { input.value = to; tell(); },
    };
  }

  function strips(model, name, labels, redraw) { // a strip for each head: what the last place looks at
    const rows = [];
    for (const [layer, heads] of Object.entries(model.seen).filter(([at]) => name.test(at))) {
      const number = Number(layer.match(/\d+/)[0]) + 1;
      heads.forEach((weights, h) => {
        const key = `${layer}.${h}`, row = weights[weights.length - 1];
        const cells = row.map((p, j) => make("span", {
          title: `${labels[j]}: ${p.toFixed(2)}`, style: `--p:${p.toFixed(3)}` }, labels[j]));
        rows.push(make("button", {
          type: "button", class: "live-head", "data-head": key, "aria-pressed": String(!model.off.has(key)),
          title: `layer ${number}, head ${h + 1}: press to switch it off or on`,
          onclick: () => { model.off.has(key) ? model.off.delete(key) : model.off.add(key); redraw(key); },
        }, make("small", {}, `${number}.${h + 1}`), ...cells));
      });
    }
    return rows;
  }

  function refuse(model, text) {
    const odd = [...text.toLowerCase()].filter((c) => !model.letters.includes(c));
    if (odd.length) return `The model has never seen ${[...new Set(odd)].join(" ")}.`;
    const most = model.c.max_len - 2;
    return text.length > most ? `The model reads at most ${most} letters.` : "";
  }

  function showWriter(box, model) {
    const name = box.dataset.model;
    const how = { temperature: 0.8, topK: 29, topP: 1 };
    const text = make("input", { type: "text", value: "Jo", size: 12, "aria-label": "how the name begins", spellcheck: "false" });
    const note = make("p", { class: "live-note", role: "status" });
    const bars = make("div", { class: "live-bars" }), heads = make("div", { class: "live-heads" });
    const names = make("p", { class: "live-out", "aria-live": "polite" });
    const place = make("div", { class: "live-inside" });
    const look = make("button", { type: "button", onclick: () => openInside({}, look) }, "Look inside");
    let inside = null; // the open machine: machine.js, which comes with the first look

    let logits = [];
    const chances = (tokens) => {
      logits = model.next(tokens);
      return filter(softmax(logits.map((l) => l / how.temperature)), how);
    };

    // The weights come with the first use; what was wanted happens then.
    async function wake(then) {
      note.textContent = "The model is on its way, 0.4 MB …";
      try {
        const { off, causal } = model;
        model = await load(name);
        Object.assign(model, { off, causal });
      } catch {
        note.textContent = LOST;
        return;
      }
      then();
    }

    function redraw(focus, first) {
      const odd = refuse(model, text.value);
      note.textContent = odd;
      if (odd) return;
      if (model.record && !first) return wake(() => redraw(focus));
      const tokens = [BOS, ...model.encode(text.value)], p = chances(tokens);
      const best = p.map((x, t) => [x, t]).sort((a, b) => b[0] - a[0]).slice(0, 6).filter(([x]) => x > 0);
      bars.style.setProperty("--most", best[0][0].toFixed(3)); // the longest bar fills its place
      bars.replaceChildren(...best.map(([x, t]) => make("button", {
        type: "button", style: `--p:${x.toFixed(3)}`, title: `${(100 * x).toFixed(1)} %`,
        onclick: () => { if (t !== EOS) { text.value += model.text([t]); redraw(); } },
      }, make("b", {}, letter(t)), make("i", {}), make("small", {}, `${Math.round(100 * x)} %`))));
      const labels = ["▸", ...text.value.toLowerCase()];
      heads.replaceChildren(...strips(model, /^stack/, labels, redraw));
      if (focus) heads.querySelector(`[data-head="${focus}"]`)?.focus(); // the button is a new one
      const said = best.slice(0, 4).map(([x, t]) => `${letter(t)} ${Math.round(100 * x)} %`).join(", ");
      if (inside) inside.draw({ labels, inside: model.inside, causal: model.causal, logits, letters: letter, best: said });
      markMap(inside?.at);
      if (!first) address?.write(MACHINE, state);
    }

    const letter = (t) => (t === EOS ? "end" : model.text([t]));

    // ---------------------------------------------------------- the open machine

    let opener = null; // where the keys go back to
    async function openInside(at, from) {
      opener = from;
      if (refuse(model, text.value)) return redraw();
      if (model.record) return wake(() => openInside(at, from));
      if (!await machine()) return;
      inside.open(at);
      redraw();
      inside.show();
    }

    async function machine() { // whether it has come
      try {
        await Promise.all([script("machine.js"), style("machine.css")]);
      } catch {
        note.textContent = LOST;
        return false;
      }
      inside ??= window.courseMachine({ place, make, model: () => model, redraw: () => redraw(), closed: () => {
        redraw();
        opener?.focus();
      } });
      return true;
    }

    // A button on each box of the map that this model has, as its drawing places them.
    const boxes = name === "names" ? mapBoxes((step, button) => {
      const open = inside?.at, own = open && partOf(open.step) === step; // a second press keeps its place
      openInside(own ? {} : { step }, button);
    }) : [];

    function markMap(at) {
      for (const { step, button } of boxes) button.classList.toggle("on", Boolean(at) && partOf(at.step) === step);
    }

    // ---------------------------------------------------------- the address

    const address = window.courseAddress, copier = address?.copier(() => address.link(MACHINE, state()));
    const places = /^([1-9])\.([1-9])$/; // a head as people count them

    function state() { // what is not as it began
      const off = [...model.off].map((at) => at.match(/(\d+)\.attention\.(\d+)/).slice(1).map((n) => Number(n) + 1).join("."));
      const at = inside?.at;
      return [
        ["word", text.value, "Jo"], ["step", at?.step], ["layer", at && at.layer + 1], ["head", at && at.head + 1],
        ["off", off.sort().join(","), ""], ["temperature", how.temperature, 0.8], ["top-k", how.topK, 29],
        ["top-p", how.topP, 1], ["mask", model.causal ? "on" : "off", "on"],
      ].filter(([, now, before]) => now !== undefined && now !== null && now !== before).map(([key, now]) => [key, now]);
    }

    async function take(given) { // a state of the address; says what of it doesn't fit
      let fits = [...given.keys()].every((key) => KEYS.includes(key));
      text.value = (given.get("word") ?? "Jo").slice(0, 40);
      for (const [key, at, before, control] of [["temperature", "temperature", 0.8, heat], ["top-k", "topK", 29, count], ["top-p", "topP", 1, mass]]) {
        const number = Number(given.get(key) || before);
        control.value = Number.isFinite(number) ? number : before;
        how[at] = control.value;
        fits &&= how[at] === number;
      }
      mask.checked = model.causal = given.get("mask") !== "off";
      fits &&= ["on", "off", undefined].includes(given.get("mask"));
      model.off.clear();
      for (const head of (given.get("off") || "").split(",").filter(Boolean).slice(0, 99)) {
        const [, layer, n] = head.match(places) ?? [];
        if (layer <= model.c.n_layers && n <= model.c.n_heads) model.off.add(`stack.blocks.${layer - 1}.attention.${n - 1}`);
        else fits = false;
      }
      const tell = () => copier.say(fits ? "" : "A part of this link doesn't fit the figure, and was left out.");
      if (refuse(model, text.value)) return redraw();
      const opens = given.has("step"), number = (key) => (given.has(key) ? Number(given.get(key)) - 1 : undefined);
      const finish = async () => {
        if (opens && await machine()) fits = inside.open({ step: given.get("step"), layer: number("layer"), head: number("head") }) && fits;
        else inside?.close();
        redraw();
        tell();
      };
      if (model.record) await wake(finish);
      else await finish();
    }


    function write() {
      if (refuse(model, text.value)) return redraw();
      if (model.record) return wake(write);
      const found = Array.from({ length: 10 }, () => {
        const tokens = [BOS, ...model.encode(text.value)];
        let t;
        while (tokens.length <= model.c.max_len) {
          t = draw(chances(tokens));
          if (t === EOS) break;
          tokens.push(t);
        }
        const name = model.text(tokens.slice(1)) + (t === EOS ? "" : CUT);
        return name.charAt(0).toUpperCase() + name.slice(1);
      });
      const cut = found.some((name) => name.endsWith(CUT));
      names.textContent = found.join(" · ") + (cut ? ` (${CUT} where the context of ${model.c.max_len} tokens ended a name)` : "");
      redraw();
    }

    text.addEventListener("input", () => redraw());
    const mask = make("input", { type: "checkbox", checked: "", onchange: () => { model.causal = mask.checked; redraw(); } });
    const form = make("form", { onsubmit: (e) => { e.preventDefault(); write(); } },
      make("label", {}, "Begin with ", text), make("button", { type: "submit" }, "Write ten names"));
    const heat = slider("temperature", 0.1, 2, 0.1, 0.8, (x) => x.toFixed(1), (x) => { how.temperature = x; redraw(); });
    const count = slider("top-k", 1, 29, 1, 29, (x) => (x > 28 ? "all" : x), (x) => { how.topK = x; redraw(); });
    const mass = slider("top-p", 0.1, 1, 0.05, 1, (x) => x.toFixed(2), (x) => { how.topP = x; redraw(); });
    copier?.line.prepend(look);
    box.replaceChildren(
      form, note, names, place,
      make("div", { class: "live-columns" },
        make("div", {}, make("p", { class: "live-title" }, "The next letter"), bars),
        make("div", {}, make("p", { class: "live-title" }, "What each head looks at from the last letter"), heads)),
      make("div", { class: "live-how" },
        heat.label, count.label, mass.label,
        make("label", { class: "live-switch" }, mask, " causal mask")),
      copier?.line ?? look);
    if (model.record) {
      names.textContent = model.record.names.join(" · ");
      redraw(null, true);
    } else write();
    address?.follow(MACHINE, box, (given) => {
      take(given);
      return true;
    });
  }

  function showTranslator(box, model) {
    const text = make("input", { type: "text", value: "einundzwanzig", size: 30, "aria-label": "a German number", spellcheck: "false" });
    const note = make("p", { class: "live-note", role: "status" }), out = make("p", { class: "live-out", "aria-live": "polite" });
    const grid = make("div", { class: "live-grid", role: "img" });

    function translate() { // what is written, and where each letter of it looks
      const source = [BOS, ...model.encode(text.value), EOS], memory = model.read(source), tokens = [BOS];
      let t;
      while (tokens.length < model.c.max_len) {
        const p = model.say(memory, tokens);
        t = p.indexOf(Math.max(...p));
        if (t === EOS) break;
        tokens.push(t);
      }
      const heads = model.seen[`decoder.blocks.${model.c.n_layers - 1}.cross`];
      const mean = (i, j) => heads.reduce((s, head) => s + head[i][j], 0) / heads.length;
      const rows = tokens.map((_, i) => source.map((_, j) => mean(i, j)));
      return { out: model.text(tokens.slice(1)) + (t === EOS ? "" : CUT), rows };
    }

    async function redraw() {
      const odd = refuse(model, text.value);
      note.textContent = odd;
      if (odd || !text.value) return;
      if (model.record) { // the weights come with the first use
        note.textContent = "The model is on its way, 0.6 MB …";
        try {
          model = await load(box.dataset.model);
        } catch {
          note.textContent = LOST;
          return;
        }
        note.textContent = "";
      }
      draw(translate());
    }

    function draw({ out: said, rows }) {
      out.textContent = said;
      const labels = ["▸", ...text.value.toLowerCase(), "■"], written = [...said, "■"];
      const cells = written.flatMap((letter, i) => [make("b", {}, letter), ...labels.map((from, j) =>
        make("span", { style: `--p:${rows[i][j].toFixed(3)}`, title: `${letter} from ${from}: ${rows[i][j].toFixed(2)}` })
      )]);
      grid.style.setProperty("--columns", labels.length + 1);
      grid.setAttribute("aria-label", "Which letters of the source each written letter looks at, the mean over the heads of the last layer");
      grid.replaceChildren(make("b"), ...labels.map((l) => make("b", {}, l)), ...cells);
      if (grid.scrollWidth > grid.clientWidth) grid.tabIndex = 0; // keys reach what scrolls
    }

    const address = window.courseAddress, copier = address?.copier(() => address.link(TRANSLATOR, state()));
    const state = () => (text.value === "einundzwanzig" ? [] : [["german", text.value]]);
    const form = make("form", { onsubmit: (e) => {
      e.preventDefault();
      redraw();
      address?.write(TRANSLATOR, state);
    } },
      make("label", {}, "German ", text), make("button", { type: "submit" }, "Translate"));
    box.replaceChildren(form, note, out, grid, ...(copier ? [copier.line] : []));
    if (model.record) draw(model.record);
    else redraw();
    address?.follow(TRANSLATOR, box, (given, first) => {
      const german = (given.get("german") ?? "einundzwanzig").slice(0, 60);
      if (first && german === text.value) return true;
      text.value = german;
      redraw();
      return true;
    });
  }

  const LOST = "The model could not be loaded.";
  const [MACHINE, TRANSLATOR] = ["the-machine", "the-translator"]; // their names in the address
  const KEYS = ["word", "step", "layer", "head", "off", "temperature", "top-k", "top-p", "mask"];
  const loading = {};
  let Model = null; // the class, once it is here

  // What comes once and is awaited: a script, a sheet of style. One that failed is asked for again.
  function come(tag, attributes) {
    return (loading[attributes.src ?? attributes.href] ??= new Promise((done, fail) => {
      const failed = () => {
        delete loading[attributes.src ?? attributes.href];
        fail();
      };
      document.head.append(Object.assign(document.createElement(tag), { ...attributes, onload: done, onerror: failed }));
    }));
  }
  const script = (file) => come("script", { src: new URL(file, here).href });
  const style = (file) => come("link", { rel: "stylesheet", href: new URL(file, here).href });

  // ------------------------------------------------------------ the map

  // The boxes of transformer.svg that a model with one stack has: the step that each opens, and
  // where it is pressed, beside the numbers of its lessons. tests/test_machine.py compares them.
  const MAP = { width: 404, height: 792, x: 216, wide: 158, reach: 102 };
  const BOXES = [
    { step: "embedding", name: "embedding", y: 256, high: 44 },
    { step: "scores", name: "self-attention", y: 347, high: 62 },
    { step: "network", name: "feed-forward", y: 587, high: 26 },
    { step: "letters", name: "linear, softmax", y: 676, high: 44 },
  ];
  const partOf = (step) => (["mask", "softmax", "mix"].includes(step) ? "scores" : step); // its box

  function mapBoxes(press) {
    const map = document.querySelector(".map");
    if (!map) return [];
    const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)}%`;
    return BOXES.map(({ step, name, y, high }) => {
      const frame = make("i", { style: `width:calc(${percent(MAP.wide, MAP.reach)} + 4px)` });
      const button = make("button", { type: "button", "aria-label": `Look inside: ${name}`, title: "Look inside",
        style: `left:${percent(MAP.x, MAP.width)};top:${percent(y, MAP.height)};width:${percent(MAP.reach, MAP.width)};height:${percent(high, MAP.height)}`,
        onclick: () => press(step, button) }, frame);
      map.append(button);
      return { step, button };
    });
  }

  // ------------------------------------------------------------ the beginning

  // The model of that name, with its weights.
  async function load(name) {
    await Promise.all([script("live-model.js"), script(`live_${name}.js`)]);
    Model ??= window.liveModel(Letters, softmax);
    return (window.formerLive[name] ??= new Model(window.formerModels[name]));
  }

  // What was recorded of a model, or the model where nothing was.
  async function begin(box) {
    const name = box.dataset.model, record = box.querySelector("script[type='application/json']");
    const show = name === "numbers" ? showTranslator : showWriter;
    if (record) return show(box, new Recorded(JSON.parse(record.textContent)));
    try {
      show(box, await load(name));
    } catch {
      box.append(make("p", { class: "live-note" }, LOST));
    }
  }

  function start() {
    window.formerLive = {};
    window.formerLoad = load;
    const near = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        begin(target);
      }
    }, { rootMargin: "400px" });
    const linked = { "the-machine": "names", "the-translator": "numbers" }[new URLSearchParams(location.hash.slice(1)).get("figure")];
    document.querySelectorAll(".live[data-model]").forEach((box) => {
      if (box.dataset.model === linked) begin(box); // a link leads to it, wherever it is
      else near.observe(box);
    });
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
