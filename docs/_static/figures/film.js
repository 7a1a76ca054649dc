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

  let time = calm ? scenes[0].whole : 0, playing = false, touched = calm, whole = calm, last = 0;

  function go(t) {
    time = Math.min(total, Math.max(0, t));
    show(time);
  }

  function play(on) {
    playing = on;
    button.textContent = on ? "Stop" : time >= total ? "Play again" : "Play";
    last = 0;
    if (on) requestAnimationFrame(tick);
  }

  function tick(now) {
    if (!playing) return;
    go(time + Math.min(0.1, last ? (now - last) / 1000 : 0)); // a page in the background stands still
    last = now;
    if (time >= total) play(false);
    else requestAnimationFrame(tick);
  }

  function press() {
    touched = true;
    if (!playing && time >= total) go(0);
    else if (!playing && whole) go(scenes[sceneAt(time)].from); // the scene whose picture was shown
    whole = false;
    play(!playing);
  }

  function step(by) { // to the picture of another scene
    touched = whole = true;
    play(false);
    const { from, whole: at } = scenes[Math.min(scenes.length - 1, Math.max(0, sceneAt(time) + by))];
    go(from + at);
    play(false); // the button says what it does from here
  }

  const back = make("button", { type: "button", "aria-label": "Previous scene", onclick: () => step(-1) }, "‹");
  const button = make("button", { type: "button", class: "film-play", onclick: press }, "Play");
  const on = make("button", { type: "button", "aria-label": "Next scene", onclick: () => step(1) }, "›");
  const slider = make("input", { type: "range", min: 0, max: total, step: 0.05, "aria-label": "Time of the film", oninput: () => {
    touched = true;
    whole = false;
    const t = Number(slider.value);
    play(false);
    go(t);
    play(false);
  } });
  const marks = scenes.map(({ from }, n) => make("span", { style: `--at:${(from / total).toFixed(4)}` }, String(n + 1)));
  const end = make("a", { class: "film-end", href: "#your-own-model-in-a-link" }, "Train your own");
  figure.controls.append(back, button, on, make("div", { class: "film-time" }, slider, make("div", { "aria-hidden": "true" }, ...marks)), end);
  box.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    step(by);
  });

  // It begins once the drawing and its sentence are in view, and waits while they aren't, until the
  // reader has touched it.
  if (!touched) {
    const seen = new Set(), eye = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) isIntersecting ? seen.add(target) : seen.delete(target);
      if (touched || time >= total) eye.disconnect();
      else if ((seen.size === 2) !== playing) play(!playing);
    }, { threshold: 0.8 });
    eye.observe(svg);
    eye.observe(figure.status);
  }
  new ResizeObserver(() => {
    build();
    show(time);
  }).observe(svg);
  svg.setAttribute("role", "img");
  box.film = { total, scenes, show: (t) => { touched = true; go(t); play(false); } }; // for tools/film.py
  build();
  return () => show(time);
});
