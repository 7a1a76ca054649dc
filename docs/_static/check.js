// The button *check here* below an exercise: an editor, Python in a worker, and what the judge says.
(() => {
  const here = document.currentScript.src;
  const LIMIT = 10; // seconds that an answer may take
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

  // ------------------------------------------------------------ what the browser keeps

  const storage = {
    works: true,
    read(key) {
      try {
        return localStorage.getItem(key);
      } catch {
        this.works = false;
        return null;
      }
    },
    write(key, text) {
      try {
        if (text === null) localStorage.removeItem(key);
        else localStorage.setItem(key, text);
      } catch {
        this.works = false;
      }
    },
  };

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

  function receive({ data }) {
    if (!job) return;
    if (data.total) job.progress(data.loaded, data.total);
    if (data.started) {
      job.start();
      job.timer = setTimeout(() => {
        end();
        finish({ stopped: `Stopped after ${LIMIT} seconds. Is there a loop that never ends?` });
      }, LIMIT * 1000);
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

  // ------------------------------------------------------------ a block

  const add = (parent, tag, attributes = {}, text = "") => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    parent.append(node);
    return node;
  };

  // A new line begins where the one before it did, and deeper after a colon.
  function indent(event, editor) {
    const before = editor.value.slice(0, editor.selectionStart).split("\n").pop();
    const depth = before.match(/^ */)[0] + (before.trimEnd().endsWith(":") ? "    " : "");
    event.preventDefault();
    if (!document.execCommand("insertText", false, `\n${depth}`)) {
      editor.setRangeText(`\n${depth}`, editor.selectionStart, editor.selectionEnd, "end");
    }
  }

  function build(block) {
    const { page, number, expression, starter } = block.dataset;
    const key = `former_nb ${number}`, id = `check-${number.replace(".", "-")}`;
    const problem = obstacle();
    if (problem) {
      add(block, "p", { class: "check-note" }, problem);
      return;
    }
    block.setAttribute("role", "group");
    block.setAttribute("aria-label", `Check ${number} here`);
    add(block, "label", { for: id }, `Your answer to ${number}`);
    const editor = add(block, "textarea", {
      id, spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off",
    });
    const bar = add(block, "div", { class: "check-bar" });
    const go = add(bar, "button", { type: "button", class: "check-go" }, "check here");
    const stop = add(bar, "button", { type: "button", class: "check-stop" }, "Stop");
    const again = add(bar, "button", { type: "button" }, "Start again");
    const progress = add(bar, "progress", { "aria-label": "Python is being loaded" });
    const note = add(bar, "span", { class: "check-note" });
    const said = add(block, "p", { class: "check-said", role: "status" });
    const output = add(block, "pre", { class: "check-output", tabindex: "0", "aria-label": "What your answer prints" });
    const hints = add(block, "div", { class: "check-hints" });
    const idle = "Ctrl+Enter checks, too.";

    const grow = () => { // as high as its lines with what wraps, and one more
      editor.rows = Math.max(3, editor.value.split("\n").length + 1);
      const line = parseFloat(getComputedStyle(editor).lineHeight);
      const over = editor.scrollHeight - editor.clientHeight;
      if (over > 0) editor.rows += Math.round(over / line) + 1;
    };
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
    };

    editor.value = storage.read(key) ?? starter;
    note.textContent = storage.works ? idle : "This browser keeps nothing: copy your answer before you leave.";
    grow();
    addEventListener("resize", grow);
    show(false);

    function tellVerdict(verdict) {
      show(false);
      note.textContent = "";
      said.classList.add(verdict.right ? "right" : "wrong");
      said.textContent = verdict.stopped ?? verdict.sentence;
      output.textContent = verdict.output ?? "";
      if (verdict.cut) output.textContent += "\n… the rest is cut.";
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

    function check() {
      if (job) return;
      clear();
      show(true);
      said.textContent = worker ? "" : "Python is loading; the first time takes a while.";
      ask({ page, number, expression, source: editor.value }, {
        progress(loaded, total) {
          progress.hidden = false;
          progress.max = total;
          progress.value = loaded;
          note.textContent = `${MB(loaded)} of ${MB(total)} MB`;
        },
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
      storage.write(key, null);
      clear();
      grow();
      editor.focus();
    };
    editor.oninput = () => {
      storage.write(key, editor.value);
      grow();
    };
    editor.onkeydown = (event) => {
      if (event.key !== "Enter" || event.isComposing) return;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        check();
      } else if (!event.shiftKey && !event.altKey) indent(event, editor);
    };
  }

  document.querySelectorAll(".check-here").forEach(build);
})();
