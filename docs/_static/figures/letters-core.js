// A Transformer of letters with one block: forward, backward, AdamW, n-grams, and the link.
// The page calls this function, and the worker runs its text, so it also works from disk. No library.
function lettersCore() {
  "use strict";

  const END = 0; // the token that begins a word and ends it
  const LIMITS = { letters: 63, length: 31, words: 10000 };
  const LETTER = /^[\p{L}\p{M}\p{N}'’ .-]$/u; // what a word may be made of

  // ------------------------------------------------------------ words

  function readWords(text) { // a word to a line, or between commas, or else between spaces
    const cut = /[\n,;]/.test(text) ? /[\n,;]+/ : /\s+/;
    const words = new Set();
    let refused = 0;
    for (const piece of text.normalize("NFC").toLowerCase().split(cut)) {
      const word = piece.trim().replace(/\s+/g, " ");
      if (!word) continue;
      const letters = [...word];
      const fits = letters.length <= LIMITS.length && letters.every((letter) => LETTER.test(letter));
      if (fits && words.size < LIMITS.words) words.add(word);
      else refused += 1;
    }
    return { words: [...words], refused };
  }

  function findAlphabet(words) { // the letters of these words, most frequent first
    const counts = new Map();
    for (const word of words) {
      for (const letter of word) counts.set(letter, (counts.get(letter) ?? 0) + 1);
    }
    const letters = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    return letters.slice(0, LIMITS.letters);
  }

  function encode(word, alphabet) { // letters to tokens; an unknown letter gives -1
    return [...word].map((letter) => (alphabet.includes(letter) ? alphabet.indexOf(letter) + 1 : -1));
  }

  function randomFrom(seed) { // mulberry32: numbers from 0 to 1, the same ones for the same seed
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  function shuffle(items, random) {
    const order = items.slice();
    for (let i = order.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }

  // ------------------------------------------------------------ the model

  // Every tensor: name, rows, columns. The matrix that embeds the letters gives the logits, too.
  function tensorsOf({ vocab, length, d, ff }) {
    return [
      ["tokens", vocab, d], ["positions", length, d],
      ["norm1.weight", 1, d], ["norm1.bias", 1, d],
      ["w_q", d, d], ["w_k", d, d], ["w_v", d, d], ["w_o", d, d],
      ["norm2.weight", 1, d], ["norm2.bias", 1, d],
      ["w_in", ff, d], ["b_in", 1, ff], ["w_out", d, ff], ["b_out", 1, d],
      ["norm3.weight", 1, d], ["norm3.bias", 1, d],
    ];
  }

  function countWeights(config) {
    return tensorsOf(config).reduce((sum, [, rows, columns]) => sum + rows * columns, 0);
  }

  function views(flat, config) { // the tensors as parts of one long array
    const named = {};
    let at = 0;
    for (const [name, rows, columns] of tensorsOf(config)) {
      named[name] = flat.subarray(at, at + rows * columns);
      at += rows * columns;
    }
    return named;
  }

  function newWeights(config, seed) { // normal numbers for matrices, 1 for gains, 0 for biases
    const random = randomFrom(seed);
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const flat = new Float32Array(countWeights(config)), named = views(flat, config);
    for (const [name, rows, columns] of tensorsOf(config)) {
      if (name.startsWith("norm")) named[name].fill(name.endsWith("weight") ? 1 : 0);
      else if (rows > 1) {
        const spread = name === "tokens" || name === "positions" ? 0.1 : Math.sqrt(1 / columns);
        named[name].forEach((_, i) => { named[name][i] = spread * normal(); });
      }
    }
    return flat;
  }

  // y (n, outs) = x (n, ins) @ w.T + b, for w (outs, ins); ins is a multiple of 4
  function linear(y, x, w, b, n, ins, outs) {
    for (let row = 0; row < n; row++) {
      const from = row * ins;
      for (let o = 0; o < outs; o++) {
        const at = o * ins;
        let s0 = b ? b[o] : 0, s1 = 0, s2 = 0, s3 = 0; // four sums, so that none waits for another
        for (let i = 0; i < ins; i += 4) {
          s0 += x[from + i] * w[at + i];
          s1 += x[from + i + 1] * w[at + i + 1];
          s2 += x[from + i + 2] * w[at + i + 2];
          s3 += x[from + i + 3] * w[at + i + 3];
        }
        y[row * outs + o] = s0 + s1 + s2 + s3;
      }
    }
  }

  // adds to dx (n, ins) what dy @ w gives, to dw (outs, ins) dy.T @ x, to db (outs) the sum of dy
  function linearBack(dx, dw, db, dy, x, w, n, ins, outs) {
    for (let row = 0; row < n; row++) {
      const from = row * ins;
      for (let o = 0; o < outs; o++) {
        const g = dy[row * outs + o], at = o * ins;
        if (g === 0) continue;
        if (db) db[o] += g;
        for (let i = 0; i < ins; i++) {
          dx[from + i] += g * w[at + i];
          dw[at + i] += g * x[from + i];
        }
      }
    }
  }

  function norm(y, kept, x, gain, bias, n, d) { // y = (x - mean) / spread * gain + bias
    for (let row = 0; row < n; row++) {
      const at = row * d;
      let mean = 0, variance = 0;
      for (let i = 0; i < d; i++) mean += x[at + i] / d;
      for (let i = 0; i < d; i++) variance += (x[at + i] - mean) ** 2 / d;
      const scale = 1 / Math.sqrt(variance + 1e-5);
      kept.scale[row] = scale;
      for (let i = 0; i < d; i++) {
        const unit = (x[at + i] - mean) * scale;
        kept.unit[at + i] = unit;
        y[at + i] = unit * gain[i] + bias[i];
      }
    }
  }

  function normBack(dx, dGain, dBias, dy, kept, gain, n, d) { // adds to dx, dGain, dBias
    for (let row = 0; row < n; row++) {
      const at = row * d;
      let sum = 0, along = 0;
      for (let i = 0; i < d; i++) {
        const g = dy[at + i] * gain[i];
        sum += g / d;
        along += (g * kept.unit[at + i]) / d;
        dGain[i] += dy[at + i] * kept.unit[at + i];
        dBias[i] += dy[at + i];
      }
      for (let i = 0; i < d; i++) {
        const g = dy[at + i] * gain[i];
        dx[at + i] += (g - sum - kept.unit[at + i] * along) * kept.scale[row];
      }
    }
  }

  class Letters {
    constructor(config, flat, capacity = config.length) { // capacity: tokens in one batch
      this.config = config;
      this.flat = flat;
      this.w = views(flat, config);
      const { d, ff, vocab, heads, length } = config, floats = (size) => new Float32Array(size);
      this.capacity = capacity;
      this.kept = { // what the forward pass leaves for the backward pass
        x0: floats(capacity * d), x1: floats(capacity * d), x2: floats(capacity * d),
        a: floats(capacity * d), f: floats(capacity * d), z: floats(capacity * d),
        q: floats(capacity * d), k: floats(capacity * d), v: floats(capacity * d), y: floats(capacity * d),
        h: floats(capacity * ff), p: floats(capacity * vocab), part: floats(capacity * d),
        att: floats(capacity * heads * length),
        norm1: { unit: floats(capacity * d), scale: floats(capacity) },
        norm2: { unit: floats(capacity * d), scale: floats(capacity) },
        norm3: { unit: floats(capacity * d), scale: floats(capacity) },
      };
    }

    // rows: words as tokens, each from END on. Leaves the probabilities of the next token in kept.p.
    forward(rows) {
      const { d, ff, vocab, heads, length } = this.config, { w, kept } = this, width = d / heads;
      let n = 0;
      for (const row of rows) {
        row.forEach((token, place) => {
          for (let i = 0; i < d; i++) kept.x0[(n + place) * d + i] = w.tokens[token * d + i] + w.positions[place * d + i];
        });
        n += row.length;
      }
      norm(kept.a, kept.norm1, kept.x0, w["norm1.weight"], w["norm1.bias"], n, d);
      linear(kept.q, kept.a, w.w_q, null, n, d, d);
      linear(kept.k, kept.a, w.w_k, null, n, d, d);
      linear(kept.v, kept.a, w.w_v, null, n, d, d);
      let start = 0;
      for (const row of rows) { // words do not see each other
        for (let head = 0; head < heads; head++) {
          for (let i = 0; i < row.length; i++) {
            const weights = kept.att.subarray(((start + i) * heads + head) * length), qAt = (start + i) * d + head * width;
            let most = -Infinity, total = 0;
            for (let j = 0; j <= i; j++) { // causal: itself and what came before
              const kAt = (start + j) * d + head * width;
              let score = 0;
              for (let c = 0; c < width; c++) score += kept.q[qAt + c] * kept.k[kAt + c];
              weights[j] = score / Math.sqrt(width);
              most = Math.max(most, weights[j]);
            }
            for (let j = 0; j <= i; j++) total += weights[j] = Math.exp(weights[j] - most);
            for (let c = 0; c < width; c++) kept.y[qAt + c] = 0;
            for (let j = 0; j <= i; j++) {
              weights[j] /= total;
              const vAt = (start + j) * d + head * width;
              for (let c = 0; c < width; c++) kept.y[qAt + c] += weights[j] * kept.v[vAt + c];
            }
          }
        }
        start += row.length;
      }
      linear(kept.part, kept.y, w.w_o, null, n, d, d);
      for (let i = 0; i < n * d; i++) kept.x1[i] = kept.x0[i] + kept.part[i];
      norm(kept.f, kept.norm2, kept.x1, w["norm2.weight"], w["norm2.bias"], n, d);
      linear(kept.h, kept.f, w.w_in, w.b_in, n, d, ff);
      for (let i = 0; i < n * ff; i++) if (kept.h[i] < 0) kept.h[i] = 0; // ReLU
      linear(kept.part, kept.h, w.w_out, w.b_out, n, ff, d);
      for (let i = 0; i < n * d; i++) kept.x2[i] = kept.x1[i] + kept.part[i];
      norm(kept.z, kept.norm3, kept.x2, w["norm3.weight"], w["norm3.bias"], n, d);
      linear(kept.p, kept.z, w.tokens, null, n, d, vocab);
      for (let row = 0; row < n; row++) { // softmax
        const p = kept.p.subarray(row * vocab, (row + 1) * vocab);
        let most = -Infinity, total = 0;
        for (let t = 0; t < vocab; t++) most = Math.max(most, p[t]);
        for (let t = 0; t < vocab; t++) total += p[t] = Math.exp(p[t] - most);
        for (let t = 0; t < vocab; t++) p[t] /= total;
      }
      return n;
    }

    // The sum of the losses in nats about the next token of each token, and how many there are.
    losses(rows, targets = rows) { // targets: the rows themselves, if `rows` are noisy copies
      const n = this.forward(rows), { vocab } = this.config;
      let loss = 0, at = 0;
      for (const row of targets) {
        row.forEach((_, place) => {
          loss -= Math.log(Math.max(this.kept.p[at * vocab + (row[place + 1] ?? END)], 1e-30));
          at += 1;
        });
      }
      return { loss, n };
    }

    // The mean loss of a batch; its gradient is written to `grad`.
    backward(rows, grad, targets = rows) {
      const { loss, n } = this.losses(rows, targets), { d, ff, vocab, heads, length } = this.config;
      const { w, kept } = this, g = views(grad, this.config), width = d / heads;
      this.d ??= Object.fromEntries(["x", "a", "q", "k", "v", "y"].map((name) => [name, new Float32Array(this.capacity * d)]));
      this.d.h ??= new Float32Array(this.capacity * ff);
      grad.fill(0);
      for (const part of Object.values(this.d)) part.fill(0);
      let at = 0;
      for (const row of targets) { // of the logits: probabilities, less 1 at the target
        row.forEach((_, place) => {
          kept.p[at * vocab + (row[place + 1] ?? END)] -= 1;
          at += 1;
        });
      }
      for (let i = 0; i < n * vocab; i++) kept.p[i] /= n;
      const dx = this.d.x, da = this.d.a; // dx is the gradient of the stream, all the way down
      linearBack(da, g.tokens, null, kept.p, kept.z, w.tokens, n, d, vocab);
      normBack(dx, g["norm3.weight"], g["norm3.bias"], da, kept.norm3, w["norm3.weight"], n, d);

      linearBack(this.d.h, g.w_out, g.b_out, dx, kept.h, w.w_out, n, ff, d);
      for (let i = 0; i < n * ff; i++) if (kept.h[i] === 0) this.d.h[i] = 0;
      da.fill(0);
      linearBack(da, g.w_in, g.b_in, this.d.h, kept.f, w.w_in, n, d, ff);
      normBack(dx, g["norm2.weight"], g["norm2.bias"], da, kept.norm2, w["norm2.weight"], n, d);

      linearBack(this.d.y, g.w_o, null, dx, kept.y, w.w_o, n, d, d);
      const dWeights = new Float32Array(length);
      let start = 0;
      for (const row of rows) {
        for (let head = 0; head < heads; head++) {
          for (let i = 0; i < row.length; i++) {
            const weights = kept.att.subarray(((start + i) * heads + head) * length), qAt = (start + i) * d + head * width;
            let mean = 0;
            for (let j = 0; j <= i; j++) {
              const vAt = (start + j) * d + head * width;
              dWeights[j] = 0;
              for (let c = 0; c < width; c++) {
                dWeights[j] += this.d.y[qAt + c] * kept.v[vAt + c];
                this.d.v[vAt + c] += weights[j] * this.d.y[qAt + c];
              }
              mean += weights[j] * dWeights[j];
            }
            for (let j = 0; j <= i; j++) { // softmax, then the scores
              const score = (weights[j] * (dWeights[j] - mean)) / Math.sqrt(width), kAt = (start + j) * d + head * width;
              for (let c = 0; c < width; c++) {
                this.d.q[qAt + c] += score * kept.k[kAt + c];
                this.d.k[kAt + c] += score * kept.q[qAt + c];
              }
            }
          }
        }
        start += row.length;
      }
      da.fill(0);
      linearBack(da, g.w_q, null, this.d.q, kept.a, w.w_q, n, d, d);
      linearBack(da, g.w_k, null, this.d.k, kept.a, w.w_k, n, d, d);
      linearBack(da, g.w_v, null, this.d.v, kept.a, w.w_v, n, d, d);
      normBack(dx, g["norm1.weight"], g["norm1.bias"], da, kept.norm1, w["norm1.weight"], n, d);
      at = 0;
      for (const row of rows) {
        row.forEach((token, place) => {
          for (let i = 0; i < d; i++) {
            g.tokens[token * d + i] += dx[at * d + i];
            g.positions[place * d + i] += dx[at * d + i];
          }
          at += 1;
        });
      }
      return loss / n;
    }

    meanLoss(rows) { // nats per letter, the end counted; in batches that fit
      let total = 0, letters = 0;
      for (const batch of inBatches(rows, this.capacity)) {
        const { loss, n } = this.losses(batch);
        total += loss;
        letters += n;
      }
      return total / letters;
    }

    next(row) { // the probabilities after this beginning, and what each head looks at from its end
      const n = this.forward([row]), { vocab, heads, length } = this.config, last = n - 1;
      const p = Array.from(this.kept.p.subarray(last * vocab, n * vocab));
      const looks = [];
      for (let head = 0; head < heads; head++) {
        const at = (last * heads + head) * length;
        looks.push(Array.from(this.kept.att.subarray(at, at + n)));
      }
      return { p, looks };
    }

    write(beginning, temperature, random) { // one invention, as tokens without END
      const row = [END, ...beginning];
      while (row.length < this.config.length) {
        const { p } = this.next(row);
        const hot = p.map((x) => x ** (1 / temperature)), total = hot.reduce((a, b) => a + b);
        let rest = random() * total, token = 0;
        while (token < hot.length - 1 && (rest -= hot[token]) >= 0) token += 1;
        if (token === END) break;
        row.push(token);
      }
      return row.slice(1);
    }
  }

  function inBatches(rows, capacity) {
    const batches = [];
    let batch = [], size = 0;
    for (const row of rows) {
      if (size + row.length > capacity) {
        batches.push(batch);
        batch = [];
        size = 0;
      }
      batch.push(row);
      size += row.length;
    }
    batches.push(batch);
    return batches;
  }

  // ------------------------------------------------------------ training

  class AdamW { // gains, biases and embeddings do not decay
    constructor(config, { beta1 = 0.9, beta2 = 0.99, decay = 0.1 } = {}) {
      Object.assign(this, { config, beta1, beta2, decay, t: 0 });
      this.m = new Float32Array(countWeights(config));
      this.v = new Float32Array(countWeights(config));
    }

    step(flat, grad, rate) {
      this.t += 1;
      let size = 0;
      for (let i = 0; i < grad.length; i++) size += grad[i] ** 2;
      const clip = Math.min(1, 1 / (Math.sqrt(size) + 1e-6)); // the gradient is no longer than 1
      const c1 = 1 - this.beta1 ** this.t, c2 = 1 - this.beta2 ** this.t;
      let at = 0;
      for (const [name, rows, columns] of tensorsOf(this.config)) {
        const decay = name.startsWith("w_") ? this.decay : 0;
        for (const end = at + rows * columns; at < end; at++) {
          const g = grad[at] * clip;
          this.m[at] += (1 - this.beta1) * (g - this.m[at]);
          this.v[at] += (1 - this.beta2) * (g * g - this.v[at]);
          const move = this.m[at] / c1 / (Math.sqrt(this.v[at] / c2) + 1e-8);
          flat[at] -= rate * (move + decay * flat[at]);
        }
      }
    }
  }

  function rateAt(step, steps, most) { // warm-up over 5 %, then down to 0 in a straight line
    const warm = Math.ceil(steps / 20);
    return most * Math.min((step + 1) / warm, (steps - step) / (steps - warm));
  }

  // A short list is soon known by heart: more noise, more decay, fewer steps. A step reads about as
  // many letters whatever the words are.
  function trainingFor(learned) {
    const letters = learned.reduce((sum, row) => sum + row.length, 0) / learned.length;
    const batch = Math.max(8, Math.min(32, Math.round(260 / letters)));
    if (learned.length < 800) return { batch, steps: 800, rate: 4e-3, noise: 0.25, decay: 1 };
    return { batch, steps: 3000, rate: 1e-2, noise: 0.02, decay: 0.1 };
  }

  // ------------------------------------------------------------ models that count

  class NGram { // interpolated Kneser–Ney; the library has the same in `inspection.ngrams`
    constructor(rows, order, vocab, discount = 0.75) {
      Object.assign(this, { order, vocab, discount });
      this.counts = Array.from({ length: order }, () => new Map()); // by length of context
      for (const row of rows) for (let i = 1; i < row.length; i++) this.count(row[i], this.context(row, i));
    }

    context(row, i) { // order - 1 tokens before place i, the first repeated if there are fewer
      return Array.from({ length: this.order - 1 }, (_, n) => row[Math.max(i - this.order + 1 + n, 0)]);
    }

    count(token, context) {
      for (let n = this.order - 1; n >= 0; n--) {
        const key = context.slice(context.length - n).join(" ");
        if (!this.counts[n].has(key)) this.counts[n].set(key, { total: 0, tokens: new Map() });
        const counter = this.counts[n].get(key), times = (counter.tokens.get(token) ?? 0) + 1;
        counter.tokens.set(token, times);
        counter.total += 1;
        if (times > 1) break; // a shorter context counts only what is new to the longer
      }
    }

    probability(token, context) {
      let p = 1 / this.vocab;
      for (let n = 0; n < this.order; n++) {
        const counter = this.counts[n].get(context.slice(context.length - n).join(" "));
        if (!counter) continue;
        const left = Math.max((counter.tokens.get(token) ?? 0) - this.discount, 0);
        p = (left + this.discount * counter.tokens.size * p) / counter.total;
      }
      return p;
    }

    meanLoss(rows) { // rows from END to END
      let nats = 0, letters = 0;
      for (const row of rows) {
        for (let i = 1; i < row.length; i++) {
          nats -= Math.log(this.probability(row[i], this.context(row, i)));
          letters += 1;
        }
      }
      return nats / letters;
    }
  }

  // ------------------------------------------------------------ the link

  const SHAPE = { d: 32, heads: 4, ff: 128 }; // of every link of version 1
  const MARK = "model1.";

  // Bytes: letters of the alphabet in UTF-8 (1 byte says how many bytes), length, steps / 100,
  // three losses in 1/1000 nat (2 bytes each), then for each tensor a scale (float32) and its int8s.
  function toLink({ config, flat, alphabet, steps, losses }) {
    const letters = new TextEncoder().encode(alphabet.join("")), named = views(flat, config);
    const tensors = tensorsOf(config);
    const bytes = new Uint8Array(9 + letters.length + 4 * tensors.length + flat.length);
    const view = new DataView(bytes.buffer);
    bytes[0] = letters.length;
    bytes[1] = config.length;
    bytes[2] = Math.min(255, Math.round(steps / 100));
    losses.forEach((loss, i) => view.setUint16(3 + 2 * i, Math.min(65535, Math.round(1000 * loss))));
    bytes.set(letters, 9);
    let at = 9 + letters.length;
    for (const [name] of tensors) {
      const scale = Math.max(1e-8, named[name].reduce((most, x) => Math.max(most, Math.abs(x)), 0) / 127);
      view.setFloat32(at, scale);
      named[name].forEach((x, i) => view.setInt8(at + 4 + i, Math.round(x / scale)));
      at += 4 + named[name].length;
    }
    const parts = [];
    for (let i = 0; i < bytes.length; i += 8192) parts.push(String.fromCharCode(...bytes.subarray(i, i + 8192)));
    return MARK + btoa(parts.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  }

  function fromLink(text) { // a model, or an Error whose message is a sentence for the reader
    const wrong = (why) => new Error(`This link holds no model: ${why}.`);
    if (!text.startsWith(MARK)) throw wrong("it begins in an unknown way");
    if (text.length > 40000) throw wrong("it is too long");
    const code = text.slice(MARK.length);
    if (!/^[\w-]+$/.test(code) || code.length % 4 === 1) throw wrong("a part of it is missing or changed");
    const binary = atob(code.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0)), view = new DataView(bytes.buffer);
    if (bytes.length < 9 + bytes[0]) throw wrong("it is too short");
    let letters;
    try {
      letters = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(9, 9 + bytes[0]));
    } catch {
      throw wrong("its alphabet cannot be read");
    }
    const alphabet = [...letters];
    const fits = alphabet.length >= 2 && alphabet.length <= LIMITS.letters && new Set(alphabet).size === alphabet.length;
    if (!fits || !alphabet.every((letter) => LETTER.test(letter))) throw wrong("its alphabet is not one of letters");
    const length = bytes[1];
    if (length < 2 || length > LIMITS.length + 1) throw wrong("its words would be too short or too long");
    const config = { ...SHAPE, vocab: alphabet.length + 1, length }, tensors = tensorsOf(config);
    const expected = 9 + bytes[0] + 4 * tensors.length + countWeights(config);
    if (bytes.length !== expected) throw wrong(`${bytes.length} bytes where ${expected} were expected`);
    const flat = new Float32Array(countWeights(config)), named = views(flat, config);
    let at = 9 + bytes[0];
    for (const [name] of tensors) {
      const scale = view.getFloat32(at);
      if (!(scale > 0 && scale < 10)) throw wrong("one of its numbers is no number, or too large");
      named[name].forEach((_, i) => { named[name][i] = scale * view.getInt8(at + 4 + i); });
      at += 4 + named[name].length;
    }
    const losses = [3, 5, 7].map((place) => view.getUint16(place) / 1000);
    if (Math.max(...losses) > 10) throw wrong("its losses cannot be");
    return { config, flat, alphabet, steps: 100 * bytes[2], losses };
  }

  // ------------------------------------------------------------ a run

  // Everything a run needs: rows to learn from and rows held out, as tokens.
  function prepare(words, seed, given = null) { // given: alphabet and length of an opened model
    const alphabet = given ? given.alphabet : findAlphabet(words);
    const most = given ? given.length - 1 : LIMITS.length;
    const known = words.filter((word) => {
      const tokens = encode(word, alphabet);
      return tokens.length <= most && !tokens.includes(-1);
    });
    const order = shuffle(known, randomFrom(seed));
    const held = Math.min(500, Math.max(1, Math.round(order.length / 8)));
    const rows = order.map((word) => [END, ...encode(word, alphabet)]);
    const longest = rows.reduce((length, row) => Math.max(length, row.length), 2);
    const length = given ? given.length : Math.min(LIMITS.length + 1, longest);
    const config = { ...SHAPE, vocab: alphabet.length + 1, length };
    return { config, alphabet, learned: rows.slice(held), heldOut: rows.slice(0, held),
      words: order.slice(held), heldWords: order.slice(0, held) };
  }

  const closed = (rows) => rows.map((row) => [...row, END]);

  // Trains and reports; `report` gets the step, the loss and the weights, and may wait.
  class Run {
    constructor({ config, learned, heldOut }, flat, seed, training = trainingFor(learned)) {
      Object.assign(this, { config, learned, heldOut, flat, training, step: 0 });
      this.random = randomFrom(seed + 1);
      this.model = new Letters(config, flat, training.batch * config.length);
      this.grad = new Float32Array(flat.length);
      this.optimizer = new AdamW(config, training);
      this.queue = [];
      this.best = { loss: Infinity, flat: null, step: 0 };
    }

    batch() { // every word once, then again in another order
      while (this.queue.length < this.training.batch) {
        this.queue.push(...shuffle(this.learned, this.random));
      }
      return this.queue.splice(0, this.training.batch);
    }

    // Now and then a letter is read as another one, while the target stays: so less is learned by
    // heart (Xie et al. 2017, data noising).
    noisy(row) {
      const { noise } = this.training, letters = this.config.vocab - 1;
      return row.map((token) => {
        const wrong = token !== END && this.random() < noise;
        return wrong ? 1 + Math.floor(this.random() * letters) : token;
      });
    }

    once() {
      const targets = this.batch(), rows = targets.map((row) => this.noisy(row));
      const loss = this.model.backward(rows, this.grad, targets);
      this.optimizer.step(this.flat, this.grad, rateAt(this.step, this.training.steps, this.training.rate));
      this.step += 1;
      return loss;
    }

    check() { // the loss on held-out words; the best weights so far are kept
      const loss = this.model.meanLoss(this.heldOut);
      if (loss < this.best.loss) this.best = { loss, flat: this.flat.slice(), step: this.step };
      return loss;
    }
  }

  return {
    END, LIMITS, MARK, SHAPE, readWords, findAlphabet, encode, randomFrom, shuffle, tensorsOf,
    countWeights, views, newWeights, Letters, AdamW, rateAt, trainingFor, NGram, toLink,
    fromLink, prepare, closed, Run,
  };
}

// Runs in a worker: trains in slices of time, looks for messages between them, and reports.
function lettersWorker({ Run }) {
  let run = null, reported = 0, every = 1;

  function report(kind, held) {
    const flat = kind === "done" ? run.best.flat : run.flat;
    postMessage({ kind, step: run.step, steps: run.training.steps, held, best: run.best.loss,
      bestStep: run.best.step, flat: flat.slice() });
    reported = performance.now();
  }

  function work() { // a slice of time, then a look at the messages
    if (!run) return;
    const until = performance.now() + 80;
    while (performance.now() < until && run.step < run.training.steps) {
      run.once();
      if (run.step % every === 0 || run.step === run.training.steps) report("step", run.check());
    }
    if (run.step >= run.training.steps) {
      report("done", run.best.loss);
      run = null;
    } else {
      if (performance.now() - reported > 500) report("weights", null);
      setTimeout(work);
    }
  }

  onmessage = ({ data }) => {
    if (data.stop && run) {
      run.check();
      report("done", run.best.loss);
      run = null;
    }
    if (data.start) {
      const { prepared, flat, seed, training } = data.start;
      run = new Run(prepared, flat, seed, training);
      every = Math.max(1, Math.round(training.steps / 60));
      report("step", run.check());
      work();
    }
  };
}

if (typeof module !== "undefined") module.exports = lettersCore();
