// Python in a thread of its own: loads Pyodide and the course's files, then judges answers and trains.
// All files come from this site, and nothing is sent anywhere.

const folder = new URL("py/", import.meta.url);
const tell = (message) => postMessage(message);
let judges; // a promise of the functions of in_page.py, file_in_page.py and train_in_page.py
let loaded = false;

// Every byte that comes is counted, so that the page can show how far it is.
function countBytes(sizes) {
  const plain = self.fetch.bind(self);
  const total = Object.values(sizes).reduce((a, b) => a + b);
  let come = 0, told = 0;
  const count = (bytes) => {
    come = Math.min(come + bytes, total);
    if (come - told > total / 100 || come === total) tell({ loaded: (told = come), total });
  };
  self.fetch = async (...args) => {
    const response = await plain(...args);
    if (!response.ok) throw new Error(`${response.status} for ${response.url}`);
    const counter = new TransformStream({
      transform(chunk, out) {
        count(chunk.byteLength);
        out.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(counter), response);
  };
  return count;
}

async function load() {
  const files = await (await fetch(new URL("files.json", folder), { cache: "no-cache" })).json();
  const count = countBytes(files.sizes);
  const course = fetch(new URL("course.zip", folder), { cache: "no-cache" });
  const indexURL = new URL(files.pyodide, folder).href;
  const { loadPyodide } = await import(`${indexURL}pyodide.mjs`);
  const python = await loadPyodide({ indexURL });
  count(files.sizes[`${files.pyodide}pyodide.mjs`] + files.sizes[`${files.pyodide}pyodide.asm.mjs`]);
  python.unpackArchive(await (await course).arrayBuffer(), "zip", { extractDir: "/course" });
  python.runPython("import sys; sys.path.insert(0, '/course'); import in_page");
  self.fetch = self.XMLHttpRequest = self.WebSocket = undefined; // an answer needs no network
  python.runPython("import file_in_page, train_in_page");
  return {
    answer: python.runPython("in_page.judge_in_page"),
    file: python.runPython("file_in_page.judge_file_in_page"),
    train: python.runPython("train_in_page.train_in_page"),
  };
}

const step = (number, all, name) => tell({ step: { number, all, name } });

onmessage = async ({ data: { page, number, expression, source, lesson, trains, mine } }) => {
  try {
    judges ??= load();
    const { answer, file, train } = await judges;
    loaded = true;
    tell({ started: true });
    let said;
    if (trains) said = train(page, source, mine ?? "", step);
    else said = lesson ? file(source, lesson, step) : answer(page, number, expression, source);
    tell({ verdict: JSON.parse(said) });
  } catch (error) {
    tell({ broken: String(error?.message ?? error), loading: !loaded });
  }
};
