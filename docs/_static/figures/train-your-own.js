// Lesson 10 and the home page: a model of your own. Its parts are large, so they come when the
// figure is near, or at once where the address holds a model.
(() => {
  const here = document.currentScript.src;
  const boxes = document.querySelectorAll('.figure[data-figure="train-your-own"]');
  const near = new IntersectionObserver((seen) => {
    if (seen.some(({ isIntersecting }) => isIntersecting)) come();
  }, { rootMargin: "0px" });

  function come() {
    near.disconnect();
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("letters.css", here) });
    const script = Object.assign(document.createElement("script"), { src: new URL("letters-figure.js", here) });
    script.onerror = () => boxes.forEach((box) => box.classList.remove("waits")); // the still picture serves
    style.onload = style.onerror = () => document.head.append(script);
    document.head.append(style);
  }

  for (const box of boxes) { // the still picture waits behind the place of the moving one
    box.classList.add("waits");
    near.observe(box);
  }
  if (location.hash.startsWith("#model")) come();
})();
