"""The run that the figure "A model of your own" shows before anybody presses Train: on the names.

python tools/letters.py   trains in Chromium, a minute, and writes docs/_ext/train_your_own.json

The figure's own script does the work, so what is recorded is what a reader's page would compute.
"""

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tests")]

from browser_tools import start_browser  # noqa: E402
from course_figures import HERE, STATIC, word_lists  # noqa: E402

BEGIN = """
window.core = lettersCore();
window.data = core.prepare(core.readWords(arguments[0].join("\\n")).words, 1);
window.run = new core.Run(data, core.newWeights(data.config, 1), 1);
window.losses = [[0, run.check()]];
"""
STEPS = """
const { steps } = run.training;
for (let n = 0; n < 100 && run.step < steps; n++) {
  run.once();
  if (run.step % Math.round(steps / 60) === 0) losses.push([run.step, run.check()]);
}
return run.step < steps;
"""
RECORD = """
const digits = (x) => Number(x.toFixed(4)), { config, alphabet } = data, { best } = run;
const kept = [...losses.filter(([at]) => at < best.step), [best.step, best.loss]];
const rows = core.closed(data.learned), held = core.closed(data.heldOut);
const counted = [2, 3].map((order) => new core.NGram(rows, order, config.vocab).meanLoss(held));
const numbers = { steps: run.step, losses: [best.loss, ...counted] };
const link = core.toLink({ config, alphabet, flat: best.flat, ...numbers });
const model = new core.Letters(config, core.fromLink(link).flat);
const spell = (tokens) => tokens.map((token) => alphabet[token - 1] ?? "").join("");
const random = core.randomFrom(arguments[0]);
const words = Array.from({ length: 10 }, () => spell(model.write([], 0.8, random)));
const { p } = model.next([core.END]), read = data.heldOut.find((row) => row.length > 5).slice(0, 8);
const chances = p.map((chance, token) => [spell([token]), digits(chance)]);
return { learned: rows.length, losses: kept.map(([step, nats]) => [step, digits(nats)]),
  counted: counted.map(digits), words, copied: words.filter((word) => data.words.includes(word)),
  held: words.filter((word) => data.heldWords.includes(word)),
  next: chances.sort((a, b) => b[1] - a[1]).slice(0, 8),
  letters: ["\u25b8", ...spell(read)],
  looks: model.next(read).looks.map((look) => look.map(digits)), link };
"""
SEED = 4  # of the inventions: with it, none of them is a word that was held out


def main():
    """Train and record."""
    core = (STATIC / "letters-core.js").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as profile, start_browser(profile) as browser:
        browser.execute_script(core + BEGIN, word_lists()["names"])
        while browser.execute_script(STEPS):
            pass
        recorded = browser.execute_script(RECORD, SEED)
    assert not recorded.pop("held"), "one of the inventions was held out: take another seed"
    text = json.dumps(recorded, ensure_ascii=False, separators=(",", ":"))
    (HERE / "train_your_own.json").write_text(f"{text}\n", encoding="utf-8")
    print(recorded["words"], recorded["losses"][-1], recorded["counted"])


if __name__ == "__main__":
    main()
