// The first script of each page. What this browser keeps is read and written here alone: nothing
// that stands there, and no browser that keeps nothing, stops a page.
window.courseKept = {
  works: true, // until the browser refuses
  key: (name) => `former_nb ${name}`,
  read(name) { // a text, or null
    try {
      return localStorage.getItem(this.key(name));
    } catch {
      this.works = false;
      return null;
    }
  },
  json(name, fits) { // what was written as JSON if it is of the kind that is asked for, or null
    try {
      const found = JSON.parse(this.read(name));
      return fits(found) ? found : null;
    } catch {
      return null;
    }
  },
  write(name, text) { // null forgets it
    try {
      if (text === null) localStorage.removeItem(this.key(name));
      else localStorage.setItem(this.key(name), text);
    } catch {
      this.works = false;
    }
  },
};
// Day or night, and whether the page comes from a disk, before anything is painted.
((root) => {
  const kept = courseKept.read("light"), night = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = ["light", "dark"].includes(kept) ? kept : night ? "dark" : "light";
  root.classList.toggle("from-disk", location.protocol === "file:");
})(document.documentElement);
