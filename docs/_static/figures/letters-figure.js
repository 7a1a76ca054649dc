// The figure "A model of your own": a list of words, a worker that trains, a chart, inventions, the
// next letter, heads, and the link. letters-core.js, the lists and a recorded model come with the
// first use; until then numbers are shown that were recorded.
courseFigure("train-your-own", {
  title: "A model of your own.",
  riddle: "Can it write a word that it has never read?",
  height: 290,
  ownLink: true, // the model itself
}, (figure, data) => {
  const here = document.currentScript.src;
  const { make } = figure;
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const SEED = 1, FEW = 20;
  const { recorded, lists } = data, OWN = lists.length;
  let core = null, worker = null; // lettersCore's functions, and who trains
  let model = null, about = null; // the model that writes, and what is known of it
  let prepared = null, known = new Set(recorded.copied), heldOut = new Set();
  let losses = recorded.losses, counted = recorded.counted, steps = recorded.losses.at(-1)[0];
  let state = "recorded", sentence = "", found = "", begun = 0, written = 0, typed = "";

  const amount = (number) => number.toLocaleString("en");
  const shown = (letter) => (letter === " " ? "␣" : letter);

  // ---------------------------------------------------------- what the page holds

  const list = figure.choice("Learn from", [...lists.map(({ name }) => name), "your words"]);
  const own = make("textarea", { spellcheck: "false", autocapitalize: "none", placeholder: "Street names, plants, monsters …" });
  const count = make("p", { class: "letters-small" });
  figure.controls.append(make("label", { class: "figure-field" }, make("span", {}, "One word to a line, or commas between"), own), count);
  const trainButton = figure.press("Train", () => use(() => (state === "trains" ? worker.postMessage({ stop: true }) : train(false))));
  const onButton = figure.press("Train it on", () => use(() => train(true)));
  trainButton.classList.add("letters-train");

  const begin = make("input", { type: "text", maxlength: 31, spellcheck: "false", autocapitalize: "none", autocomplete: "off",
    oninput: () => use(() => show(true)) });
  const again = make("button", { type: "button", onclick: () => use(() => show(true)) }, "Ten others");
  const words = make("ol", { class: "letters-words" });
  const bars = make("div", { class: "letters-bars" });
  const heads = make("div", { class: "letters-heads" });
  const warmth = make("output", {}, "0.8");
  const temperature = make("input", { type: "range", min: 0.2, max: 1.6, step: 0.1, value: 0.8, oninput: () => {
    warmth.textContent = Number(temperature.value).toFixed(1);
    use(() => show(true));
  } });
  const link = make("input", { type: "text", readonly: "", placeholder: "It comes at the end of training" });
  const copier = courseAddress.copier(() => link.value);
  copier.button.disabled = true;
  const size = make("p", { class: "letters-small" }, "Nothing is sent anywhere. What follows the # of an address stays in the browser.");
  const title = (text) => make("p", { class: "letters-title" }, text);
  const small = (text) => make("p", { class: "letters-small" }, text);
  const field = (text, ...inputs) => make("label", { class: "figure-field" }, make("span", {}, text), ...inputs);
  figure.box.querySelector(".figure-body").after(
    make("div", { class: "letters-model" },
      make("div", {},
        make("div", { class: "letters-line" }, field("Begin with", begin), again),
        title("Ten inventions"), words, small("Dashed: copied from the list. Thick frame: held out, so never read.")),
      make("div", {}, title("The next letter"), bars, small("Press a letter to write it.")),
      make("div", {},
        make("label", { class: "figure-slider" }, make("span", {}, "Temperature ", warmth), temperature),
        title("What each head looks at"), heads, small("The last letter asks. A full square has all of the weight."))),
    make("div", { class: "letters-share" },
      field("The model as a link", link), copier.line, size));

  function say(text = sentence) {
    sentence = text;
    figure.say(found ? `It wrote “${found}”, which was held out. ${text}` : text, Boolean(found));
  }

  function set(to) { // what the buttons offer in this state
    state = figure.box.dataset.state = to;
    trainButton.textContent = { trains: "Stop", recorded: "Train" }[to] ?? "Train anew";
    onButton.disabled = to === "trains";
  }

  // ---------------------------------------------------------- what comes with the first use

  const script = (file) => new Promise((done, fail) => {
    document.head.append(Object.assign(document.createElement("script"), { src: new URL(file, here), onload: done, onerror: fail }));
  });

  let coming = null;
  async function use(then) { // then() happens once everything is there
    try {
      await (coming ??= Promise.all([script("letters-core.js"), script("train-your-own.lists.js")]));
    } catch {
      coming = null;
      return say("The model could not be loaded.");
    }
    if (!core) {
      core = lettersCore();
      if (!model) useModel({ ...core.fromLink(window.figureLists.link), trained: steps });
      fillList();
    }
    return then();
  }

  function useModel(given) {
    about = given;
    model = new core.Letters(given.config, given.flat);
  }

  // ---------------------------------------------------------- the list

  const chosenText = () => (list.value === OWN ? own.value : window.figureLists.words[list.value].join("\n"));

  function fillList() { // a list that is given can be read, and one's own can be typed
    const mine = list.value === OWN;
    own.readOnly = !mine;
    if (mine) own.value = typed;
    else own.value = core ? chosenText() : `${lists[list.value].sample.join("\n")}\n…`;
    countWords();
  }

  function countWords() {
    if (list.value < OWN) {
      count.textContent = `${amount(lists[list.value].count)} words`;
      return;
    }
    const { words: fit, refused } = core ? core.readWords(own.value) : { words: [], refused: 0 };
    const left = refused ? `, ${amount(refused)} left out: other signs, or more than ${core.LIMITS.length} letters` : "";
    count.textContent = `${amount(fit.length)} words${left}`;
  }

  for (const input of list.inputs) input.addEventListener("change", () => use(fillList));
  own.addEventListener("input", () => {
    typed = own.value;
    use(countWords);
  });

  // ---------------------------------------------------------- the chart

  const PLOT = { left: 30, right: 306, top: 28, bottom: 246 };
  const chart = figure.add("g");

  function drawChart() {
    const most = Math.max(3.5, ...losses.map(([, loss]) => loss)) * 1.02, last = Math.max(steps, 100);
    const x = (step) => PLOT.left + ((PLOT.right - PLOT.left) * step) / last;
    const y = (nats) => PLOT.bottom - ((PLOT.bottom - PLOT.top) * nats) / most;
    const add = (tag, attributes) => figure.add(tag, attributes, "", chart);
    const write = (at, down, text, kind) => figure.text(at.toFixed(1), down.toFixed(1), text, kind, chart);
    chart.replaceChildren();
    write(2, 13, "nats per letter, on words held out", "strong");
    for (let nats = 0; nats < most; nats++) {
      add("path", { class: "grid", d: `M${PLOT.left} ${y(nats).toFixed(1)}H${PLOT.right}` });
      write(PLOT.left - 6, y(nats) + 4, nats, "note end");
    }
    for (const part of [0, 0.5, 1]) write(x(part * last), PLOT.bottom + 18, amount(Math.round(part * last)), `note ${part ? "mid" : ""}`);
    write((PLOT.left + PLOT.right) / 2, PLOT.bottom + 36, "step of training", "note mid");
    const labels = [];
    for (const [i, name, kind] of [[0, "bigram", "dash thin"], [1, "3-gram", "thin"]]) {
      add("path", { class: `line ${kind}`, d: `M${PLOT.left} ${y(counted[i]).toFixed(1)}H${PLOT.right}` });
      labels.push({ name: `${name} ${counted[i].toFixed(2)}`, at: y(counted[i]), kind: "note" });
    }
    if (losses.length) {
      const [step, loss] = losses.at(-1);
      add("path", { class: "line a", d: `M${losses.map(([s, nats]) => `${x(s).toFixed(1)} ${y(nats).toFixed(1)}`).join("L")}` });
      add("circle", { class: "a", cx: x(step).toFixed(1), cy: y(loss).toFixed(1), r: 4.5 });
      labels.push({ name: `model ${loss.toFixed(2)}`, at: y(loss), kind: "strong" });
    }
    labels.sort((a, b) => a.at - b.at); // and none upon another
    for (let i = 1; i < labels.length; i++) labels[i].at = Math.max(labels[i].at, labels[i - 1].at + 15);
    const over = Math.max(0, labels.at(-1).at - PLOT.bottom);
    for (const { name, at, kind } of labels) write(PLOT.right + 8, at + 4 - over, name, kind);
  }

  // ---------------------------------------------------------- what the model writes

  const spell = (tokens) => tokens.map((token) => about.alphabet[token - 1]).join("");

  function beginning() { // the typed letters as tokens, or null with a sentence
    const text = begin.value.normalize("NFC").toLowerCase(), tokens = core.encode(text, about.alphabet);
    const odd = [...text].filter((_, i) => tokens[i] === -1);
    if (odd.length) figure.say(`This model has never read ${[...new Set(odd)].join(" ")}.`);
    else if (tokens.length > about.config.length - 2) figure.say(`This model writes at most ${about.config.length - 1} letters.`);
    else {
      say();
      return tokens;
    }
    return null;
  }

  function showWords(texts) {
    words.replaceChildren(...texts.map((word) => {
      const kind = known.has(word) ? "copied" : heldOut.has(word) ? "held" : "";
      const tag = { copied: "copied", held: "held out" }[kind];
      if (kind === "held" && !found) found = word;
      return make("li", { class: kind }, make("span", {}, word || "(nothing)"), ...(tag ? [make("small", {}, tag)] : []));
    }));
    written = performance.now();
  }

  function showBars(chances) { // letters and their probabilities; a press writes the letter
    bars.style.setProperty("--most", chances[0][1].toFixed(3));
    bars.replaceChildren(...chances.map(([letter, p]) => {
      const percent = Math.round(100 * p), name = letter ? shown(letter) : "end";
      return make("button", {
        type: "button", style: `--p:${p.toFixed(3)}`, "aria-label": `${name}, ${percent} per cent`,
        onclick: () => use(() => {
          begin.value += letter;
          show(true);
          bars.firstElementChild.focus({ preventScroll: true }); // the buttons are new ones
        }),
      }, make("b", {}, name), make("i"), make("small", {}, `${percent} %`));
    }));
  }

  function showHeads(letters, looks) {
    heads.replaceChildren(...looks.map((look, head) => make("div", {}, make("small", {}, head + 1),
      ...look.map((weight, i) => make("span", { style: `--p:${weight.toFixed(3)}`, title: `${letters[i]}: ${weight.toFixed(2)}` },
        shown(letters[i]))))));
  }

  function example() { // what the heads read while nothing is typed: a word held out, or an invention
    const word = prepared?.heldOut.find((row) => row.length > 5);
    if (word) return word.slice(1, 8);
    const tokens = core.encode(words.querySelector("span").textContent, about.alphabet);
    return tokens.filter((token) => token > 0).slice(0, about.config.length - 1);
  }

  function show(inventToo) {
    const start = beginning();
    if (!start) return;
    const warm = Number(temperature.value);
    if (inventToo) showWords(Array.from({ length: 10 }, () => spell(model.write(start, warm, Math.random))));
    const { p } = model.next([core.END, ...start]), letter = (token) => (token === core.END ? "" : about.alphabet[token - 1]);
    showBars(p.map((chance, token) => [letter(token), chance]).sort((a, b) => b[1] - a[1]).slice(0, 8));
    const read = start.length ? start : example();
    showHeads(["▸", ...spell(read)], model.next([core.END, ...read]).looks);
    say();
  }

  // ---------------------------------------------------------- training

  function startWorker() { // from the text of the functions, since a page on disk may not load one
    const source = `(${lettersWorker})((${lettersCore})());`;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const started = new Worker(address);
    URL.revokeObjectURL(address);
    started.onmessage = (message) => hear(message.data);
    return started;
  }

  function train(further) {
    const read = core.readWords(chosenText()).words;
    const next = core.prepare(read, SEED, further ? { alphabet: about.alphabet, length: about.config.length } : null);
    if (next.learned.length + next.heldOut.length < FEW) {
      say(further ? `Fewer than ${FEW} of these words have only letters that this model knows.`
        : `A model needs at least ${FEW} words, and some hundreds are better.`);
      return;
    }
    prepared = next;
    known = new Set(prepared.words);
    heldOut = new Set(prepared.heldWords);
    found = "";
    const { config, learned } = prepared, rows = core.closed(learned), held = core.closed(prepared.heldOut);
    counted = [2, 3].map((order) => new core.NGram(rows, order, config.vocab).meanLoss(held));
    const training = core.trainingFor(learned);
    if (further) training.rate /= 4;
    steps = training.steps;
    losses = [];
    const flat = further ? about.flat.slice() : core.newWeights(config, SEED);
    useModel({ config, alphabet: prepared.alphabet, flat: flat.slice(), trained: further ? about.trained : 0 });
    begin.value = link.value = "";
    copier.button.disabled = true;
    set("trains");
    say(`${amount(flat.length)} weights learn from ${amount(learned.length)} words; ${amount(held.length)} are held out.`);
    worker ??= startWorker();
    worker.postMessage({ start: { prepared: { config, learned, heldOut: prepared.heldOut }, flat, seed: SEED, training } });
    begun = performance.now();
  }

  function hear({ kind, step, held, best, bestStep, flat }) {
    about.flat.set(flat);
    if (kind === "step") losses.push([step, held]);
    if (kind === "done") return finish(step, best, bestStep);
    if (performance.now() - written > (calm.matches ? 5000 : 1000)) show(true);
    drawChart();
  }

  function finish(step, best, bestStep) {
    const seconds = (performance.now() - begun) / 1000;
    about.trained += step;
    losses = [...losses.filter(([at]) => at < bestStep), [bestStep, best]]; // what came later is not kept
    set("done");
    const beside = (other) => `${Math.abs(other - best).toFixed(2)} ${best < other ? "below" : "above"}`;
    sentence = `${amount(step)} steps in ${seconds.toFixed(0)} s. The weights of step ${amount(bestStep)} are kept, the best on the words held out: `
      + `${beside(counted[0])} the bigram and ${beside(counted[1])} the 3-gram, in nats per letter.`;
    const code = core.toLink({ ...about, steps: about.trained, losses: [best, ...counted] });
    about.flat.set(core.fromLink(code).flat); // from here on the model is the one in the link
    history.replaceState(null, "", `#${code}`);
    showLink(code);
    drawChart();
    show(true);
  }

  // ---------------------------------------------------------- the link

  function showLink(code) {
    link.value = location.href;
    size.textContent = `${(code.length / 1000).toFixed(1)} kB: weights of 8 bits, the alphabet, three losses. Your list is not in it, but a model knows some of it by heart.`;
    copier.button.disabled = false;
  }

  function open() { // a model that came in the address, or a sentence that says why there is none
    const code = location.hash.slice(1);
    if (!code.startsWith("model")) return;
    figure.box.scrollIntoView();
    use(() => {
      let given;
      try {
        given = core.fromLink(code);
      } catch (error) {
        say(error.message);
        return;
      }
      worker?.terminate();
      worker = prepared = null;
      known = new Set();
      heldOut = new Set();
      found = begin.value = "";
      useModel({ ...given, trained: given.steps });
      counted = given.losses.slice(1);
      steps = Math.max(given.steps, 100);
      losses = [[steps, given.losses[0]]];
      set("opened");
      sentence = `This model came with the link: ${amount(given.flat.length)} weights, ${amount(given.steps)} steps of training. Type a beginning, or train it on.`;
      showLink(code);
      drawChart();
      show(true);
    });
  }

  // ---------------------------------------------------------- as it begins

  fillList();
  set("recorded");
  showWords(recorded.words);
  showBars(recorded.next);
  showHeads(recorded.letters, recorded.looks);
  say(`Recorded: a model that learned from ${amount(recorded.learned)} names. Press Train for one of your own.`);
  window.addEventListener("hashchange", open);
  open();
  return () => { if (!chart.firstChild) drawChart(); };
});
