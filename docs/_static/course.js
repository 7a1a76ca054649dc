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
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
