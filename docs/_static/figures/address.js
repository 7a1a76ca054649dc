// The state of a figure in the address of its page: #figure=the-tap&temperature=0.5, and one button
// for all figures that copies it. What comes in an address is text, and never becomes HTML.
window.courseAddress = (() => {
  const LONGEST = 2000; // of a fragment that is read
  const WAIT = 300; // ms of rest before the address is written, since browsers count such writes
  const arrived = performance.getEntriesByType("navigation")[0]?.type ?? "navigate";
  let waiting, writing;

  // The state of this figure in the address as a Map of texts, or null where there is none.
  function read(figure) {
    const fragment = location.hash.slice(1);
    if (!fragment.startsWith("figure=") || fragment.length > LONGEST) return null;
    const parts = new URLSearchParams(fragment);
    if (parts.get("figure") !== figure) return null;
    parts.delete("figure");
    return new Map(parts);
  }

  function link(figure, state) { // the address of this page with the state of a figure
    return `${location.href.split("#")[0]}#${new URLSearchParams([["figure", figure], ...state])}`;
  }

  function flush() {
    clearTimeout(waiting);
    const address = writing?.();
    writing = undefined;
    // A model that was trained here is nowhere but in the address, so it stays there.
    if (!address || location.hash.startsWith("#model") || address === location.href) return;
    try {
      history.replaceState(null, "", address);
    } catch { /* too many writes: the next one comes */ }
  }

  // Write the state into the address, once the hand rests; tell() gives it then.
  function write(figure, tell) {
    clearTimeout(waiting);
    writing = () => link(figure, tell());
    waiting = setTimeout(flush, WAIT);
  }

  // Call open(state, first) with what the address says of this figure, now and when it changes.
  function follow(figure, box, open) {
    const look = (first) => {
      const state = read(figure);
      if (!state || !open(state, first)) return;
      if (!first || arrived === "navigate") box.scrollIntoView();
    };
    look(true);
    addEventListener("hashchange", () => look(false));
  }

  async function copy(text) { // whether it is in the clipboard now
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch { // a page from disk may not, and then the browser's own way remains
      const before = document.activeElement;
      const area = Object.assign(document.createElement("textarea"), { value: text, readOnly: true });
      area.style.cssText = "position:fixed;opacity:0";
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      before?.focus({ preventScroll: true });
      return copied;
    }
  }

  // A line with the button "Copy link"; tell() gives the link, or nothing while there is none.
  function copier(tell) {
    const line = Object.assign(document.createElement("div"), { className: "figure-link" });
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy link" });
    const note = document.createElement("span");
    note.setAttribute("aria-live", "polite");
    let soon;
    const say = (words) => {
      clearTimeout(soon);
      note.textContent = words;
    };
    button.addEventListener("click", async () => {
      flush();
      const text = tell();
      say(await copy(text) ? "Copied: it opens what you see." : `Copy it here: ${text}`);
      soon = setTimeout(say, 4000, "");
    });
    line.append(button, note);
    return { line, button, say };
  }

  return { read, link, write, follow, copier };
})();
