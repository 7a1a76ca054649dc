// The search page: looks through courseWords (search_words.js), best pages first, with excerpts.
(() => {
  const FIRST = 20; // results shown at once
  const KINDS = [
    [/^solutions\//, "Solutions", 0.4],
    [/^library\//, "Library", 0.7],
    [/^api\//, "Reference", 0.65],
    [/^deeper\//, "Deep dive", 0.85],
    [/^glossary$/, "Glossary", 1.5],
    [/^\d\d_/, "Lesson", 1.2],
    [/^/, "", 0.9],
  ];
  const EMPTY = /^(an?|and|are|as|at|by|can|do|does|for|from|how|i|in|is|it|of|on|or|that|the|to|what|when|why|with|works?)$/;
  const WORD = /[\p{L}\p{N}_]+/gu;

  // Small letters without accents. Each letter stays one letter, so that places stay the same.
  const fold = (text) => text.replace(/[\u00c0-\u024f]/g, (c) => c.normalize("NFD")[0]).toLowerCase();

  // What each word of a query looks for: words that begin as its stem does.
  function readQuery(query) {
    const words = [...new Set(fold(query.normalize("NFC")).match(WORD) ?? [])];
    const told = words.filter((word) => !EMPTY.test(word));
    return (told.length ? told : words).map((word) => {
      const stem = /[_\d]/.test(word) ? word : word.replace(/^(.{4,}?)(ies|ing|ed|es|s|e|y)$/, "$1");
      const rest = word.length > 1 ? "[\\p{L}\\p{N}_]*" : "(?![\\p{L}\\p{N}_])";
      const start = word.length > 1 ? "(?<![\\p{L}\\p{N}])" : "(?<![\\p{L}\\p{N}_])";
      const define = new RegExp(`(?:class|def) ${word}\\b`);
      return { word, find: new RegExp(start + stem + rest, "gu"), define };
    });
  }

  const pages = courseWords.map(([page, title, sections]) => {
    const [, kind, weight] = KINDS.find(([name]) => name.test(page));
    sections = sections.map(([id, heading, prose, code, names = ""]) => ({
      ...{ id, heading, prose, code, names }, // names: the glossary's, of the terms that it explains
      ...{ inHeading: fold(heading), inProse: fold(prose), inCode: fold(code), inNames: fold(names) },
    }));
    return { page, title, kind, weight, sections };
  });

  const times = (text, find) => text.match(find)?.length ?? 0;

  // How well a section answers, and which words of the query it has.
  function scoreSection(section, terms, phrase) {
    const has = new Set();
    let score = 0;
    for (const term of terms) {
      const heading = [...(section.inHeading.match(term.find) ?? [])];
      const prose = section.inProse.match(term.find) ?? [];
      const code = times(section.inCode, term.find);
      heading.push(...(section.inNames.match(term.find) ?? []));
      if (!heading.length && !prose.length && !code) continue;
      has.add(term.word);
      const exact = [...heading, ...prose].includes(term.word) ? 1 : 0.6;
      score += exact * (Math.log2(1 + prose.length) + 5 * !!heading.length) + Math.log2(1 + code) / 2;
      score += 6 * term.define.test(section.inCode);
    }
    const names = [section.inHeading.replace(/^\d\d · /, ""), ...section.inNames.split("; ")];
    if (names.includes(phrase)) score += 15;
    if (terms.length > 1 && section.inProse.includes(phrase)) score += 8;
    if (section.inHeading === "references") score *= 0.2; // where a title is quoted, nothing is told
    return { section, has, score: (score * has.size) / terms.length };
  }

  // Whether one letter more, less or another, or two exchanged, makes one word of the other.
  function isNear(a, b) {
    if (Math.abs(a.length - b.length) > 1 || a === b) return false;
    let i = 0, j = 0; // letters that agree at the beginning and at the end
    while (i < a.length && a[i] === b[i]) i++;
    while (j < Math.min(a.length, b.length) - i && a.at(-1 - j) === b.at(-1 - j)) j++;
    const [x, y] = [a.slice(i, a.length - j), b.slice(i, b.length - j)];
    return Math.max(x.length, y.length) === 1 || (x.length === 2 && x[0] === y[1] && x[1] === y[0]);
  }

  let counts; // how often the course has each word
  function nearest(word) {
    if (word.length < 4) return undefined;
    if (!counts) {
      counts = new Map();
      for (const { inHeading, inProse, inCode, inNames } of pages.flatMap((page) => page.sections))
        for (const [one] of `${inHeading} ${inProse} ${inCode} ${inNames}`.matchAll(WORD))
          counts.set(one, (counts.get(one) ?? 0) + 1);
    }
    const near = [...counts].filter(([one]) => isNear(word, one));
    return near.sort((a, b) => b[1] - a[1])[0]?.[0];
  }

  // What a query asks for if its words that are nowhere are misspelt by one letter.
  function mended(query, found) {
    let text = fold(query.normalize("NFC"));
    for (const { word } of readQuery(query)) {
      if (!found.some((page) => page.has.has(word))) text = text.replace(word, nearest(word) ?? word);
    }
    return text === fold(query.normalize("NFC")) ? "" : text;
  }

  // The page that a query is another name for (search_aliases.toml), as it is or in the singular.
  function called(query) {
    const name = (fold(query.normalize("NFC")).match(WORD) ?? []).join(" ");
    const [page, id] = window.courseAliases?.[name] ?? window.courseAliases?.[name.replace(/s$/, "")] ?? [];
    const found = pages.find((one) => one.page === page);
    if (!found) return [];
    const section = found.sections.find((one) => one.id === id) ?? found.sections[0];
    return [{ ...found, section: id ? section : found.sections[0], has: new Set(), score: Infinity }];
  }

  // Pages with all words, or those with most of them if there is none; a page's best section leads.
  function search(query) {
    const terms = readQuery(query), phrase = fold(query.trim());
    if (!terms.length) return { terms, hits: [], all: true };
    const found = pages.map(({ sections, ...page }) => {
      const scored = sections.map((section) => scoreSection(section, terms, phrase));
      const best = scored.reduce((a, b) => (b.score > a.score ? b : a));
      const has = new Set(scored.flatMap((one) => [...one.has]));
      const title = terms.filter(({ find }) => times(fold(page.title), find)).length;
      const score = page.weight * (best.score + (best.section === sections[0] ? 0 : 5 * title));
      return { ...page, has, section: best.section, score };
    });
    const most = Math.max(...found.map((page) => page.has.size)), first = called(query);
    if (most < terms.length && !first.length) {
      const instead = mended(query, found);
      if (instead) return { ...search(instead), instead };
    }
    const hits = most ? found.filter((page) => page.has.size === most).sort((a, b) => b.score - a.score) : [];
    const all = most === terms.length;
    if (!first.length) return { terms, hits, all };
    return { terms, hits: [...first, ...(all ? hits.filter(({ page }) => page !== first[0].page) : [])], all: true };
  }

  // ---- what is shown

  const make = (tag, inside, more) => {
    const element = Object.assign(document.createElement(tag), more);
    element.append(...inside);
    return element;
  };

  // A text with the words of the query marked.
  function marked(text, terms) {
    const folded = fold(text), found = terms.flatMap(({ find }) => [...folded.matchAll(find)]);
    const parts = [];
    let at = 0;
    for (const { index, 0: word } of found.sort((a, b) => a.index - b.index)) {
      if (index < at) continue;
      parts.push(text.slice(at, index), make("mark", [text.slice(index, index + word.length)]));
      at = index + word.length;
    }
    return [...parts, text.slice(at)];
  }

  // The stretch of prose with most of the words, whole words only.
  function excerpt({ prose, inProse }, terms, width = 240) {
    const places = terms.flatMap(({ find }, i) => [...inProse.matchAll(find)].map((m) => [m.index, i]));
    places.sort((a, b) => a[0] - b[0]);
    let best = [0, 0];
    for (const [from] of places) {
      const near = places.filter(([at]) => at >= from && at < from + width - 60);
      const many = new Set(near.map(([, i]) => i)).size;
      if (many > best[0]) best = [many, from];
    }
    const start = best[1] < 60 ? 0 : prose.indexOf(" ", best[1] - 60) + 1;
    const stop = prose.length > start + width ? prose.lastIndexOf(" ", start + width) : prose.length;
    return (start ? "… " : "") + prose.slice(start, stop) + (stop < prose.length ? " …" : "");
  }

  // Where only code has the words: the line that defines one, or the first that has one.
  function lineOfCode({ code, inCode }, terms) {
    const lines = code.split("\n"), folded = inCode.split("\n");
    const at = (test) => lines.findIndex((_, i) => terms.some((term) => test(folded[i], term)));
    const i = [at((line, term) => term.define.test(line)), at((line, { find }) => times(line, find))];
    return code.includes("(") ? lines[i.find((n) => n >= 0)]?.trim() : ""; // else names alone
  }

  function item({ page, title, kind, section }, terms) {
    const link = make("a", [title], { href: `${page}.html${section.id ? `#${section.id}` : ""}` });
    if (section.heading && !title.endsWith(section.heading)) link.append(` › ${section.heading}`);
    const said = make("p", marked(excerpt(section, terms), terms));
    const told = section.inHeading + section.inProse, called = told + section.inNames;
    const line = terms.some(({ find }) => times(called, find)) ? "" : lineOfCode(section, terms);
    if (line) said.replaceChildren(make("code", marked(line, terms)));
    const unseen = terms.some(({ find }) => times(section.inNames, find) && !times(told, find));
    return make("li", [link, make("small", [unseen ? `${kind} · ${section.names}` : kind]), said]);
  }

  const input = document.querySelector(".course-search input");
  const count = document.getElementById("search-count");
  const list = document.getElementById("search-results");
  const more = document.getElementById("search-more");

  function show(query, limit = FIRST) {
    const { terms, hits, all, instead } = search(query);
    const pages = hits.length === 1 ? "1 page" : `${hits.length} pages`;
    if (!terms.length) count.textContent = "";
    else if (!hits.length) count.textContent = `Nothing here has “${query.trim()}”. Try another word.`;
    else if (all) count.textContent = `${pages} found`;
    else count.textContent = `No page has all of these words; ${pages} with most of them:`;
    if (instead && hits.length) count.textContent = `Read as “${instead}”: ${count.textContent}`;
    list.replaceChildren(...hits.slice(0, limit).map((hit) => item(hit, terms)));
    more.hidden = hits.length <= limit;
    more.textContent = `Show all ${hits.length}`;
    more.onclick = () => show(query, Infinity);
    attempt(() => history.replaceState(null, "", `?q=${encodeURIComponent(query)}`));
  }

  // The address knows what was looked for, where a browser allows it.
  function attempt(step) {
    try { step(); } catch { /* pages from a folder may not */ }
  }

  let waiting;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => show(input.value), 100);
  });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(input.value);
  });
  // Arrows walk from the field through the results.
  document.querySelector(".course-search").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const stops = [input, ...list.querySelectorAll("a")];
    const next = stops[stops.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });

  input.value = new URLSearchParams(location.search).get("q") ?? "";
  if (input.value) show(input.value);
  input.focus();
})();
