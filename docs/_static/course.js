// Draws the charts of a page and mends what the theme leaves unlabelled.
(() => {
  const here = document.currentScript.src;
  const root = document.documentElement;

  // On a phone a chart is as narrow as the page, and what stands side by side is stacked.
  function fit({ hconcat, ...spec }) {
    if (innerWidth > 600) return hconcat ? { ...spec, hconcat } : spec;
    if (spec.width > 300) spec.width = innerWidth - 120;
    return hconcat ? { ...spec, vconcat: hconcat.map(fit) } : spec;
  }

  function startCharts() {
    const charts = document.querySelectorAll(".vega-chart");
    if (!charts.length) return;
    const script = document.createElement("script");
    script.src = new URL("vega.js", here);
    script.onload = () => {
      for (const chart of charts) {
        const spec = fit(JSON.parse(chart.querySelector("script").textContent));
        vegaEmbed(chart, spec, { renderer: "svg", actions: false, config: { background: "transparent" } });
      }
    };
    document.head.append(script);
  }

  // Plots with two panels keep letters that can be read: on a phone they scroll in their box.
  function markWide() {
    for (const image of document.querySelectorAll(".cell_output img")) {
      const mark = () => image.classList.toggle("wide", image.naturalWidth > 600);
      if (image.complete) mark();
      image.addEventListener("load", mark);
    }
  }

  // The sidebar shows where the reader is, also when the theme has put it where it was before.
  function showPlace() {
    const here = document.querySelector('.bd-docs-nav [aria-current="page"]');
    const bar = here?.closest(".bd-sidebar-primary, dialog");
    if (!bar) return;
    const [at, box] = [here.getBoundingClientRect(), bar.getBoundingClientRect()];
    if (at.top < box.top || at.bottom > Math.min(box.bottom, innerHeight)) {
      bar.scrollTop += at.top - box.top - box.height / 3;
    }
  }

  // Paper is white, and nothing on it unfolds.
  function startPrint() {
    let folds = [], theme;
    addEventListener("beforeprint", () => {
      theme = root.dataset.theme;
      root.dataset.theme = "light";
      folds = [...document.querySelectorAll("article details:not([open])")];
      folds.forEach((fold) => (fold.open = true));
      document.querySelectorAll("img[loading=lazy]").forEach((image) => (image.loading = "eager"));
    });
    addEventListener("afterprint", () => {
      root.dataset.theme = theme;
      folds.forEach((fold) => (fold.open = false));
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
    for (const image of document.querySelectorAll('img[src$="_images/transformer.svg"]')) {
      const map = document.createElement("object");
      Object.assign(map, { type: "image/svg+xml", data: image.src, title: image.alt });
      map.style.aspectRatio = `${image.getAttribute("width")} / ${image.getAttribute("height")}`;
      (image.closest("a") ?? image).replaceWith(map);
      const place = document.querySelector(".home-map"); // beside the model, in the first screen
      if (innerWidth >= 1000) place?.append(map);
    }
  }

  // Ticks beside the lessons of the home page, kept in this browser.
  function startTicks() {
    const rows = document.querySelectorAll("#the-path table tbody tr");
    for (const row of rows) {
      const link = row.querySelector("a"), key = `former_nb ${link?.getAttribute("href")}`;
      if (!link) continue;
      const box = document.createElement("input");
      box.type = "checkbox";
      box.setAttribute("aria-label", `${link.textContent}: read`);
      try {
        box.checked = localStorage.getItem(key) === "read";
        box.addEventListener("change", () => localStorage.setItem(key, box.checked ? "read" : ""));
      } catch { return; } // no storage, no ticks
      row.cells[0].prepend(box, " ");
    }
  }

  function mendLabels() {
    const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
    each(".search-button__button, .cell summary", (e) => e.removeAttribute("aria-label"));
    each("summary", (e) => e.textContent.trim() || e.setAttribute("aria-label", "Show or hide the section"));
    each(".bd-sidebar-primary", (e) => {
      e.setAttribute("role", "navigation");
      e.setAttribute("aria-label", "Course");
    });
    each(".bd-header-article", (e) => {
      e.setAttribute("role", "region");
      e.setAttribute("aria-label", "Page tools");
    });
  }

  // Keys reach every box that scrolls, also one that came to scroll with its picture or the width.
  function startReach() {
    const reach = () => {
      for (const box of document.querySelectorAll(".cell_output, div.highlight pre, div.math")) {
        if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      }
    };
    reach();
    addEventListener("load", reach, true); // of pictures too
    addEventListener("resize", reach);
  }

  function start() {
    mendLabels();
    startReach();
    startCharts();
    startLive();
    startTicks();
    startMap();
    markWide();
    startPrint();
    setTimeout(showPlace);
    addEventListener("load", showPlace);
    document.querySelector(".primary-toggle")?.addEventListener("click", () => setTimeout(showPlace, 300));
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
