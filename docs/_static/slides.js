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
  // Measured until all slides have their size, and unseen until all is at its place.
  root.classList.add(...(stacked ? ["stacked"] : ["measured", "unseen"]));
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
            ast: true, // no code is made of its expressions, which the page forbids
            theme: root.dataset.theme === "dark" ? "dark" : undefined,
            config: { background: "transparent" },
          })
        )
      );
    night.addEventListener("change", draw);
    await draw();
  }

  // Words beside what is shown, or above and below it: where the type can be larger. It grows
  // until the screen is full.
  function fit(slide) {
    const stage = slide.querySelector(":scope > .stage");
    const words = slide.querySelector(":scope > :is(.lead, .after)");
    const code = [...slide.querySelectorAll(".highlight")];
    const columns = Math.max(0, ...code.map((e) => e.style.getPropertyValue("--columns")));
    code.forEach((e) => e.style.setProperty("--columns", columns)); // code and output in one size
    const boxes = [slide, ...slide.querySelectorAll(":scope > *, .stage > *, .picture > *")];
    const over = () =>
      slide.scrollHeight > slide.clientHeight + 1 ||
      boxes.some((e) => e.scrollWidth > e.clientWidth + 1) ||
      (stage && stage.scrollHeight > stage.clientHeight + 1);
    const largest = () => {
      let [low, high] = [48, slide.matches(".title") ? 124 : code.length ? 150 : 176];
      while (high - low > 3) {
        const size = (low + high) / 2;
        slide.style.fontSize = `${size}%`;
        if (over()) high = size;
        else low = size;
      }
      slide.style.fontSize = `${low}%`;
      return low;
    };
    const above = largest();
    if (!stage || !words || columns > 48) return;
    slide.classList.add("beside");
    if (largest() >= above * (slide.querySelector(".picture") ? 0.8 : 1)) return;
    slide.classList.remove("beside");
    slide.style.fontSize = `${above}%`;
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
      pdfSeparateFragments: false,
      plugins: [RevealNotes],
    });
    root.classList.remove("unseen");
  }
  document.addEventListener("DOMContentLoaded", start);
})();
