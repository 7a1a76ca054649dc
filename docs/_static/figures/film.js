// The film of the home page: it plays once when it comes into view, and then belongs to the reader,
// who stops it, moves it or steps through its scenes. Its drawings are in film-scenes.js.
courseFigure("film", {
  title: "A Transformer in forty seconds.",
  riddle: "What does it look at before it writes?",
  height: 300,
  ownLink: true, // it has no state that a link could hold
}, (figure, data, softmax) => {
  const { make, svg, box } = figure, WIDE = 600, FADE = 0.4;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches; // then it is six pictures
  const { drawings, scenes } = window.filmDrawings(figure, data, softmax);
  let total = 0;
  for (const scene of scenes) {
    scene.from = total;
    total += scene.seconds;
  }
  for (const drawing of drawings) {
    drawing.from = scenes[drawing.scenes[0]].from;
    drawing.to = drawing.from + drawing.scenes.reduce((sum, n) => sum + scenes[n].seconds, 0);
  }
  const sceneAt = (t) => scenes.findLastIndex(({ from }) => from <= t + 1e-6);

  // ---------------------------------------------------------- the drawing

  function build() { // at the width that the page gives it: a unit of the drawing is a pixel
    const width = Math.round(svg.getBoundingClientRect().width) || 360;
    if (svg.viewBox.baseVal.width === width && drawings[0].at) return;
    const wide = width >= WIDE;
    svg.setAttribute("viewBox", `0 0 ${width} ${wide ? 272 : 300}`);
    svg.replaceChildren();
    for (const drawing of drawings) {
      drawing.group = figure.add("g");
      drawing.at = drawing.draw({ width, wide, parent: drawing.group });
    }
  }

  let scene = -1;
  function show(t) {
    for (const { group, at, from, to } of drawings) {
      const seen = t >= from && (t < to || to === total);
      const fade = Math.min(from ? (t - from) / FADE : 1, to === total ? 1 : (to - t) / FADE, 1);
      group.setAttribute("visibility", seen ? "visible" : "hidden");
      group.setAttribute("display", seen ? "inline" : "none");
      if (!seen) continue;
      group.setAttribute("opacity", Math.max(0, fade).toFixed(3));
      at(t - from);
    }
    slider.value = t;
    box.classList.toggle("ended", t >= total - 0.05);
    const n = sceneAt(t);
    if (n === scene) return;
    scene = n;
    slider.setAttribute("aria-valuetext", `scene ${n + 1} of ${scenes.length}`);
    marks.forEach((mark, i) => mark.classList.toggle("on", i === n));
    figure.say(scenes[n].says);
  }

  // ---------------------------------------------------------- the hand

  let whole = calm; // whether a step has led to a scene's picture
  const clock = figure.clock(total, show, (on) => {
    if (on && whole) clock.time = scenes[sceneAt(clock.time)].from;
    if (on) whole = false;
    label();
  }, figure.controls, [svg, figure.status], 0.8);
  if (calm) clock.time = scenes[0].whole;

  const label = () => { figure.player.textContent = clock.on ? "Stop" : clock.time < total ? "Play" : "Play again"; };

  function seek(t) {
    figure.touched = true;
    clock.play(false);
    clock.go(t);
    label();
  }

  function step(by) { // to the picture of another scene
    const { from, whole: at } = scenes[Math.min(scenes.length - 1, Math.max(0, sceneAt(clock.time) + by))];
    whole = true;
    seek(from + at);
  }

  const back = make("button", { type: "button", "aria-label": "Previous scene", onclick: () => step(-1) }, "‹");
  const on = make("button", { type: "button", "aria-label": "Next scene", onclick: () => step(1) }, "›");
  const slider = make("input", { type: "range", min: 0, max: total, step: 0.05, "aria-label": "Time of the film", oninput: () => {
    whole = false;
    seek(Number(slider.value));
  } });
  const marks = scenes.map(({ from }, n) => make("span", { style: `--at:${(from / total).toFixed(4)}` }, String(n + 1)));
  const end = make("a", { class: "film-end", href: "#your-own-model-in-a-link" }, "Train your own");
  figure.controls.append(back, figure.player, on, make("div", { class: "film-time" }, slider, make("div", { "aria-hidden": "true" }, ...marks)), end);
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step(by);
  });

  new ResizeObserver(() => {
    build();
    show(clock.time);
  }).observe(svg);
  svg.setAttribute("role", "img");
  box.film = { total, scenes, show: seek }; // for tools/film.py
  build();
  return () => show(clock.time);
});
