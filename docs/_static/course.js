// The line of stations, day and night, ticks, charts, and what a page needs to be printed.
(() => {
  const here = document.currentScript.src;
  const root = document.documentElement;
  const page = () => document.body.dataset.page;
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  const night = matchMedia("(prefers-color-scheme: dark)");

  // What this browser keeps: the light, and which lessons are read. Without storage, nothing.
  const keep = (name, value) => courseKept.write(name, value), kept = (name) => courseKept.read(name);

  // ------------------------------------------------------------ the line

  function markDone() {
    const stops = [...document.querySelectorAll(".path li")].filter((stop) => kept(stop.dataset.page) !== "read");
    const unread = stops.find((stop) => stop.matches(".stopped")) ?? stops[0];
    each(".path li", (stop) => stop.classList.toggle("next", stop === unread));
    each(".path li", (stop) => {
      const done = kept(stop.dataset.page) === "read";
      stop.classList.toggle("done", done);
      stop.querySelector(".unseen")?.remove();
      if (!done) return;
      const said = document.createElement("span");
      said.className = "unseen";
      said.textContent = ", read";
      stop.querySelector("a").append(said);
    });
  }

  function showStation() {
    const path = document.querySelector(".path");
    const find = (place) => path?.querySelector(place);
    const stop = find(".here") ?? find(".near") ?? find(".next");
    if (stop) path.scrollLeft = stop.offsetLeft - (path.clientWidth - stop.offsetWidth) / 2;
  }

  function tick(name, label) {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = kept(name) === "read";
    if (label) box.setAttribute("aria-label", label);
    box.addEventListener("change", () => {
      keep(name, box.checked ? "read" : "");
      markDone();
    });
    return box;
  }

  // A tick at the end of a lesson; going on from there is one, too.
  function startTicks() {
    if (kept("tried") !== "yes") keep("tried", "yes");
    if (kept("tried") !== "yes") return; // no storage, no ticks
    markDone();
    for (const row of document.querySelectorAll("#the-path table tbody tr")) {
      const link = row.querySelector("a"), frame = document.createElement("label");
      if (!link) continue;
      frame.append(tick(link.getAttribute("href"), `${link.textContent}: read`));
      (row.cells[0].querySelector("p") ?? row.cells[0]).prepend(frame);
    }
    const turn = document.querySelector(".turn");
    if (!turn || !document.querySelector(".path .here")) return;
    const label = document.createElement("label");
    const box = tick(page());
    label.append(box, "I have read this page");
    turn.prepend(label);
    turn.querySelector(".right-next")?.addEventListener("click", () => keep(page(), "read"));
  }

  // Where the reader is, for the line "Go on with": the last heading that came into the upper half.
  function startStopping() {
    if (!document.querySelector(".path .here")) return;
    const heads = [...document.querySelectorAll("article section[id] > :is(h2, h3)")];
    let soon;
    const note = () => {
      const seen = heads.filter((head) => head.getBoundingClientRect().top < innerHeight / 2).pop();
      const words = [...(seen?.childNodes ?? [])].filter((node) => !node.classList?.contains("headerlink"));
      keep("stopped", JSON.stringify([page(), seen?.parentElement.id ?? "", words.map((node) => node.textContent).join("")]));
    };
    note();
    addEventListener("pagehide", note);
    addEventListener("scroll", () => {
      clearTimeout(soon);
      soon = setTimeout(note, 300);
    }, { passive: true });
  }

  // ------------------------------------------------------------ the bar

  function startBar() {
    const light = document.querySelector("#light");
    light.addEventListener("click", () => {
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
      keep("light", root.dataset.theme === (night.matches ? "dark" : "light") ? "" : root.dataset.theme);
    });
    night.addEventListener("change", () => {
      if (!kept("light")) root.dataset.theme = night.matches ? "dark" : "light";
    });
    const menus = [...document.querySelectorAll(".menu")];
    const close = (except) => menus.forEach((menu) => menu !== except && (menu.open = false));
    for (const menu of menus) {
      menu.addEventListener("toggle", () => {
        if (menu.open) menu.querySelector('nav [aria-current="page"]')?.scrollIntoView({ block: "center" });
      });
      menu.addEventListener("click", (event) => {
        close(menu); // the others, before this one opens: `toggle` comes only later
        if (event.target.closest("nav a")) menu.open = false;
      });
    }
    addEventListener("click", (event) => event.target.closest(".menu") || close());
    addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      const open = menus.find((menu) => menu.open);
      if (event.key === "Escape" && open) {
        close();
        open.querySelector("summary").focus();
      }
      const find = event.key === "/" || (event.key === "k" && (event.ctrlKey || event.metaKey));
      if (!find || (typing && event.key === "/")) return;
      event.preventDefault();
      location.href = document.querySelector(".tools a").href;
    });
  }

  // ------------------------------------------------------------ charts and pictures

  // On a phone a chart is as narrow as the page, and what stands side by side is stacked.
  function fit({ hconcat, ...spec }, room) {
    if (innerWidth > 600) return hconcat ? { ...spec, hconcat } : spec;
    if (spec.width > 300) spec.width = innerWidth - 120;
    return hconcat ? { ...spec, vconcat: hconcat.map((part) => fit(part)) } : spec;
  }

  let vega; // a promise: 300 kB, which come when a chart is to be used
  function draw(chart) {
    vega ??= new Promise((loaded, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: new URL("vega.js", here), onload: loaded, onerror: failed });
      document.head.append(script);
    });
    const spec = fit(chart.spec);
    const how = { renderer: "svg", actions: false, ast: true, config: { background: "transparent" } };
    vega.then(() => vegaEmbed(chart, spec, how), () => (vega = undefined)); // the picture stays
  }

  // A chart with sliders or a legend is drawn when it is nearly in view; of the others a picture
  // stands until somebody points at it.
  function startCharts() {
    const seen = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        draw(target);
      }
    }, { rootMargin: "800px" });
    each(".vega-chart", (chart) => {
      chart.spec = JSON.parse(chart.querySelector("script").textContent);
      if (chart.spec.params) seen.observe(chart);
      else chart.addEventListener("pointerenter", () => draw(chart), { once: true });
    });
  }

  // Plots with two panels keep letters that can be read: on a phone they scroll in their box.
  function markWide() {
    each(".cell_output img", (image) => {
      const mark = () => image.classList.toggle("wide", image.naturalWidth > 600);
      if (image.complete) mark();
      image.addEventListener("load", mark);
    });
  }

  function startLive() {
    if (!document.querySelector(".live[data-model]")) return;
    const script = document.createElement("script");
    script.src = new URL("live.js", here);
    document.head.append(script);
  }

  // The map of the home page: a drawing can hold links, a picture cannot.
  function startMap() {
    each('img[src$="_images/transformer.svg"]', (image) => {
      const map = document.createElement("object");
      Object.assign(map, { type: "image/svg+xml", data: image.src, title: image.alt });
      map.style.aspectRatio = `${image.getAttribute("width")} / ${image.getAttribute("height")}`;
      const frame = document.createElement("span"); // live.js puts buttons upon its boxes
      frame.className = "map";
      const place = document.querySelector(".home-map"); // beside the model, in the first screen
      frame.append(map);
      (image.closest("a") ?? image).replaceWith(frame);
      if (innerWidth >= 1280) place?.append(frame);
    });
  }

  // ------------------------------------------------------------ code, keys, paper

  function startCopying() {
    if (!navigator.clipboard) return;
    each(".cell_input .highlight, .page > section :not(.cell_output) > .highlight", (box) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
      button.addEventListener("click", async () => {
        const code = box.querySelector("pre").textContent.replace(/^\$ /gm, "").trimEnd();
        await navigator.clipboard.writeText(code);
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 1500);
      });
      box.style.position = "relative";
      box.append(button);
    });
  }

  // Keys reach every box that scrolls, also one that came to scroll with its picture or the width.
  function startReach() {
    const reach = () => each(".cell_output, div.highlight pre, div.math, dd > p, .page table, .live-grid", (box) => {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    });
    reach();
    addEventListener("load", reach, true); // of pictures too
    addEventListener("resize", reach);
    document.fonts.addEventListener("loadingdone", reach); // a face that came may be wider
  }

  // Paper is white, and nothing on it unfolds.
  function startPrint() {
    let folds = [], theme;
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      folds = [...document.querySelectorAll("article details:not([open])")];
      folds.forEach((fold) => (fold.open = true));
      each("img[loading=lazy]", (image) => (image.loading = "eager"));
    });
    addEventListener("afterprint", () => {
      root.dataset.theme = theme;
      folds.forEach((fold) => (fold.open = false));
    });
  }

  function start() {
    startTicks();
    startStopping();
    showStation();
    startBar();
    startReach();
    startCopying();
    startCharts();
    startLive();
    startMap();
    markWide();
    startPrint();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
