// A model that ships, as it computes in the page: reads its safetensors, and does what the library
// does. live.js asks for it; Letters is what it knows of a model before.
window.liveModel = (Letters, softmax) => {
  const [PAD, BOS, , UNK] = [0, 1, 2, 3];

  function decode(base64) {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  }

  function half(h) {
    const e = (h >> 10) & 31, f = h & 1023;
    const x = e ? (1 + f / 1024) * 2 ** (e - 15) : f * 2 ** -24;
    return h >> 15 ? -x : x;
  }

  function readTensors(bytes) {
    const n = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + n)));
    const tensors = {};
    delete header.__metadata__;
    for (const [name, { data_offsets: [from, to] }] of Object.entries(header)) {
      const halves = new Uint16Array(bytes.slice(8 + n + from, 8 + n + to).buffer);
      tensors[name] = Float32Array.from(halves, half);
    }
    return tensors;
  }

  function erf(x) { // Abramowitz and Stegun 1964, 7.1.26: off by 1.5e-7 at most
    const t = 1 / (1 + 0.3275911 * Math.abs(x));
    const p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return Math.sign(x) * (1 - p * Math.exp(-x * x));
  }

  const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
  const sum = (a, b) => a.map((x, i) => x + b[i]);

  return class Model extends Letters {
    constructor({ weights, ...about }) {
      super(about);
      this.w = readTensors(decode(weights));
      this.table = this.w["embed.tokens.weight"] ?? this.w["head.weight"]; // one matrix, kept once
      this.inside = {};
    }

    linear(x, name) {
      const w = this.w[`${name}.weight`], b = this.w[`${name}.bias`], n = x[0].length;
      return x.map((row) => {
        const y = new Array(b.length);
        for (let o = 0; o < b.length; o++) {
          let s = b[o];
          for (let i = 0, at = o * n; i < n; i++) s += w[at + i] * row[i];
          y[o] = s;
        }
        return y;
      });
    }

    norm(x, name) {
      const w = this.w[`${name}.weight`], b = this.w[`${name}.bias`];
      return x.map((row) => {
        const mean = row.reduce((a, v) => a + v, 0) / row.length;
        const spread = row.reduce((a, v) => a + (v - mean) ** 2, 0) / row.length;
        return row.map((v, i) => ((v - mean) / Math.sqrt(spread + 1e-5)) * w[i] + b[i]);
      });
    }

    rotate(row, place) { // each head's pairs i and i + d_k / 2
      const d = row.length / this.c.n_heads, turned = row.slice();
      for (let h = 0; h < row.length; h += d)
        for (let i = 0; i < d / 2; i++) {
          const angle = place * 10000 ** ((-2 * i) / d), [a, b] = [row[h + i], row[h + i + d / 2]];
          turned[h + i] = a * Math.cos(angle) - b * Math.sin(angle);
          turned[h + i + d / 2] = b * Math.cos(angle) + a * Math.sin(angle);
        }
      return turned;
    }

    attend(x, memory, name, causal) { // and note the weights of each head
      const { d_model: d, n_heads: n } = this.c, width = d / n, own = memory === x;
      let q = this.linear(x, `${name}.w_q`), k = this.linear(memory, `${name}.w_k`);
      const v = this.linear(memory, `${name}.w_v`);
      if (own && this.c.positions === "rotary") [q, k] = [q, k].map((t) => t.map((r, i) => this.rotate(r, i)));
      const weights = [], y = x.map(() => new Array(d).fill(0));
      for (let h = 0; h < n; h++) {
        weights.push(q.map((row, i) => {
          const seen = causal ? k.slice(0, i + 1) : k;
          const scores = seen.map((key) => {
            let s = 0;
            for (let c = h * width; c < (h + 1) * width; c++) s += row[c] * key[c];
            return s / Math.sqrt(width);
          });
          return softmax(scores);
        }));
        if (this.off.has(`${name}.${h}`)) continue;
        weights[h].forEach((row, i) => row.forEach((p, j) => {
          for (let c = h * width; c < (h + 1) * width; c++) y[i][c] += p * v[j][c];
        }));
      }
      this.seen[name] = weights;
      this.inside[name] = { q, k, v, mixed: y };
      return this.linear(y, `${name}.w_o`);
    }

    stack(x, name, memory, causal) {
      for (let i = 0; i < this.c.n_layers; i++) {
        const at = `${name}.blocks.${i}`;
        const add = (part) => { x = x.map((row, t) => sum(row, part[t])); };
        const block = (this.inside[at] = {});
        let y = this.norm(x, `${at}.norm_attention`);
        add(this.attend(y, y, `${at}.attention`, causal));
        if (memory) add(this.attend(this.norm(x, `${at}.norm_cross`), memory, `${at}.cross`, false));
        block.attended = x;
        block.hidden = this.linear(this.norm(x, `${at}.norm_ff`), `${at}.ff.w_in`).map((row) => row.map(gelu));
        block.added = this.linear(block.hidden, `${at}.ff.w_out`);
        add(block.added);
        block.stream = x;
      }
      return this.norm(x, `${name}.norm`);
    }

    embed(tokens, scale) {
      const d = this.c.d_model, positions = this.w["embed.position_embedding.table"] ?? this.w["embed.positions.table"];
      const letters = tokens.map((t) => Array.from({ length: d }, (_, i) => this.table[t * d + i] * scale));
      const places = tokens.map((_, place) => Array.from({ length: d }, (_, i) => positions?.[place * d + i] ?? 0));
      const embedding = letters.map((row, place) => sum(row, places[place]));
      Object.assign(this.inside, { letters, places, embedding });
      return embedding;
    }

    logits(x) { // of the last place; the matrix that embeds gives them, too
      const d = this.c.d_model, row = x[x.length - 1];
      return Array.from({ length: this.c.vocab_size }, (_, t) =>
        row.reduce((s, v, i) => s + v * this.table[t * d + i], 0));
    }

    next(tokens) { // what may follow: nats of each token, those that never follow at -infinity
      this.seen = {};
      this.inside = {}; // the numbers on the way, for who looks inside
      const logits = this.logits(this.stack(this.embed(tokens, 1), "stack", null, this.causal));
      return logits.map((l, t) => ([PAD, BOS, UNK].includes(t) ? -Infinity : l));
    }

    read(source) {
      this.seen = {};
      return this.stack(this.embed(source, Math.sqrt(this.c.d_model)), "encoder", null, false);
    }

    say(memory, tokens) {
      const x = this.embed(tokens, Math.sqrt(this.c.d_model));
      const logits = this.logits(this.stack(x, "decoder", memory, true));
      return logits.map((l, t) => ([PAD, BOS, UNK].includes(t) ? -Infinity : l));
    }
  };
};
