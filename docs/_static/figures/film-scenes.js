// The four drawings of the film, six scenes long. Each is a function of its own seconds and nothing
// else, so that the film can be stopped, scrubbed and recorded (film.js, tools/film.py).
window.filmDrawings = (figure, data, softmax) => {
  const clamp = (x) => Math.min(1, Math.max(0, x));
  const mix = (a, b, share) => a + (b - a) * share;
  const between = (t, from, to) => { // 0 before, 1 after, and smooth on the way
    const x = clamp((t - from) / (to - from));
    return x * x * (3 - 2 * x);
  };
  const percent = (p) => (p > 0 && p < 0.005 ? "< 1 %" : `${Math.round(100 * p)} %`);
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const thick = (weight, most) => (0.7 + weight * most).toFixed(2);
  const drawn = new WeakMap(); // what each element has: a frame touches only what it changes
  function set(element, attributes) {
    if (!drawn.has(element)) drawn.set(element, {});
    const has = drawn.get(element);
    for (const [name, value] of Object.entries(attributes)) {
      if (has[name] === value) continue;
      has[name] = value;
      if (name === "text") element.textContent = value;
      else element.setAttribute(name, value);
    }
  }

  // An arc above the words, from one to another; from a word to itself it is a loop.
  function arc(from, to, y, high) {
    if (Math.abs(from - to) < 1) return [from - 7, y, from - 26, y - high / 3, from + 26, y - high / 3, from + 7, y];
    const h = high * (0.35 + 0.65 * Math.min(1, Math.abs(from - to) / (high * 2.6)));
    return [from, y, from, y - h * 1.33, to, y - h * 1.33, to, y];
  }
  const path = ([x, y, ...rest]) => `M${x.toFixed(1)} ${y.toFixed(1)}C${rest.map((n) => n.toFixed(1)).join(" ")}`;
  function along([x0, y0, x1, y1, x2, y2, x3, y3], u) { // a point of it
    const [a, b, c, d] = [(1 - u) ** 3, 3 * u * (1 - u) ** 2, 3 * u * u * (1 - u), u ** 3];
    return [a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3];
  }
  const grown = (share) => ({ "stroke-dashoffset": (1 - share).toFixed(3), visibility: share > 0 ? "visible" : "hidden" });
  const line = (kind, parent) => figure.add("path", { class: `line ${kind}`, pathLength: 1, "stroke-dasharray": 1 }, "", parent);

  function token(words, width, high, kind, parent) { // a word or a letter in its box
    const g = figure.add("g", {}, "", parent), at = { x: -width / 2, y: -high / 2, width, height: high, rx: 7 };
    const frame = figure.add("rect", { ...at, class: "box" }, "", g);
    const shade = figure.add("rect", { ...at, class: "k", "fill-opacity": 0 }, "", g);
    return { g, frame, shade, text: figure.text(0, high * 0.17, words, `mid strong ${kind}`, g) };
  }

  // ---------------------------------------------------------- 1 to 3: six words, lesson 02's

  const { words, q, k, v, asks, moves } = data.words;
  const scores = k.map((key) => dot(q[asks], key) / Math.sqrt(key.length));
  // keep: the share of each word that the mask has left, from 1 to 0
  function attend(keep) {
    const parts = softmax(scores).map((p, j) => p * keep[j]), total = parts.reduce((a, b) => a + b);
    const weights = parts.map((p) => p / total);
    return { weights, output: v[0].map((_, c) => dot(weights, v.map((row) => row[c]))) };
  }
  const hidden = (j, swap) => (j === moves[0] ? mix(j, moves[1], swap) : j === moves[1] ? mix(j, moves[0], swap) : j);
  const masked = words.map((_, j) => hidden(j, 1) > asks);

  function drawWords({ width, wide, parent }) {
    const step = Math.min(width / 6, 165), y = wide ? 166 : 172, high = wide ? 42 : 38, reach = wide ? 118 : 104;
    const middle = (place) => width / 2 + step * (place - 2.5);
    const curtain = figure.add("g", {}, "", parent);
    figure.add("rect", { x: middle(asks + 0.5), y: 8, width: step * 3, height: y + 40, rx: 8, class: "shade", opacity: 0.55 }, "", curtain);
    figure.text(middle(asks + 2), 32, "hidden by the mask", "mid middle", curtain);
    const arcs = words.map(() => line("q", parent));
    const tokens = words.map((word) => token(word, step - (wide ? 34 : 5), high, wide ? "huge" : "large", parent));
    const shares = words.map(() => figure.text(0, 0, "", "mid small", parent));
    const values = words.map(() => [0, 1, 2].map(() => figure.add("circle", { class: "v" }, "", parent)));
    const out = figure.add("g", { transform: `translate(${width / 2} ${y + (wide ? 79 : 94)})` }, "", parent);
    const size = wide ? 350 : 308;
    figure.add("rect", { x: -size / 2, y: -20, width: size, height: 40, rx: 20, class: "box v" }, "", out);
    const says = figure.text(0, 5, "", wide ? "mid large" : "mid middle", out);
    set(tokens[asks].frame, { class: "box q" });

    return (t) => {
      const grow = between(t, 1.7, 3.4), swap = between(t, 7.4, 9.6), drop = between(t, 12.9, 13.8), fall = between(t, 13.7, 15.2);
      const { weights, output } = attend(masked.map((is) => (is ? 1 - fall : 1)));
      const before = softmax(scores), bow = Math.sin(Math.PI * swap);
      const high0 = y - high / 2;
      set(curtain, { transform: `translate(0 ${mix(-y - 80, 0, drop).toFixed(1)})`, opacity: drop > 0 ? 1 : 0 });
      words.forEach((_, j) => {
        const x = middle(hidden(j, swap)), lift = j === moves[0] ? (wide ? 38 : 46) * bow : j === moves[1] ? -50 * bow : 0;
        const came = between(t, 0.2 * j, 0.2 * j + 0.5), pale = masked[j] ? 1 - 0.6 * fall : 1;
        const curve = arc(middle(asks), x, 0, reach), shape = path(curve.map((n, i) => (i % 2 ? n + high0 + (i > 4 ? lift : 0) : n)));
        const falling = masked[j] ? fall : 0;
        set(arcs[j], { d: shape, ...grown(grow), "stroke-opacity": (1 - falling).toFixed(3), transform: `translate(0 ${(150 * falling ** 2).toFixed(1)})`,
          style: `stroke-width:${thick(masked[j] ? before[j] : weights[j], 17)}` });
        set(tokens[j].g, { transform: `translate(${x.toFixed(1)} ${(y + lift + 14 * (1 - came)).toFixed(1)})`, opacity: (came * pale).toFixed(3) });
        set(tokens[j].shade, { "fill-opacity": (0.7 * grow * weights[j]).toFixed(3) });
        set(shares[j], { x: x.toFixed(1), y: (y + lift + high / 2 + 18).toFixed(1), "fill-opacity": (grow * (1 - falling) * (lift ? 1 - bow : 1)).toFixed(3),
          text: percent(grow * weights[j]) });
        values[j].forEach((circle, n) => { // what comes home
          const u = (t * 0.45 + n / 3) % 1, [cx, cy] = along(curve, 1 - u), share = weights[j] * clamp(1 - 5 * falling);
          const seen = between(t, 3.4, 4.4) * Math.min(1, 6 * u, 6 * (1 - u)) * (share > 0.05 ? 1 : 0) * (1 - bow);
          set(circle, { cx: cx.toFixed(1), cy: (cy + high0).toFixed(1), r: (1.5 + 6 * Math.sqrt(share)).toFixed(1), "fill-opacity": seen.toFixed(3) });
        });
      });
      set(tokens[asks].frame, { style: `stroke-width:${mix(1.5, 3.5, between(t, 1.3, 1.7))}` });
      set(out, { opacity: between(t, 4, 4.8).toFixed(3) });
      set(says, { text: `${words[asks]} takes home: ${output.map((x, c) => `${data.words.says[c]} ${x.toFixed(2)}`).join(" · ")}` });
    };
  }

  // ---------------------------------------------------------- 4: the heads of the model of names

  function drawHeads({ width, wide, parent }) {
    const { letters, weights } = data.heads, n = letters.length, last = n - 1;
    const step = Math.min(width / (n + 0.3), 62), small = Math.min((width / 2 - 8) / n, 46) / step;
    const mean = letters.map((_, j) => weights.reduce((sum, row) => sum + row[j], 0) / weights.length);
    const x = (j) => step * (j - last / 2), high = step * 0.8;
    const rows = weights.map((_, h) => {
      const g = figure.add("g", { class: `head${h + 1}` }, "", parent);
      const arcs = letters.map(() => line("", g));
      const tokens = letters.map((letter) => token(letter, step * 0.9, high, "letters", g));
      tokens.forEach((one, j) => set(one.g, { transform: `translate(${x(j)} 0)` }));
      arcs.forEach((one, j) => set(one, { d: path(arc(x(last), x(j), -high / 2, step * (wide ? 1.7 : 1.9))) }));
      const name = figure.text(0, 0, `head ${h + 1}`, "small strong mid", parent);
      return { g, arcs, tokens, name };
    });

    return (t) => {
      const grow = between(t, 0.6, 1.8), part = between(t, 2.3, 3.9);
      rows.forEach(({ g, arcs, tokens, name }, h) => {
        const cx = width / 2 + (h % 2 ? 1 : -1) * Math.min(width / 4, 250), cy = wide ? (h < 2 ? 112 : 247) : h < 2 ? 114 : 264;
        const scale = mix(1, small, part), px = mix(width / 2, cx, part), py = mix(wide ? 190 : 210, cy, part);
        set(g, { transform: `translate(${px.toFixed(1)} ${py.toFixed(1)}) scale(${scale.toFixed(4)})`, style: `--part:${(100 * part).toFixed(1)}%`,
          visibility: h && part <= 0 ? "hidden" : "visible" });
        arcs.forEach((one, j) => set(one, { ...grown(grow), style: `stroke-width:${thick(mix(mean[j], weights[h][j], part), 17 / (wide ? 1 : 1.2))}` }));
        tokens.forEach((one, j) => set(one.shade, { "fill-opacity": (0.55 * part * weights[h][j]).toFixed(3) }));
        set(tokens[last].frame, { style: `stroke-width:${mix(1.5, 3, part)}` });
        set(name, { x: (cx - (step * small * n) / 2 + 22).toFixed(1), y: (cy - (wide ? 88 : 72)).toFixed(1), "fill-opacity": part.toFixed(3) });
      });
    };
  }

  // ---------------------------------------------------------- 5: a name

  const BEAT = 0.95; // seconds for a letter of the name
  function drawName({ width, wide, parent }) {
    const { begins, steps } = data.name, count = begins.length + steps.length - 1;
    const step = Math.min(width / count, 62), top = wide ? 40 : 46, high = step * 0.86;
    const slot = (i) => width / 2 + step * (i - (count - 1) / 2);
    const length = Math.min(width - 120, 460), left = (width - length - 90) / 2 + 34, row = wide ? 33 : 37, first = top + high / 2 + 38;
    const frames = Array.from({ length: count }, (_, i) => figure.add("rect", { x: slot(i) - step * 0.45, y: top - high / 2, width: step * 0.9, height: high, rx: 7, class: "box" }, "", parent));
    const written = Array.from({ length: count }, (_, i) => figure.text(slot(i), top + high * 0.17, begins[i] ?? steps[i - begins.length].written, "mid strong letters", parent));
    const bars = steps[0].letters.map((_, b) => ({
      letter: figure.text(left - 9, first + b * row + 5, "", "end strong large", parent),
      bar: figure.add("rect", { x: left, y: first + b * row - 11, height: 22, rx: 4, class: "a" }, "", parent),
      share: figure.text(0, first + b * row + 5, "", "middle", parent),
    }));
    const flying = figure.text(0, 0, "", "mid strong letters", parent);

    return (t) => {
      const beat = Math.min(steps.length - 1, Math.max(0, Math.floor((t - 0.6) / BEAT))), u = (t - 0.6) / BEAT - beat;
      const { letters, p, pick, written: chosen } = steps[beat], ends = beat === steps.length - 1;
      const picked = between(u, 0.42, 0.55), flies = between(u, 0.5, 0.95), at = begins.length + beat;
      frames.forEach((frame, i) => set(frame, { class: i === at && !ends ? "box a" : "box", opacity: i < at ? 1 : 0.55 }));
      written.forEach((letter, i) => set(letter, { "fill-opacity": i < at ? 1 : 0 }));
      bars.forEach(({ letter, bar, share }, b) => {
        const long = Math.max(2, length * p[b] * between(u, 0, 0.35)), other = b === pick ? 1 : 1 - 0.35 * picked;
        set(letter, { "fill-opacity": b === pick && u > 0.5 && !ends ? 0 : other, text: letters[b] }); // it flies
        set(bar, { width: long.toFixed(1), "fill-opacity": b === pick ? mix(0.55, 1, picked) : 0.55 * other });
        set(share, { x: (left + long + 8).toFixed(1), "fill-opacity": other * between(u, 0, 0.35), text: percent(p[b]) });
      });
      set(flying, { text: chosen, x: mix(left - 14, slot(at), flies).toFixed(1), y: mix(first + pick * row + 5, top + high * 0.17, flies).toFixed(1),
        "fill-opacity": ends || u <= 0.5 || u > 1 ? 0 : 1 });
    };
  }

  // ---------------------------------------------------------- 6: a number

  const TICK = 0.58; // seconds for a letter of the translation
  function drawNumber({ width, wide, parent }) {
    const { source, answer, map } = data.number, letters = [...answer];
    const step = Math.min(width / source.length, 56), above = wide ? 56 : 58, below = wide ? 218 : 236, high = wide ? 42 : 34;
    const x = (j, n) => width / 2 + step * (j - (n - 1) / 2), kind = wide ? "letters" : "large";
    const from = (i) => x(i, letters.length), to = (j) => x(j, source.length);
    const shape = (i, j) => path([from(i), below - high / 2, from(i), below - (wide ? 90 : 100), to(j), above + (wide ? 90 : 100), to(j), above + high / 2]);
    figure.text(width / 2, 20, "German, read as a whole", "mid small note", parent);
    figure.text(width / 2, below + high / 2 + 22, "English, written letter by letter", "mid small note", parent);
    const best = letters.map((_, i) => map[i].indexOf(Math.max(...map[i])));
    const kept = best.map((j, i) => set(line("q", parent), { d: shape(i, j), "stroke-dashoffset": 0 }) ?? parent.lastChild);
    const arcs = source.map(() => line("q", parent));
    const read = source.map((letter, j) => token(letter, step - 3, high, kind, parent));
    read.forEach((one, j) => set(one.g, { transform: `translate(${to(j)} ${above})` }));
    const wrote = letters.map((letter) => token(letter, step - 3, high, kind, parent));
    wrote.forEach((one, i) => set(one.g, { transform: `translate(${from(i)} ${below})` }));

    return (t) => {
      const i = Math.min(letters.length - 1, Math.max(0, Math.floor((t - 0.5) / TICK))), u = (t - 0.5) / TICK - i;
      const over = between(t, 0.5 + TICK * letters.length, 1.1 + TICK * letters.length); // all of it is written
      kept.forEach((one, n) => {
        const pale = n < i ? 0.28 : n === i ? 0.28 * between(u, 0.8, 1) : 0, sure = map[n][best[n]] / 100;
        set(one, { "stroke-opacity": mix(pale, sure, over).toFixed(3), style: `stroke-width:${mix(1.2, thick(sure, 5), over)}` });
      });
      source.forEach((_, j) => {
        const w = map[i][j] / 100;
        set(arcs[j], { d: shape(i, j), ...grown(w > 0 ? between(u, 0, 0.4) : 0), "stroke-opacity": (1 - over).toFixed(3), style: `stroke-width:${thick(w, 9)}` });
        set(read[j].shade, { "fill-opacity": (0.75 * w * between(u, 0.1, 0.45) * (1 - over)).toFixed(3) });
      });
      wrote.forEach(({ frame, text }, n) => {
        set(frame, { class: n === i && over < 1 ? "box q" : "box", opacity: n <= i ? 1 : 0.4 });
        set(text, { "fill-opacity": n < i ? 1 : n === i ? between(u, 0.35, 0.6) : 0 });
      });
    };
  }

  const [asked] = [words[asks]], now = attend(words.map(() => 1)).weights, later = attend(masked.map((is) => Number(!is))).weights;
  const most = (weights) => weights.indexOf(Math.max(...weights));
  const begun = data.name.begins.join(""), name = begun + data.name.steps.map(({ written }) => written).join("");
  const capital = (word) => word[0].toUpperCase() + word.slice(1);
  return {
    drawings: [
      { draw: drawWords, scenes: [0, 1, 2] }, { draw: drawHeads, scenes: [3] }, { draw: drawName, scenes: [4] }, { draw: drawNumber, scenes: [5] },
    ],
    scenes: [ // how long each is, and when its picture is whole
      { seconds: 6.5, whole: 6, says: `A word looks at the others. “${capital(asked)}” asks for a noun that is alive, finds “${words[most(now)]}”, and takes ${percent(now[most(now)])} of its answer from there.` },
      { seconds: 6, whole: 5.2, says: `“${capital(words[moves[0]])}” and “${words[moves[1]]}” change places, but no weight changes, because attention alone doesn't know the order of the words.` },
      { seconds: 6, whole: 5.2, says: `A model that writes mustn't read ahead, so a mask hides what follows “${asked}”. The other words share the attention, and “${words[most(later)]}” gets ${percent(later[most(later)])}.` },
      { seconds: 6.5, whole: 5.8, says: `One head gives one answer, so a Transformer has several. Here four heads of a trained model read “${capital(data.heads.letters.slice(1).join(""))}”, and each looks elsewhere.` },
      { seconds: 7.5, whole: 7.2, says: `To write, the model gives every letter a chance, and one of them is drawn. So it has invented “${capital(name)}”, a name that isn't in its list.` },
      { seconds: 7.5, whole: 7.5, says: `“${capital(data.number.source.slice(1, -1).join(""))}” is one-and-twenty. For “twenty”, the head shown here reads “zwanzig”, and for “one” it jumps back to “ein”.` },
    ],
  };
};
