// Starts a deck: theme, charts, then every slide at a size at which all of it fits.
(() => {
  const here = document.currentScript.src;
  const root = document.documentElement;
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  const printed = /print-pdf/.test(location.search);
  const phone = window.matchMedia("(max-width: 600px)"); // slides one below another, none scaled

  const setTheme = () => (root.dataset.theme = night.matches && !printed ? "dark" : "light");
  setTheme();
  const stacked = phone.matches && !printed && window === window.parent; // the speaker's view has frames
  root.classList.add(stacked ? "stacked" : "measured"); // measured until all slides have their size
  if (window === window.parent) phone.addEventListener("change", () => location.reload());

  async function drawCharts() {
    const charts = [...document.querySelectorAll(".vega-chart")].map((element) => [
      element,
      JSON.parse(element.querySelector("script").textContent),
    ]);
    if (!charts.length) return;
    await new Promise((loaded) => {
      const script = document.createElement("script");
      Object.assign(script, { src: new URL("vega.js", here), onload: loaded });
      document.head.append(script);
    });
    const draw = () =>
      Promise.all(
        charts.map(([element, spec]) =>
          vegaEmbed(element, spec, {
            renderer: "svg",
            actions: false,
            theme: root.dataset.theme === "dark" ? "dark" : undefined,
            config: { background: "transparent" },
          })
        )
      );
    night.addEventListener("change", draw);
    await draw();
  }

  // A tall picture stands beside the words; then the type shrinks until nothing is cut.
  function fit(slide) {
    const picture = slide.querySelector(":scope > .picture > *");
    const { naturalWidth: wide = 1, naturalHeight: high = 0 } = picture ?? {};
    if (high > wide && !slide.matches(".title") && slide.querySelectorAll(":scope > :is(.highlight, .math, ul, ol)").length === 0)
      slide.classList.add("beside");
    const over = () =>
      slide.scrollHeight > slide.clientHeight + 1 ||
      [...slide.children].some((e) => e.scrollWidth > e.clientWidth + 1);
    slide.style.fontSize = "124%";
    for (let size = 124; over() && size > 50; size -= 4) slide.style.fontSize = `${size - 4}%`;
  }

  async function start() {
    if (stacked) document.querySelector("link[href$='reveal.css']").disabled = true;
    night.addEventListener("change", setTheme);
    await drawCharts();
    if (stacked) return;
    if (document.readyState !== "complete") await new Promise((loaded) => window.addEventListener("load", loaded));
    await document.fonts.ready;
    document.querySelectorAll(".slide").forEach(fit);
    root.classList.remove("measured");
    await Reveal.initialize({
      width: 1280,
      height: 720,
      margin: 0,
      center: false,
      hash: true,
      controlsLayout: "edges",
      slideNumber: "c/t",
      transition: "none",
      pdfMaxPagesPerSlide: 1,
      plugins: [RevealNotes],
    });
  }
  document.addEventListener("DOMContentLoaded", start);
})();
