// Draws the charts of a page and mends what the theme leaves unlabelled.
(() => {
  const here = document.currentScript.src;
  const root = document.documentElement;

  function drawCharts(charts) {
    const dark = root.dataset.theme === "dark";
    for (const { element, spec } of charts) {
      vegaEmbed(element, spec, {
        renderer: "svg",
        actions: false,
        theme: dark ? "dark" : undefined,
        config: { background: "transparent" },
      });
    }
  }

  function startCharts() {
    const charts = [...document.querySelectorAll(".vega-chart")].map((element) => ({
      element,
      spec: JSON.parse(element.querySelector("script").textContent),
    }));
    if (!charts.length) return;
    const script = document.createElement("script");
    script.src = new URL("vega.js", here);
    script.onload = () => {
      drawCharts(charts);
      new MutationObserver(() => drawCharts(charts)).observe(root, { attributeFilter: ["data-theme"] });
    };
    document.head.append(script);
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
      (image.closest("a") ?? image).replaceWith(map);
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
    each(".cell_output, div.highlight pre, div.math", (e) => {
      if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
    });
  }

  function start() {
    mendLabels();
    startCharts();
    startLive();
    startTicks();
    startMap();
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
