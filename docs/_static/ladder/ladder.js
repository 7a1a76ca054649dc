// The ladder: with the first step that is opened comes the code of all steps.
(() => {
  const here = document.currentScript.src;
  let asked = false;

  function fill() {
    for (const step of document.querySelectorAll(".ladder details[open]"))
      step.querySelector(".ladder-code").innerHTML = window.ladderCode[step.dataset.rung];
  }
  document.addEventListener("toggle", ({ target }) => {
    if (!target.matches?.(".ladder details[open]")) return;
    if (window.ladderCode) return fill();
    if (asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = new URL("code.js", here);
    script.onload = fill;
    script.onerror = () => { asked = false; script.remove(); }; // the next step asks again
    document.head.append(script);
  }, true); // toggle doesn't bubble
})();
