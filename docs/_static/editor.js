// The editor of an answer: a textarea, in whose place CodeMirror stands once it has come. The textarea
// keeps the text, and remains the editor where CodeMirror can't be loaded.
(() => {
  const { src } = document.currentScript;
  const BUNDLE = new URL(`codemirror/codemirror.js${new URL(src).search}`, src); // as new as this script
  const PLAIN = { spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off" };
  const NEAR = "500px"; // so far from the window an editor begins to load

  let coming = null; // a promise of CodeMirror, one for the page
  function codeMirror() {
    coming ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = BUNDLE;
      script.onload = () => resolve(parts(window.CodeMirror));
      script.onerror = reject;
      document.head.append(script);
    });
    return coming;
  }

  // ------------------------------------------------------------ queries, keys and values

  // As docs/_ext/course_look.py colours them in the page's code, with names such as q_heads, too.
  const WORDS = { query: "q", queries: "q", key: "k", keys: "k", value: "v", values: "v" };
  const roleOf = (name) => WORDS[name] ?? name.match(/^(?:w_)?([qkv])$|^([qkv])_\w+$/i)?.slice(1).find(Boolean)?.toLowerCase();

  function roleMarks(cm, view) {
    const found = [], roles = new Set();
    cm.syntaxTree(view.state).iterate({
      enter({ name, from, to }) {
        if (name !== "VariableName" && name !== "PropertyName") return;
        const role = roleOf(view.state.sliceDoc(from, to));
        if (!role) return;
        roles.add(role);
        found.push(cm.Decoration.mark({ class: `is-${role}` }).range(from, to));
      },
    });
    const meant = roles.has("q") && roles.has("k"); // else it may be the k of top-k, or a key and its value
    return cm.Decoration.set(meant ? found : []);
  }

  // Where a line is too long and wraps, its rest begins below its own first letter, and deeper.
  function hangMarks(cm, view) {
    const found = [];
    for (let n = 1; n <= view.state.doc.lines; n++) {
      const { from, text } = view.state.doc.line(n), deep = text.search(/\S/) + 4;
      if (deep > 3) found.push(cm.Decoration.line({ attributes: { style: `--hang: ${deep}ch` } }).range(from));
    }
    return cm.Decoration.set(found);
  }

  // ------------------------------------------------------------ names that are offered

  const PAGE_NAMES = /\b(?:torch|nn|F|math)(?:\.\w+)+|\.[a-z_]\w+(?=\()/g; // and methods, as .unflatten

  // What the page's own code uses of PyTorch: torch.ones, nn.Linear, .softmax
  const pageNames = () => [...new Set([...document.querySelectorAll(".highlight pre")]
    .flatMap((code) => code.textContent.match(PAGE_NAMES) ?? []))];

  function offered(context) {
    const before = context.matchBefore(/[\w.]+/);
    if (!before || (before.text.length < 2 && !context.explicit)) return null;
    const dot = before.text.lastIndexOf("."), of = before.text.slice(0, dot + 1);
    const isModule = /^(torch|nn|F|math)\./.test(of);
    const names = pageNames().filter((name) => (isModule || dot < 0 ? name.startsWith(of || before.text) : name.startsWith(".")));
    const options = names.map((name) => ({ label: isModule ? name.slice(of.length) : name.replace(/^\./, "") }));
    return options.length ? { from: before.from + dot + 1, options, validFor: /^\w*$/ } : null;
  }

  // ------------------------------------------------------------ what a check found, at its line

  // Of CodeMirror what all editors of the page share.
  function parts(cm) {
    class Message extends cm.WidgetType {
      constructor(text) {
        super();
        this.text = text;
      }
      eq(other) { return other.text === this.text; }
      toDOM() {
        const said = document.createElement("div");
        said.className = "cm-said";
        this.text.split("`").forEach((piece, i) => { // every other one is code
          const part = document.createElement(i % 2 ? "code" : "span");
          part.textContent = piece;
          said.append(part);
        });
        return said;
      }
    }
    class Sign extends cm.GutterMarker {
      constructor(right) {
        super();
        this.right = right;
      }
      eq(other) { return other.right === this.right; }
      toDOM() {
        const sign = document.createElement("span");
        sign.className = this.right ? "cm-right" : "cm-wrong";
        sign.textContent = this.right ? "✓" : "✗";
        return sign;
      }
    }
    const setMarks = cm.StateEffect.define(); // [{ line, right, text }]
    const lineOf = (state, n) => state.doc.line(Math.min(Math.max(1, n), state.doc.lines));
    const inOrder = (marks) => [...marks].sort((a, b) => a.line - b.line);
    // A field of ranges that a check sets and that follow the text as it changes. What was said of a
    // line goes when the line changes, and what was said of a definition, when something in it does.
    const kept = (set, provide) => cm.StateField.define({
      create: () => cm.RangeSet.empty,
      update(before, change) {
        const effect = change.effects.find((one) => one.is(setMarks));
        if (effect) return set(change.state, inOrder(effect.value));
        let marks = before.map(change.changes);
        const { doc } = change.state;
        change.changes.iterChangedRanges((a, b, from, to) => {
          let top = doc.lineAt(from);
          const [first, last] = [top.from, doc.lineAt(to).to];
          while (top.number > 1 && /^([\s)]|$)/.test(top.text)) top = doc.line(top.number - 1);
          const stays = (at) => at !== top.from && (at < first || at > last);
          marks = marks.update({ filter: (at) => stays(at) });
        });
        return marks;
      },
      provide,
    });
    const messages = kept((state, marks) => cm.RangeSet.of(marks.filter(({ right }) => !right).flatMap(({ line, text }) => {
      const { from, to } = lineOf(state, line);
      const below = cm.Decoration.widget({ widget: new Message(text), block: true, side: 1 });
      return [cm.Decoration.line({ class: "cm-wrong-line" }).range(from), ...(text ? [below.range(to)] : [])];
    }), true), (field) => cm.EditorView.decorations.from(field));
    const signs = kept((state, marks) => cm.RangeSet.of(
      marks.map(({ line, right }) => new Sign(right).range(lineOf(state, line).from)), true),
    (field) => cm.gutter({ class: "cm-signs", markers: (view) => view.state.field(field), initialSpacer: () => new Sign(true) }));
    // Marks that are made of the text.
    const made = (make) => cm.ViewPlugin.define((view) => ({
      marks: make(cm, view),
      update(change) {
        const parsed = cm.syntaxTree(change.state) !== cm.syntaxTree(change.startState);
        if (change.docChanged || parsed) this.marks = make(cm, change.view);
      },
    }), { decorations: (plugin) => plugin.marks });
    // Tab indents; after Escape it leaves, until something is typed or the editor is left.
    const leave = { key: "Escape", run: (view) => (view.setTabFocusMode(true), false) };
    const stay = [
      cm.EditorView.updateListener.of(({ docChanged, view }) => docChanged && view.setTabFocusMode(false)),
      cm.EditorView.domEventHandlers({ blur: (_, view) => view.setTabFocusMode(false) }),
    ];
    const shared = [
      messages, signs, made(roleMarks), stay,
      cm.lineNumbers(),
      cm.history(),
      cm.pythonLanguage,
      cm.syntaxHighlighting(cm.classHighlighter),
      cm.bracketMatching(),
      cm.closeBrackets(),
      cm.autocompletion({ override: [cm.localCompletionSource, offered], defaultKeymap: false, icons: false }),
      cm.indentUnit.of("    "),
    ];
    const offers = cm.completionKeymap.filter(({ key }) => key !== "Enter"); // Enter begins a line, Tab takes the name
    const keys = [leave, ...offers, { key: "Tab", run: cm.acceptCompletion }, ...cm.closeBracketsKeymap, cm.indentWithTab, ...cm.defaultKeymap, ...cm.historyKeymap];
    return { cm, setMarks, shared, keys, wrap: [cm.EditorView.lineWrapping, made(hangMarks)] };
  }

  // ------------------------------------------------------------ the textarea

  // A new line begins where the one before it did, and deeper after a colon.
  function indent(event, area) {
    const before = area.value.slice(0, area.selectionStart).split("\n").pop();
    const depth = before.match(/^ */)[0] + (before.trimEnd().endsWith(":") ? "    " : "");
    event.preventDefault();
    if (!document.execCommand("insertText", false, `\n${depth}`)) {
      area.setRangeText(`\n${depth}`, area.selectionStart, area.selectionEnd, "end");
    }
  }

  // Enter begins a line; with Ctrl it checks.
  function enter(event, area, check) {
    if (event.key !== "Enter" || event.isComposing) return;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      check();
    } else if (!event.shiftKey && !event.altKey) indent(event, area);
  }

  // As high as its lines with what wraps, and one more; a file has a limit.
  function grow(area, most) {
    if (area.hidden) return;
    area.rows = Math.min(most, Math.max(3, area.value.split("\n").length + 1));
    const line = parseFloat(getComputedStyle(area).lineHeight);
    const over = area.scrollHeight - area.clientHeight;
    if (over > 0) area.rows = Math.min(most, area.rows + Math.round(over / line) + 1);
  }

  // ------------------------------------------------------------ both

  // Put CodeMirror in the place of a textarea. Gives its view.
  function mount({ cm, shared, keys, wrap }, area, { check, label, file }) {
    const told = cm.EditorView.updateListener.of(({ docChanged, view }) => {
      const text = view.state.doc.toString();
      if (!docChanged || area.value === text) return;
      area.value = text;
      area.dispatchEvent(new Event("input"));
    });
    const run = () => (check(), true);
    const view = new cm.EditorView({
      doc: area.value,
      extensions: [
        cm.keymap.of([{ key: "Mod-Enter", run }, { key: "Ctrl-Enter", run }, ...(file ? cm.searchKeymap : []), ...keys]),
        shared, told,
        file ? cm.search({ top: true }) : wrap,
        cm.EditorView.contentAttributes.of({
          tabindex: "0",
          "aria-labelledby": label.id,
          "aria-describedby": area.getAttribute("aria-describedby"),
        }),
      ],
    });
    const focused = document.activeElement === area, { selectionStart, selectionEnd } = area;
    area.after(view.dom);
    area.hidden = true;
    area.parentElement.classList.add("has-editor");
    if (focused) {
      view.dispatch({ selection: { anchor: selectionStart, head: selectionEnd } });
      view.focus();
    }
    area.addEventListener("focus", () => view.focus());
    label.addEventListener("click", () => view.focus());
    return view;
  }

  // An editor at the end of a block. It calls `change` after a change and `check` for Ctrl+Enter; what
  // `describedBy` names is read with it. A `file` is long: it scrolls, and can be searched.
  window.courseEditor = (block, { id, label: words, describedBy, change, check, file = false }) => {
    const label = document.createElement("label"), area = document.createElement("textarea");
    Object.assign(label, { id: `${id}-label`, htmlFor: id, textContent: words });
    for (const [name, value] of Object.entries({ id, ...PLAIN, "aria-describedby": describedBy })) area.setAttribute(name, value);
    block.append(label, area);
    const most = file ? 24 : Infinity;
    let view = null, marks = [], shared = null, shown = 0; // the line that is to be in view

    function follow() { // the textarea, which something else may have changed
      grow(area, most);
      const before = view?.state.doc.toString();
      if (!view || before === area.value) return;
      view.dispatch({ changes: { from: 0, to: before.length, insert: area.value }, effects: shared.setMarks.of([]) });
    }

    function showMarks() {
      view?.dispatch({ effects: shared.setMarks.of(marks) });
      const first = marks.find(({ right }) => !right);
      if (first && file) scrollTo(first.line);
    }

    // Bring a line into view within the editor; the page stays where it is.
    function scrollTo(n) {
      shown = n;
      if (!view || !n) return;
      const line = view.state.doc.line(Math.min(n, view.state.doc.lines));
      view.scrollDOM.scrollTop = view.lineBlockAt(line.from).top - 48;
    }

    async function load() {
      watch.disconnect();
      area.removeEventListener("focus", load);
      try {
        shared = await codeMirror();
      } catch {
        return; // then it stays a textarea
      }
      view = mount(shared, area, { check, label, file });
      scrollTo(shown);
      if (marks.length) showMarks();
    }

    const watch = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && load(), { rootMargin: NEAR });
    watch.observe(area);
    area.addEventListener("focus", load);
    area.addEventListener("input", () => {
      follow();
      change();
    });
    area.addEventListener("keydown", (event) => enter(event, area, check));
    addEventListener("resize", () => grow(area, most));
    return {
      get value() { return area.value; },
      set value(text) {
        area.value = text;
        follow();
      },
      focus: () => (view ?? area).focus(),
      scrollTo, // a line, counted from 1
      goTo(n) { // and type there
        scrollTo(n);
        if (view) view.dispatch({ selection: { anchor: view.state.doc.line(n).to } });
        else area.setSelectionRange(...Array(2).fill(area.value.split("\n").slice(0, n).join("\n").length));
        this.focus();
      },
      notPython(text) { // the first line that can't be read as Python; 0 if all can, or it isn't known
        let line = 0;
        shared?.cm.pythonLanguage.parser.parse(text).iterate({
          enter({ type, from }) {
            if (type.isError) line ||= text.slice(0, from).split("\n").length;
          },
        });
        return line;
      },
      mark(found) { // [{ line, right, text }], what a check found
        marks = found;
        showMarks();
      },
    };
  };
})();
