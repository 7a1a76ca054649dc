// The button *check here* below an exercise, the reader's file, and *train here* below the first rungs
// of the ladder: editors, Python in a worker, and what it says.
(() => {
  const here = document.currentScript.src;
  const LIMIT = 10; // seconds that an answer may take
  const STEP_LIMIT = 20; // and each step of a file
  const TRAIN_LIMIT = 90; // and each fifty steps of training
  const LARGEST = 500_000; // bytes of a file that is opened
  const storage = window.courseKept; // what the browser keeps
  const MB = (bytes) => (bytes / 1e6).toFixed(1);

  // Why there can be no button; empty if there can.
  function obstacle() {
    const local = "python -m http.server -d _site";
    if (location.protocol === "file:") {
      return `Answers can be checked here where the page comes from a server, as from ${local}; from disk a browser loads no Python.`;
    }
    if (typeof WebAssembly !== "object" || !window.Worker || !window.TransformStream) {
      return "Answers can be checked here in a browser with WebAssembly; this one has none.";
    }
    return "";
  }

  // ------------------------------------------------------------ Python

  let worker = null; // one for the page, kept from press to press
  let job = null; // what is being judged: a block and its callbacks

  function end() {
    worker?.terminate();
    worker = null;
  }

  function finish(said) {
    clearTimeout(job.timer);
    const { done } = job;
    job = null;
    done(said);
  }

  // What runs longer than this is stopped.
  function waitFor(seconds, where) {
    clearTimeout(job.timer);
    job.timer = setTimeout(() => {
      end();
      finish({ stopped: `Stopped after ${seconds} seconds${where}. Is there a loop that never ends?` });
    }, seconds * 1000);
  }

  function receive({ data }) {
    if (!job) return;
    if (data.total) job.progress(data.loaded, data.total);
    if (data.started) {
      job.start();
      waitFor(job.limit ?? LIMIT, "");
    }
    if (data.step) {
      job.step(data.step);
      waitFor(job.limit, `, at ${data.step.name}`);
    }
    if (data.verdict) finish(data.verdict);
    if (data.broken) {
      end();
      finish({
        stopped: data.loading
          ? `Python could not be loaded: ${data.broken}. Without a connection the notebook still checks your answer.`
          : `Python broke down: ${data.broken.split("\n")[0]}. Press again to start it anew.`,
      });
    }
  }

  function ask(question, callbacks) {
    job = callbacks;
    if (!worker) {
      worker = new Worker(new URL("check_worker.js", here), { type: "module" });
      worker.onmessage = receive;
      worker.onerror = () => receive({ data: { broken: "a file is missing", loading: true } });
    }
    worker.postMessage(question);
  }

  // ------------------------------------------------------------ the reader's file

  const FILE = "mine.py", STEPS = "mine.py steps", BEFORE = "mine.py before"; // under which names it is kept
  const outline = JSON.parse(document.querySelector(".check-file")?.dataset.outline ?? "[]"); // of a whole file
  const definitions = outline.filter(({ constant }) => !constant);

  const file = {
    text: null, // where the browser keeps nothing, until the page is left
    editors: [], // functions that show a new text
    read() {
      return this.text ?? storage.read(FILE) ?? "";
    },
    write(text) {
      storage.write(FILE, text);
      this.text = storage.works ? null : text;
    },
    own: (text, name) => text.match(new RegExp(`["']${name}["']\\s*:\\s*["'](\\w+)["']`))?.[1] ?? name, // by its NAMES
    lineOf: (text, name) => lineOf(text, file.own(text, name)),
    has: (text, name) => file.lineOf(text, name) > 0,
    // Whether a definition has nothing but three dots and words about it.
    isOpen(text, name) {
      const lines = text.split("\n").slice(file.lineOf(text, name) - 1);
      const next = lines.findIndex((line, i) => i && /^[^\s)\]#]/.test(line));
      const whole = lines.slice(0, next < 0 ? lines.length : next).join("\n").replace(/#.*/g, "");
      return /:\s*("""[^]*?"""|"[^"\n]*")?\s*\.\.\.\s*$/.test(whole);
    },
    isWritten: (text, { name }) => file.has(text, name) && !file.isOpen(text, name),
    // The text, with what a lesson asks for and it lacks open at its end.
    grown(text, lesson) {
      const missing = [];
      const take = (one) => {
        if (missing.includes(one) || file.has(text, one.name)) return;
        (one.needs ?? []).forEach((name) => take(outline.find((other) => other.name === name)));
        missing.push(one);
      };
      outline.filter(({ lessons }) => lessons.includes(lesson)).forEach(take);
      if (!missing.length) return text;
      const parts = missing.map(({ head, constant }) => (constant ? `${head}\n` : `\n\n${head}\n`)).join("");
      return `${text.trimEnd()}\n\n\n# ${lesson}\n${parts}`;
    },
    // Add a right answer; one that is there already stays as it is. Gives a sentence.
    gather(number, source, name, called, starter) {
      if (/^\s*(from|import)\s+former_nb\b/m.test(source)) {
        return "It imports from former_nb, so it stays out of your file.";
      }
      const before = this.read() || starter;
      const code = source.trim().replace(new RegExp(`\\b${name}\\b`, "g"), called);
      const open = new RegExp(`^def ${called}\\(.*\\):.*\\n    \\.\\.\\.(?: *#.*)?$`, "m"); // three dots, no more
      if (this.has(before.replace(open, ""), called)) return `Your file has ${called} already, and keeps it.`;
      const body = `# ${number}, checked in the page\n${code}`;
      const text = open.test(before) ? before.replace(open, () => body) : `${before.trimEnd()}\n\n\n${body}\n`;
      this.write(text);
      this.editors.forEach((show) => show());
      return `${called} is in your file, mine.py, now.`;
    },
  };

  // ------------------------------------------------------------ verdicts

  // The line in which code defines a name, counted from 1; 0 if it doesn't.
  function lineOf(text, name) {
    const start = new RegExp(`^(def|class) ${name}\\b|^${name}( =|, )`);
    return text.split("\n").findIndex((line) => start.test(line)) + 1;
  }

  // Where a sentence about code belongs: in the line that it names, with its words, else at a definition.
  function markOf(sentence, line) {
    const named = sentence.match(/\bline (\d+)/);
    if (!named) return { line, right: false, text: "" };
    const reason = sentence.replace(/^.*?not yet: /i, "")
      .replace(/(^|: )line \d+(, `.*?`)?: /, "$1")
      .replace(/, in line \d+(, `[^`]*`)?/, "");
    return { line: Number(named[1]), right: false, text: reason };
  }

  // The last verdict on an exercise, kept with the answer that it is about. It holds as long as the
  // answer and the exercise with its judge are the same.
  const verdicts = {
    kept: new Map(), // where the browser keeps nothing, until the page is left
    key: (number) => `${number} verdict`,
    read({ number, judge }, source) {
      const own = ({ sentence, hints }) => [sentence, ...(hints ?? [])].every((text) => typeof text === "string");
      const found = this.kept.get(number) ?? storage.json(this.key(number), own);
      return found?.judge === judge && found.source === source ? found : null;
    },
    write({ number, judge }, source, { right, sentence, hints }) {
      const found = { judge, source, right: Boolean(right), sentence, hints };
      this.kept.set(number, found);
      storage.write(this.key(number), JSON.stringify(found));
    },
    forget(number) {
      this.kept.delete(number);
      storage.write(this.key(number), null);
    },
  };

  const counted = []; // of each exercise of the page: its number, its block, whether it is right

  // Above the first exercise: which of the page's are right, each a link.
  function showCounted() {
    const line = document.querySelector(".check-count");
    if (!line) return;
    const right = counted.filter((one) => one.isRight()).length;
    line.replaceChildren(`${right} of ${counted.length} right on this page:`);
    for (const { number, block, isRight } of counted) {
      const link = document.createElement("a");
      link.href = `#${block.id}`;
      link.textContent = `${number} ${isRight() ? "right" : "open"}`;
      line.append(" ", link);
    }
  }

  // ------------------------------------------------------------ a block

  const add = (parent, tag, attributes = {}, text = "") => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    parent.append(node);
    return node;
  };

  // How much of Python has come.
  const showLoading = (progress, note) => (loaded, total) => {
    progress.hidden = false;
    progress.max = total;
    progress.value = loaded;
    note.textContent = `${MB(loaded)} of ${MB(total)} MB`;
  };

  const KEYS = matchMedia("(pointer: coarse)").matches ? "" : "Ctrl+Enter checks, too. Esc and then Tab leaves the editor.";
  const PLAIN = { spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off" };

  const FUNCTIONS = /\b(exp|log|pi|sqrt)\b/;
  const COMMA = /^[-+−]?\d+(,\d+)+$/; // 1,15 or 4,160 as many write them
  const withoutComma = (text) => { // as Python writes what is probably meant
    const [point, whole] = [text.replace(",", "."), text.replaceAll(",", "")];
    if (point.includes(",")) return whole;
    return /,\d{3}$/.test(text) ? `${whole} or ${point}` : point;
  };
  const SIGNS = { "^": "**", "×": "*", "·": "*", "−": "-", "÷": "/" }; // as people write them

  // A field for each number of an answer. Its value is the code that an editor would hold.
  function numberFields(block, number, names, id, { change, check }) {
    const fields = new Map();
    const row = add(block, "div", { class: "check-fields", role: "group", "aria-label": `Your answer to ${number}` });
    for (const name of names) {
      const label = add(row, "label", {}, names.length > 1 ? name.replaceAll("_", " ") : `Your answer to ${number}`);
      const field = add(label, "input", { id: `${id}-${name}`, size: "12", ...PLAIN });
      field.oninput = change;
      field.onkeydown = (event) => {
        if (event.key === "Enter" && !event.isComposing) check();
      };
      fields.set(name, field);
    }
    const typed = (field) => field.value.trim().replace(/\bmath\s*\.\s*/g, "").replace(/[\^×·−÷]/g, (sign) => SIGNS[sign]);
    const code = (name, field) => {
      const text = typed(field) || "...";
      return name === "name" && text !== "..." && !/^["']/.test(text) ? JSON.stringify(text) : text; // words need no quotes
    };
    return {
      get value() {
        const lines = [...fields].map(([name, field]) => `${name} = ${code(name, field)}`);
        const head = FUNCTIONS.test([...fields.values()].map(typed).join(" ")) ? "from math import exp, log, pi, sqrt\n" : "";
        return head + lines.join("\n");
      },
      set value(text) {
        for (const [name, field] of fields) {
          const found = text.match(new RegExp(`^${name} = (.*)$`, "m"))?.[1] ?? "";
          field.value = found === "..." ? "" : found;
        }
      },
      missing() { // what is wrong with the first field that is empty, or whose number has a comma
        const first = (is) => [...fields].find(([, field]) => is(field.value.trim()));
        const empty = first((text) => !text), comma = first((text) => COMMA.test(text)), found = empty ?? comma;
        if (!found) return null;
        const [name, field] = found, said = names.length > 1 ? name.replaceAll("_", " ") : "the field";
        field.focus();
        if (empty) return `${said} is empty`;
        const text = field.value.trim();
        return `${said} says ${text}, which Python reads as several numbers; write ${withoutComma(text)}`;
      },
      focus: () => fields.values().next().value.focus(),
      mark() {}, // they have no lines
    };
  }

  // The names of an answer that is nothing but numbers; else null.
  function numbersOf(starter) {
    const lines = starter.split("\n").map((line) => line.match(/^([\w, ]+) = \.\.\.(, \.\.\.)*$/)?.[1]);
    return lines.every(Boolean) ? lines.join(", ").split(", ") : null;
  }

  function build(block) {
    const { page, number, expression, starter, called } = block.dataset;
    const id = `check-${number.replace(".", "-")}`;
    const problem = obstacle();
    if (problem) {
      document.documentElement.classList.add("no-python"); // then the cells stay
      add(block, "p", { class: "check-note" }, problem);
      return;
    }
    block.setAttribute("role", "group");
    block.setAttribute("aria-label", `Check ${number} here`);
    block.id = `answer-${number.replace(".", "-")}`;
    const names = numbersOf(starter);
    const change = () => {
      storage.write(number, editor.value);
      showCounted();
    };
    const editor = names
      ? numberFields(block, number, names, id, { change, check })
      : courseEditor(block, { id, label: `Your answer to ${number}`, describedBy: `${id}-said ${id}-note`, change, check });
    const bar = add(block, "div", { class: "check-bar" });
    const go = add(bar, "button", { type: "button", class: "check-go" }, "check here");
    const stop = add(bar, "button", { type: "button", class: "check-stop" }, "Stop");
    const again = add(bar, "button", { type: "button" }, "Start again");
    const progress = add(bar, "progress", { "aria-label": "Python is being loaded" });
    const note = add(bar, "span", { class: "check-note", id: `${id}-note` });
    const said = add(block, "p", { class: "check-said", role: "status", id: `${id}-said` });
    const output = add(block, "pre", { class: "check-output", tabindex: "0", "aria-label": "What your answer prints" });
    const hints = add(block, "div", { class: "check-hints" });
    const idle = names ? "Enter checks, too. 1 / 4 and 2**3 are numbers." : KEYS;

    const show = (busy) => {
      document.querySelectorAll(".check-go").forEach((button) => (button.disabled = busy));
      stop.hidden = !busy;
      again.hidden = busy;
      progress.hidden = true;
    };
    const clear = () => {
      said.textContent = output.textContent = "";
      said.className = "check-said";
      hints.replaceChildren();
      editor.mark([]);
    };

    editor.value = storage.read(number) ?? starter;
    note.textContent = storage.works ? idle : "This browser keeps nothing: copy your answer before you leave.";
    show(false);
    let asked = ""; // the answer that is being judged

    function tellVerdict(verdict) {
      if (verdict.sentence && !verdict.stopped) verdicts.write(block.dataset, asked, verdict);
      showCounted();
      show(false);
      note.textContent = "";
      showVerdict(verdict);
      if (verdict.right && !names && fileStarter) {
        note.textContent = file.gather(number, asked, expression, called, fileStarter);
      }
      output.textContent = verdict.output ?? "";
      if (verdict.cut) output.textContent += "\n… the rest is cut.";
    }

    function showVerdict(verdict) {
      said.classList.add(verdict.right ? "right" : "wrong");
      said.textContent = verdict.stopped ?? verdict.sentence;
      if (!verdict.stopped) {
        const [mark] = marks(verdict);
        editor.mark([mark]);
        said.classList.toggle("at-line", Boolean(mark.text)); // seen there, and read out here
      }
      const given = verdict.right ? [] : verdict.hints ?? [];
      const offer = (step) => {
        if (step >= given.length) return;
        const button = add(hints, "button", { type: "button" }, `Hint ${step + 1} of ${given.length}`);
        button.onclick = () => {
          const text = document.createElement("p");
          text.textContent = given[step];
          text.tabIndex = -1;
          button.replaceWith(text);
          text.focus();
          offer(step + 1);
        };
      };
      offer(0);
    }

    function marks({ right, sentence }) { // at the definition that was asked for, or at the line that the sentence names
      const lines = expression.match(/\w+/g).map((name) => lineOf(editor.value, name));
      const line = lines.find(Boolean) ?? 1;
      return [right ? { line, right } : markOf(sentence, line)];
    }

    function check() {
      if (job) return;
      clear();
      const missing = names && editor.missing();
      if (missing) {
        tellVerdict({ stopped: `${number}, not yet: ${missing}.` });
        return;
      }
      show(true);
      said.textContent = worker ? "" : "Python is loading; the first time takes a while.";
      asked = editor.value;
      ask({ page, number, expression, source: asked }, {
        progress: showLoading(progress, note),
        start() {
          progress.hidden = true;
          note.textContent = "";
          said.textContent = "Your answer is running.";
        },
        done: tellVerdict,
      });
    }

    go.onclick = check;
    stop.onclick = () => {
      end();
      if (job) finish({ stopped: "Stopped." });
    };
    again.onclick = () => {
      editor.value = starter;
      storage.write(number, null);
      verdicts.forget(number);
      showCounted();
      clear();
      editor.focus();
    };
    const last = verdicts.read(block.dataset, editor.value);
    if (last) showVerdict(last);
    counted.push({ number, block, isRight: () => verdicts.read(block.dataset, editor.value)?.right ?? false });
  }

  // ------------------------------------------------------------ the block of the file

  const fileStarter = document.querySelector(".check-file")?.dataset.starter; // lesson 01 has none

  const LINES = /\r\n?/g;
  const TYPES = [{ description: "Python", accept: { "text/x-python": [".py"] } }];
  const ALONE = " Some browsers, such as Firefox, keep a file from disk for each page apart: there, save it and open it on the next page.";

  // The text of a chosen file; a sentence where it is none.
  async function textOf(own) {
    if (own.size > LARGEST) return { problem: `${own.name} has ${MB(own.size)} MB; the page opens up to ${MB(LARGEST)}.` };
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await own.arrayBuffer()).replace(LINES, "\n");
      if (!text.includes("\0")) return { text };
    } catch {
      // no text, either
    }
    return { problem: `${own.name} isn't a text, so your file stays as it was.` };
  }

  function buildFile(block) {
    const { lesson, starter } = block.dataset;
    const problem = obstacle();
    block.setAttribute("role", "group");
    block.setAttribute("aria-label", "Your file here");
    const head = add(block, "div", { class: "check-bar check-grown" });
    const size = add(head, "span", { class: "check-note" });
    const places = add(add(head, "label", { class: "check-go-to" }, "Go to "), "select");
    const editor = courseEditor(block, {
      id: "check-mine",
      label: `Your file, mine.py, ${storage.works ? "kept in this browser" : "kept until you leave this page"}`,
      describedBy: "check-mine-said check-mine-note",
      file: true,
      change() {
        file.write(editor.value);
        showSize();
      },
      check,
    });
    const steps = add(block, "div", { class: "check-steps" });
    const meter = add(steps, "meter", { min: "0", value: "0", max: "44", "aria-label": "Steps of your file that are right" });
    const count = add(steps, "span", { class: "check-note" });
    const bar = add(block, "div", { class: "check-bar" });
    const go = add(bar, "button", { type: "button", class: "check-go" }, "check my file here");
    const stop = add(bar, "button", { type: "button", class: "check-stop" }, "Stop");
    const open = add(bar, "button", { type: "button" }, "Open a file");
    const chosen = add(bar, "input", { type: "file", accept: ".py,text/x-python", "aria-label": "A file to go on with", hidden: "" });
    const save = add(bar, "button", { type: "button" }, window.showSaveFilePicker ? "Save to disk" : "Download mine.py");
    const again = add(bar, "button", { type: "button" }, "Start again");
    const back = add(bar, "button", { type: "button" }, "Bring back the file before");
    const progress = add(bar, "progress", { "aria-label": "How far the check is" });
    const note = add(bar, "span", { class: "check-note", id: "check-mine-note", role: "status" });
    const said = add(block, "p", { class: "check-said", role: "status", id: "check-mine-said" });
    const output = add(block, "pre", { class: "check-output", tabindex: "0", "aria-label": "What was found in your file" });
    let handle = null; // of the file on the disk, where the browser gives one

    const show = () => {
      editor.value = file.grown(file.read() || starter, lesson);
      showSize();
      back.hidden = before() === null;
    };
    const asked = () => definitions.filter(({ lessons }) => lessons.includes(lesson));
    const firstOpen = () => {
      const text = editor.value, found = asked().find((one) => !file.isWritten(text, one)) ?? asked()[0];
      return found ? file.lineOf(text, found.name) : 0;
    };
    const showSize = () => {
      const text = editor.value, written = definitions.filter((one) => file.isWritten(text, one)).length;
      size.textContent = `${text.trimEnd().split("\n").length} lines, ${written} of ${definitions.length} definitions`;
      const there = definitions.map((one) => ({ ...one, line: file.lineOf(text, one.name) }))
        .filter(({ line }) => line).sort((a, b) => a.line - b.line);
      places.replaceChildren(new Option("a definition", "", true, true), ...there.map((one) =>
        new Option(`${one.name}, line ${one.line}${file.isWritten(text, one) ? "" : ", open"}`, one.line)));
    };
    let held = null; // the file before, where the browser keeps nothing
    const before = () => held ?? storage.read(BEFORE);
    const replace = (text, sentence) => { // what was there can be brought back
      const lost = editor.value;
      if (lost.trim() !== text.trim()) {
        storage.write(BEFORE, lost);
        held = storage.works ? null : lost;
      }
      file.write(text);
      storage.write(STEPS, null);
      show();
      showCount();
      editor.mark([]);
      editor.scrollTo(firstOpen());
      said.textContent = output.textContent = "";
      said.className = "check-said";
      note.textContent = sentence;
    };
    const showCount = () => {
      const counts = ({ right, all }) => Number.isInteger(right) && right >= 0 && right <= all && Number.isInteger(all);
      const { right, all } = storage.json(STEPS, counts) ?? {};
      meter.max = all ?? 44;
      meter.value = right ?? 0;
      count.textContent = all ? `${right} of ${all} steps` : "not checked yet";
    };
    const busy = (yes) => {
      document.querySelectorAll(".check-go").forEach((button) => (button.disabled = yes));
      go.hidden = Boolean(problem);
      stop.hidden = !yes;
      progress.hidden = true;
    };

    // A sign at each definition that is written, and what is wrong with it; one definition may be several steps.
    function marks({ found, problem }) {
      if (problem) return [markOf(problem, 0)].filter(({ line }) => line);
      const named = new Map();
      for (const { name, problem } of found) named.set(name, named.get(name) ?? problem);
      return [...named].map(([name, problem]) => {
        const line = file.lineOf(editor.value, name);
        const mark = problem && markOf(problem, line);
        return problem ? { ...mark, text: mark.text || problem } : { line, right: true };
      }).filter(({ line }) => line);
    }

    function tell(verdict) {
      busy(false);
      note.textContent = "";
      const last = verdict.lines?.at(-1);
      said.className = `check-said ${verdict.good ? "right" : "wrong"}`;
      said.textContent = verdict.stopped ?? verdict.problem ?? last;
      if (!verdict.stopped) editor.mark(marks(verdict));
      output.textContent = verdict.lines?.slice(0, -1).join("\n").trimEnd() ?? "";
      if (verdict.all) storage.write(STEPS, JSON.stringify({ right: verdict.right, all: verdict.all }));
      showCount();
    }

    function check() {
      if (job || problem) return;
      busy(true);
      said.className = "check-said";
      output.textContent = "";
      editor.mark([]);
      said.textContent = worker ? "" : "Python is loading; the first time takes a while.";
      ask({ source: editor.value, lesson: lesson || "16" }, {
        limit: STEP_LIMIT,
        progress: showLoading(progress, note),
        start() {
          note.textContent = "";
          said.textContent = "Your file is being checked.";
        },
        step({ number, all, name }) {
          progress.hidden = false;
          progress.max = all;
          progress.value = number;
          note.textContent = name;
        },
        done: tell,
      });
    }

    go.onclick = check;
    stop.onclick = () => {
      end();
      if (job) finish({ stopped: "Stopped." });
    };
    function download() {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([editor.value], { type: "text/x-python" }));
      link.download = "mine.py";
      link.click();
      URL.revokeObjectURL(link.href);
    }

    // Where the browser may, it writes into the file that was opened or chosen; else it is a download.
    save.onclick = async () => {
      if (!window.showSaveFilePicker) return download();
      try {
        handle ??= await window.showSaveFilePicker({ suggestedName: "mine.py", types: TYPES });
        const writer = await handle.createWritable();
        await writer.write(editor.value);
        await writer.close();
        note.textContent = `Saved in ${handle.name}.`;
      } catch (error) {
        if (error.name !== "AbortError") download(); // nobody chose
      }
    };

    async function take(own, from) {
      const { text, problem } = await textOf(own);
      if (problem) {
        note.textContent = problem;
        return;
      }
      handle = from;
      const found = definitions.filter((one) => file.isWritten(text, one)).length, line = editor.notPython(text);
      const has = found ? `${found} of the course's ${definitions.length} definitions` : "none of the course's definitions";
      replace(text, `${own.name} is open here and has ${has}.${line ? ` Line ${line} can't be read as Python.` : ""}`);
    }

    open.onclick = async () => {
      if (!window.showOpenFilePicker) return chosen.click();
      try {
        const [from] = await window.showOpenFilePicker({ types: TYPES });
        await take(await from.getFile(), from);
      } catch (error) {
        if (error.name !== "AbortError") chosen.click();
      }
    };
    chosen.onchange = async () => {
      const [own] = chosen.files;
      if (own) await take(own, null);
      chosen.value = ""; // so that the same file can be opened again
    };
    places.onchange = () => {
      editor.goTo(Number(places.value));
      places.selectedIndex = 0;
    };
    again.onclick = () => {
      handle = null;
      replace(starter, "Your file begins again.");
    };
    back.onclick = () => {
      handle = null;
      replace(before(), "The file before is here again. The same button brings back the other one.");
    };
    addEventListener("storage", (event) => { // another tab has written
      if (event.key === storage.key(FILE)) show();
      if (event.key === storage.key(STEPS)) showCount();
    });
    file.editors.push(show);
    show();
    editor.scrollTo(firstOpen());
    showCount();
    busy(false);
    const local = problem && `You can write, open and save your file here. ${problem}${location.protocol === "file:" ? ALONE : ""}`;
    note.textContent = local || (storage.works ? KEYS : "This browser keeps nothing: download your file before you leave.");
  }

  // ------------------------------------------------------------ a rung that trains here

  function buildTrain(block) {
    const { page, rung, starter } = block.dataset;
    const kept = `rung ${rung}`;
    const problem = obstacle();
    if (problem) return; // the exercises of the page say why
    block.setAttribute("role", "group");
    block.setAttribute("aria-label", `Train rung ${rung} here`);
    const editor = courseEditor(block, {
      id: `train-${rung}`,
      label: "The same lines, to change and to train in this page",
      describedBy: `train-${rung}-said`,
      change: () => storage.write(kept, editor.value),
      check: train,
    });
    const bar = add(block, "div", { class: "check-bar" });
    const go = add(bar, "button", { type: "button", class: "check-go" }, "train here");
    const stop = add(bar, "button", { type: "button", class: "check-stop" }, "Stop");
    const again = add(bar, "button", { type: "button" }, "Start again");
    const progress = add(bar, "progress", { "aria-label": "How far the training is" });
    const note = add(bar, "span", { class: "check-note" });
    const said = add(block, "p", { class: "check-said", role: "status", id: `train-${rung}-said` });
    const output = add(block, "pre", { class: "check-output", tabindex: "0", "aria-label": "What the training prints" });

    const busy = (yes) => {
      document.querySelectorAll(".check-go").forEach((button) => (button.disabled = yes));
      stop.hidden = !yes;
      again.hidden = yes;
      progress.hidden = true;
    };

    function train() {
      if (job) return;
      busy(true);
      output.textContent = note.textContent = "";
      editor.mark([]);
      said.className = "check-said";
      said.textContent = worker ? "" : "Python is loading; the first time takes a while.";
      ask({ page, source: editor.value, trains: true, mine: file.read() }, {
        limit: TRAIN_LIMIT,
        progress: showLoading(progress, note),
        start() {
          note.textContent = "";
          said.textContent = outline.length ? "It trains, for a minute or two." : "It trains: half a minute, or a whole one on a telephone.";
        },
        step({ number, all, name }) {
          progress.hidden = false;
          progress.max = all;
          progress.value = number;
          output.textContent += `after ${number} of ${all} steps  ${name}\n`;
        },
        done(verdict) {
          busy(false);
          note.textContent = "";
          said.textContent = verdict.stopped ?? verdict.problem ?? "";
          if (verdict.problem) editor.mark([markOf(verdict.problem, 1)]);
          said.className = `check-said ${verdict.stopped || verdict.problem ? "wrong" : ""}`;
          output.textContent += verdict.output ?? "";
          if (verdict.cut) output.textContent += "\n… the rest is cut.";
        },
      });
    }

    go.onclick = train;
    stop.onclick = () => {
      end();
      if (job) finish({ stopped: "Stopped." });
    };
    again.onclick = () => {
      editor.value = starter;
      storage.write(kept, null);
      output.textContent = said.textContent = "";
      editor.focus();
    };
    editor.value = storage.read(kept) ?? starter;
    busy(false);
    const own = outline.length ? "It takes the definitions of your file that are right. " : "";
    note.textContent = `${own}Fewer and smaller steps than in the notebook, so it ends higher.`;
  }

  document.querySelectorAll(".check-here").forEach(build);
  if (counted.length) {
    const line = document.createElement("p");
    line.className = "check-count";
    counted[0].block.before(line);
    showCounted();
  }
  document.querySelectorAll(".check-file").forEach(buildFile);
  document.querySelectorAll(".train-here").forEach(buildTrain);
})();
