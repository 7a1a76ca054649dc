// A word of the text lights its part of the drawings and its lines of code, and the other way round.
// The text has <span data-part="mask" data-code="causal_mask(|tril(">mask</span>, a drawing has
// data-part="mask"; the lines of code are those that hold a piece of data-code. A part that is named
// q, k or v has the names of queries, keys and values in code.
(() => {
  const words = [...document.querySelectorAll("span[data-part]")];
  const sheet = new CSSStyleSheet();
  let held = "", over = ""; // a press holds a part; a pointer or the focus shows one for a while

  const night = [];
  for (const root of [document, ...document.querySelectorAll(".drawing")].map((e) => e.shadowRoot ?? e)) {
    if (!root.adoptedStyleSheets) continue; // a browser without shadow roots shows the picture
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
    night.push(...root.querySelectorAll("style.night"));
  }
  const page = document.documentElement;
  const theme = () => night.forEach((style) => { style.media = page.dataset.theme === "dark" ? "all" : "not all"; });
  new MutationObserver(theme).observe(page, { attributeFilter: ["data-theme"] });
  if (page.dataset.theme) theme();

  function show() {
    const part = over || held, lit = `[data-part~="${part}"]`, shapes = ":is(rect, circle, path, text)";
    sheet.replaceSync(!part ? "" : `
      svg:has(${lit}) ${shapes}:not(${lit}, ${lit} *, .panel, marker *, [opacity]) { opacity: 0.22; }
      :is(span, mark)${lit} { background: var(--lit); }`);
    for (const word of words) word.setAttribute("aria-pressed", word.dataset.part === held);
  }
  const partOf = (event) => event.composedPath().find((e) => e.dataset?.part)?.dataset.part ?? "";
  const light = (part) => { if (part !== over) { over = part; show(); } };

  for (const word of words) {
    word.setAttribute("role", "button");
    word.tabIndex = 0;
    for (const line of word.dataset.code ? document.querySelectorAll(".cell_input .line") : [])
      if (word.dataset.code.split("|").some((piece) => line.textContent.includes(piece))) line.dataset.part ??= word.dataset.part;
    if (/^[qkv]$/.test(word.dataset.part))
      for (const name of document.querySelectorAll(`.highlight .is-${word.dataset.part}`)) name.dataset.part = word.dataset.part;
  }
  let touch = false;
  document.addEventListener("pointerdown", (event) => { touch = event.pointerType !== "mouse"; }, true);
  document.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") light(partOf(event)); });
  document.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) light(partOf(event)); });
  document.addEventListener("focusout", () => light(""));
  document.addEventListener("click", (event) => { // a finger can't hover, so a touched part stays lit
    const part = partOf(event);
    held = words.includes(event.target.closest?.("[role=button]")) ? (held === part ? "" : part) : touch ? part : "";
    show();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { held = over = ""; show(); }
    if (!words.includes(event.target) || ![" ", "Enter"].includes(event.key)) return;
    event.preventDefault();
    over = "";
    event.target.click();
  });
  show();
})();
