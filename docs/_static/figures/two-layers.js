// Two layers of attention, one head each, at work in the page: 8-bit weights to probabilities.

function readWeights({ tensors }, { scales, numbers }) { // the tensors of a saved step
  const bytes = Int8Array.from(atob(numbers), (c) => c.charCodeAt(0)), weights = {};
  let at = 0;
  tensors.forEach(([name, shape], n) => {
    const size = shape.reduce((a, b) => a * b);
    weights[name] = Array.from(bytes.subarray(at, at + size), (x) => x * scales[n]);
    at += size;
  });
  return weights;
}

function timesMatrix(row, w) { // row @ w.T, for w (outs, ins)
  return Array.from({ length: w.length / row.length }, (_, o) =>
    row.reduce((sum, x, i) => sum + x * w[o * row.length + i], 0));
}

function normed(row, gain, bias) {
  const mean = row.reduce((a, b) => a + b) / row.length;
  const variance = row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length;
  return row.map((x, i) => ((x - mean) / Math.sqrt(variance + 1e-5)) * gain[i] + bias[i]);
}

function turned(row, place) { // rotary positions: pairs i and i + half
  const half = row.length / 2, y = row.slice();
  for (let i = 0; i < half; i++) {
    const angle = place * 10000 ** (-i / half), cos = Math.cos(angle), sin = Math.sin(angle);
    y[i] = row[i] * cos - row[i + half] * sin;
    y[i + half] = row[i + half] * cos + row[i] * sin;
  }
  return y;
}

function spread(scores) { // softmax
  const most = Math.max(...scores), powers = scores.map((s) => Math.exp(s - most));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((p) => p / total);
}

// tokens: numbers from 0 to 25. Returns p of the next one, and the map of each layer.
function readRow(weights, width, tokens, cut) {
  let x = tokens.map((token) => weights["embed.weight"].slice(token * width, (token + 1) * width));
  const maps = [];
  for (const layer of [0, 1]) {
    const part = (name) => weights[`layers.${layer}.${name}.weight`];
    const a = x.map((row) => normed(row, weights[`norms.${layer}.weight`], weights[`norms.${layer}.bias`]));
    const q = a.map((row, i) => turned(timesMatrix(row, part("w_q")), i));
    const k = a.map((row, i) => turned(timesMatrix(row, part("w_k")), i));
    const v = a.map((row) => timesMatrix(row, part("w_v")));
    const map = q.map((asks, i) => spread(k.slice(0, i + 1).map((key) =>
      asks.reduce((sum, c, n) => sum + c * key[n], 0) / Math.sqrt(width))));
    maps.push(map);
    if (layer === 0 && cut) continue; // the head adds nothing
    x = x.map((row, i) => {
      const mixed = row.map((_, n) => map[i].reduce((sum, w, j) => sum + w * v[j][n], 0));
      const added = timesMatrix(mixed, part("w_o"));
      return row.map((c, n) => c + added[n]);
    });
  }
  const last = normed(x[x.length - 1], weights["last_norm.weight"], weights["last_norm.bias"]);
  return { p: spread(timesMatrix(last, weights["head.weight"])), maps };
}
