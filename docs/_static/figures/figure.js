// What the moving figures share: a box with a riddle, controls, a drawing, and a sentence that
// says what is shown. A figure plays once, and what it draws can be dragged. A figure calls courseFigure(name, about, build); build returns its `draw`.
// What controls say is in the address (address.js), under the slug of the label or a shorter key.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const THUMB = 26; // half of what a thumb needs, 44 pixels on a phone, in the units of a drawing

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const make = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);

  const slug = (label) => label.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

  class Figure {
    constructor(box, about) {
      this.box = box;
      this.about = about;
      this.draw = () => {};
      this.grips = []; // in front of all else
      this.kept = []; // what goes into the address: { key, first, get, set }
      this.riddle = make("i", { class: "figure-riddle" }, about.riddle);
      this.svg = document.createElementNS(SVG, "svg");
      fill(this.svg, { viewBox: `0 0 404 ${about.height}`, role: "group", "aria-label": about.title }, []);
      this.controls = make("div", { class: "figure-controls" });
      this.status = make("p", { class: "figure-says", role: "status" });
      this.side = make("div", { class: "figure-side" }, this.controls, this.status);
      box.classList.add("moves");
      box.prepend(
        make("p", { class: "figure-head" }, make("b", {}, about.title), " ", this.riddle),
        make("div", { class: "figure-body" }, this.svg, this.side));
    }

    make = make; // an element of the page, for what a figure adds below its body

    // ---------------------------------------------------------- the drawing

    add(tag, attributes = {}, text = "", parent = this.svg) { // an element of the drawing
      const element = fill(document.createElementNS(SVG, tag), attributes, text === "" ? [] : [text]);
      parent.append(element);
      return element;
    }

    text(x, y, words, kind = "", parent = this.svg) {
      return this.add("text", { x, y, class: kind }, words, parent);
    }

    arrow(kind) { // a head for lines of this colour: marker-end="url(#…)"
      const id = `${this.box.dataset.figure}-${kind}`;
      const marker = this.add("marker", { id, viewBox: "0 0 10 10", refX: 8, refY: 5,
        markerWidth: 4.2, markerHeight: 4.2, orient: "auto-start-reverse" });
      this.add("path", { d: "M0 0L10 5L0 10z", class: kind }, "", marker);
      return `url(#${id})`;
    }

    where(event) { // in the units of the drawing
      return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    }

    handle(label, keys, drag) { // a point to drag; keys(dx, dy) for arrows, drag(x, y) for the mouse
      const point = this.add("g", { class: "handle", role: "slider", tabindex: 0, "aria-label": label });
      this.add("circle", { r: THUMB, class: "reach" }, "", point);
      const at = (event) => {
        const { x, y } = this.where(event);
        drag(x, y);
        this.draw();
      };
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      fill(point, { // a finger here drags, and elsewhere it scrolls the page: touch-action needs a box
        ontouchstart: (event) => event.preventDefault(),
        onpointerdown: (event) => { point.setPointerCapture(event.pointerId); point.focus(); },
        onpointermove: (event) => { if (point.hasPointerCapture(event.pointerId)) at(event); },
        onkeydown: (event) => {
          if (!steps[event.key]) return;
          event.preventDefault();
          keys(...steps[event.key]);
          this.draw();
        },
      }, []);
      return point;
    }

    nearest(places, x) { // which of them is nearest to x
      const far = places.map((place) => Math.abs(place - x));
      return far.indexOf(Math.min(...far));
    }

    // A part of the drawing where a tap or a drag moves a slider: to(x, y) is its value there. It has
    // a grip, which the figure places with grip.at(x, y). A finger drags the grip anywhere and the
    // area to the side (unless `upright`), since elsewhere up and down scrolls the page. Arrow keys
    // then go on, because the slider has the focus.
    scrub(slider, [x, y, width, height], to, upright = false) {
      const area = this.add("rect", { x, y, width, height, class: "scrub", fill: "none", "pointer-events": "all" });
      const grip = this.add("g", { class: "grip" });
      const hold = this.add("circle", { r: THUMB, fill: "none", "pointer-events": "all" }, "", grip);
      this.add("circle", { r: 15, class: "reach" }, "", grip);
      this.add("circle", { r: 6, class: "a" }, "", grip);
      this.grips.push(grip);
      grip.at = (to_x, to_y) => {
        grip.setAttribute("transform", `translate(${to_x.toFixed(1)} ${to_y.toFixed(1)})`);
        hold.setAttribute("cx", (Math.min(404 - THUMB, Math.max(THUMB, to_x)) - to_x).toFixed(1)); // not beyond the page
      };
      let from = null, drags = false;
      const follow = (event) => {
        const p = this.where(event);
        slider.value = to(p.x, p.y);
        this.draw();
      };
      for (const part of [area, grip]) {
        fill(part, {
          onmousedown: (event) => event.preventDefault(), // or the slider loses the focus again
          ontouchstart: (event) => { if (part === grip) event.preventDefault(); },
          ontouchmove: (event) => { if (drags) event.preventDefault(); },
          onpointerdown: (event) => {
            part.setPointerCapture(event.pointerId);
            slider.input.focus({ preventScroll: true });
            from = event;
            drags = part === grip || event.pointerType === "mouse";
            if (part === area && drags) follow(event);
          },
          onpointermove: (event) => {
            if (!from) return;
            drags ||= !upright && Math.abs(event.clientX - from.clientX) > Math.abs(event.clientY - from.clientY);
            if (drags) follow(event);
          },
          onpointerup: (event) => {
            if (from && !drags) follow(event);
            from = null;
          },
          onpointercancel: () => { from = null; },
        }, []);
      }
      for (const kind of ["focus", "blur"])
        slider.input.addEventListener(kind, () => grip.classList.toggle("on", kind === "focus"));
      return grip;
    }

    // ---------------------------------------------------------- time

    // Time from 0 to so many seconds, which runs while `eyes` are in view until `hand`, a part of the
    // figure, is touched, and again at a button: show(t) draws, and turn(on) hears that it starts or stops.
    clock(seconds, show, turn, hand = this.box, eyes = [this.svg], enough = 0.6) {
      let frame = 0, last;
      const clock = { time: 0, on: false };
      const next = (now) => {
        clock.go(clock.time + Math.min(100, now - (last ?? now)) / 1000); // in the background it stands still
        last = now;
        if (clock.time >= seconds) clock.play(false);
        else frame = requestAnimationFrame(next);
      };
      clock.go = (t) => show(clock.time = Math.min(seconds, Math.max(0, t)));
      clock.play = (on) => {
        if (on === clock.on) return;
        clock.on = on;
        if (on && clock.time >= seconds) clock.time = 0;
        last = undefined;
        this.player.textContent = on ? "Stop" : "Play";
        turn(on);
        if (on) frame = requestAnimationFrame(next);
        else cancelAnimationFrame(frame);
      };

      const press = () => {
        this.touched = true;
        clock.play(!clock.on);
      };
      this.player = make("button", { type: "button", class: "figure-play", onclick: press }, "Play");
      const touch = (event) => {
        if (this.player.contains(event.target) && [undefined, " ", "Enter"].includes(event.key)) return; // it does it
        if (!hand.contains(event.target)) return;
        this.touched = true;
        clock.play(false);
      };
      this.box.addEventListener("pointerdown", touch, true);
      this.box.addEventListener("keydown", touch, true);
      if (matchMedia("(prefers-reduced-motion: reduce)").matches) return clock;
      const seen = new Set(), watcher = new IntersectionObserver((entries) => {
        for (const { target, isIntersecting } of entries) seen[isIntersecting ? "add" : "delete"](target);
        if (this.touched || clock.time >= seconds) watcher.disconnect();
        else clock.play(seen.size === eyes.length);
      }, { threshold: enough });
      eyes.forEach((part) => watcher.observe(part));
      return clock;
    }

    // Play once, and again at a button: at(t) sets controls for t from 0 to 1, between their steps, too.
    // A step that it returns is drawn once. Afterwards all is as before.
    plays(seconds, at) {
      const sliders = this.controls.querySelectorAll("input[type=range]"), steps = [...sliders].map(({ step }) => step);
      const live = () => this.side.querySelectorAll("output, [role=status]");
      let before, last;
      const clock = this.clock(1.15 * seconds, (t) => { // the end is seen for a while
        const step = at(Math.min(1, t / seconds));
        if (step === undefined || step !== last) this.redraw();
        last = step;
      }, (on) => {
        this.playing = on;
        this.box.classList.toggle("plays", on);
        sliders.forEach((slider, i) => { slider.step = on ? "any" : steps[i]; });
        live().forEach((part) => (on ? part.setAttribute("aria-live", "off") : part.removeAttribute("aria-live")));
        this.status.style.height = on ? `${this.status.offsetHeight}px` : ""; // nothing below it moves
        if (on) before = new Map(this.kept.map(({ key, get }) => [key, get()]));
        else this.take(before);
        if (this.touched) clock.time = 0;
        last = undefined;
      });
      this.stop = () => clock.play(false);
    }

    // ---------------------------------------------------------- the address

    // Keep a state in the address: get() gives it as text, and set(text) says whether it took it.
    keep(key, get, set) {
      this.kept.push({ key, get, set, first: get() });
    }

    state() { // what is not as it began
      return this.kept.filter(({ get, first }) => get() !== first).map(({ key, get }) => [key, get()]);
    }

    // Take a state, and say whether all of it fits. What it doesn't name is as it began. After each
    // part it is drawn, since the limits of one control may hang on another.
    take(state) {
      for (const { first, set } of this.kept) set(first);
      this.redraw();
      let fits = [...state.keys()].every((key) => this.kept.some((one) => one.key === key));
      for (const { key, set } of this.kept) {
        if (!state.has(key)) continue;
        fits = set(state.get(key)) && fits;
        this.redraw();
      }
      return fits;
    }

    follow(name) {
      this.copier = courseAddress.copier(() => courseAddress.link(name, this.state()));
      if (this.player) this.copier.line.prepend(this.player);
      this.side.append(this.copier.line);
      courseAddress.follow(name, this.box, (state, first) => {
        this.touched = true;
        this.stop?.();
        const same = new URLSearchParams(this.state()).toString() === new URLSearchParams([...state]).toString();
        if (same) return first;
        this.copier.say(this.take(state) ? "" : "A part of this link doesn't fit the figure, and was left out.");
        return true;
      });
      this.draw = () => {
        this.redraw();
        courseAddress.write(name, () => this.state());
      };
    }

    // ---------------------------------------------------------- controls

    slider(label, { min, max, step, value, show = String, key = slug(label) }) {
      const output = make("output");
      const input = make("input", { type: "range", min, max, step, value });
      const say = () => {
        output.textContent = show(Number(input.value));
        input.setAttribute("aria-valuetext", output.textContent);
      };
      input.addEventListener("input", () => { say(); this.draw(); });
      this.controls.append(make("label", { class: "figure-slider" }, make("span", {}, label, " ", output), input));
      say();
      this.keep(key, () => input.value, (text) => {
        const number = text.trim() ? Number(text) : NaN;
        input.value = Number.isFinite(number) ? number : value; // the browser puts it between its limits
        say();
        return Number(input.value) === number;
      });
      return {
        input,
        get value() { return Number(input.value); },
        set value(to) { input.value = to; say(); },
      };
    }

    field(label, value, key = slug(label)) { // a line of text
      const input = make("input", { type: "text", value, maxlength: 24, spellcheck: "false", autocapitalize: "none",
        oninput: () => this.draw() });
      this.controls.append(make("label", { class: "figure-field" }, make("span", {}, label), input));
      this.keep(key, () => input.value, (text) => {
        input.value = text.slice(0, input.maxLength);
        return input.value === text;
      });
      return input;
    }

    toggle(label, pressed = false, key = slug(label)) {
      const button = make("button", { type: "button", "aria-pressed": pressed, onclick: () => {
        button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
        this.draw();
      } }, label);
      this.controls.append(button);
      this.keep(key, () => (button.getAttribute("aria-pressed") === "true" ? "on" : "off"), (text) => {
        if (text !== "on" && text !== "off") return false;
        button.setAttribute("aria-pressed", text === "on");
        return true;
      });
      return {
        button,
        get on() { return button.getAttribute("aria-pressed") === "true"; },
        set on(to) { button.setAttribute("aria-pressed", to); },
      };
    }

    press(label, act) {
      const button = make("button", { type: "button", onclick: () => { act(); this.draw(); } }, label);
      this.controls.append(button);
      return button;
    }

    choice(label, names, chosen = 0, key = slug(label)) { // one of a few
      const group = make("fieldset", { class: "figure-choice" }, make("legend", {}, label));
      const name = `${this.box.dataset.figure}-${label}`;
      const inputs = names.map((text, i) => {
        const input = make("input", { type: "radio", name, value: i, onchange: () => this.draw() });
        input.checked = i === chosen;
        group.append(make("label", {}, input, make("span", {}, text)));
        return input;
      });
      this.controls.append(group);
      this.keep(key, () => names[inputs.findIndex((input) => input.checked)], (text) => {
        const to = names.indexOf(text);
        if (to >= 0) inputs[to].checked = true;
        return to >= 0;
      });
      return {
        inputs,
        get value() { return inputs.findIndex((input) => input.checked); },
        set value(to) { inputs[to].checked = true; },
      };
    }

    // ---------------------------------------------------------- what is said

    say(sentence, found = false, insight = "") { // time finds nothing, only a hand does
      const solved = found && !this.playing;
      this.box.classList.toggle("solved", solved);
      const text = solved ? `✓ Found. ${sentence} ${insight}`.trim() : sentence;
      if (this.status.textContent !== text) this.status.textContent = text; // or it's read out again
    }
  }

  function softmax(scores) {
    const most = Math.max(...scores), powers = scores.map((s) => Math.exp(s - most));
    const total = powers.reduce((a, b) => a + b);
    return powers.map((p) => p / total);
  }

  window.courseFigure = (name, about, build) => {
    for (const box of document.querySelectorAll(`.figure[data-figure="${name}"]`)) {
      const figure = new Figure(box, about);
      figure.draw = figure.redraw = build(figure, window.figureData?.[name], softmax);
      figure.svg.append(...figure.grips);
      figure.draw();
      if (!about.ownLink) figure.follow(name);
    }
  };
})();
