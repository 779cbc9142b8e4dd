// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The search of the site: looks through search-index.js, in the reader's browser.
"use strict";
(() => {
  const root = document.documentElement.dataset.root;
  const [box, field, found, count, results] = ["search", "query", "found", "count", "results"].map((id) => document.getElementById(id));
  const most = 20; // results that are shown
  const ofOnePage = 3;

  // load reads the index, once, when somebody is about to search.
  let loading;
  const load = () => loading ??= new Promise((loaded, failed) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onerror = () => failed(new Error("the index of the search cannot be read"));
    script.onload = () => {
      const { pages, sections } = window.searchIndex;
      loaded(sections.map((s) => {
        const { title, url } = pages[s.page];
        return {
          page: s.page, title, heading: s.heading, text: s.text, url: root + url + (s.id && "#" + s.id),
          // A page's file is named for its subject, as secrets.html is: that counts as a part of its title.
          lower: { title: `${title} ${url.split("/").pop()}`.toLowerCase(), heading: s.heading.toLowerCase(), text: s.text.toLowerCase() },
        };
      }));
    };
    document.head.append(script);
  });

  const letter = /[\p{L}\p{N}]/u;
  // places are where words of a text begin with a word, at most five.
  const places = (text, word) => {
    const all = [];
    for (let at = text.indexOf(word); at >= 0 && all.length < 5; at = text.indexOf(word, at + 1)) {
      if (at === 0 || !letter.test(text[at - 1])) all.push(at);
    }
    return all;
  };
  // weigh is what one place with a word is worth: twice as much if the word is whole.
  const weigh = (text, word, worth) => {
    const all = places(text, word);
    if (all.length === 0) return 0;
    return all.some((at) => !letter.test(text[at + word.length] ?? " ")) ? 2 * worth : worth;
  };
  // score is 0 unless the section has each word.
  const score = (section, words) => {
    let sum = 0;
    for (const word of words) {
      const { title, heading, text } = section.lower;
      const one = weigh(title, word, section.heading ? 2 : 12) + weigh(heading, word, 7) + places(text, word).length;
      if (one === 0) return 0;
      sum += one;
    }
    return sum;
  };

  // find returns the best sections, a few of each page.
  const find = (sections, query) => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return { words, hits: [] };
    const ofPage = new Map();
    const hits = sections.map((section) => ({ section, score: score(section, words) }))
      .filter((hit) => hit.score > 0)
      .sort((a, b) => b.score - a.score)
      .filter(({ section: { page } }) => {
        ofPage.set(page, (ofPage.get(page) ?? 0) + 1);
        return ofPage.get(page) <= ofOnePage;
      });
    return { words, hits };
  };

  // marked is a text as nodes, with the words marked.
  const marked = (text, words) => {
    const lower = text.toLowerCase();
    const nodes = [];
    for (let at = 0; at < text.length;) {
      let next = text.length, length = 0;
      for (const word of words) {
        const place = places(lower.slice(at), word)[0];
        if (place !== undefined && at + place < next && (at + place === 0 || !letter.test(lower[at + place - 1]))) {
          next = at + place;
          length = word.length;
        }
      }
      nodes.push(text.slice(at, next));
      if (length === 0) break;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(next, next + length);
      nodes.push(mark);
      at = next + length;
    }
    return nodes;
  };
  // excerpt is the part of a section's text around the first word that is in it.
  const excerpt = ({ text, lower }, words) => {
    const at = words.map((word) => places(lower.text, word)[0]).find((place) => place !== undefined) ?? 0;
    let from = Math.max(0, at - 50);
    if (from > 0) from = text.indexOf(" ", from) + 1;
    return (from > 0 ? "…" : "") + text.slice(from, from + 180) + (from + 180 < text.length ? "…" : "");
  };

  const show = ({ words, hits }) => {
    found.hidden = words.length === 0;
    count.textContent = hits.length === 0 ? "Nothing has all of these words" : hits.length > most ? `The ${most} best results` : `Results: ${hits.length}`;
    results.replaceChildren(...hits.slice(0, most).map(({ section }) => {
      const name = document.createElement("strong");
      name.append(...marked(section.title + (section.heading && " › " + section.heading), words));
      const text = document.createElement("span");
      text.append(...marked(excerpt(section, words), words));
      const link = document.createElement("a");
      link.href = section.url;
      link.append(name, text);
      const item = document.createElement("li");
      item.append(link);
      return item;
    }));
  };
  const search = async () => {
    try {
      const sections = await load();
      show(find(sections, field.value)); // as it is now: more may have been typed meanwhile
    } catch (err) {
      loading = undefined;
      found.hidden = false;
      count.textContent = err.message;
    }
  };

  field.addEventListener("focus", () => load().catch(() => { loading = undefined; }));
  field.addEventListener("input", search);
  found.addEventListener("click", (event) => {
    if (event.target.closest("a")) found.hidden = true; // the result may be on this very page
  });
  document.addEventListener("click", (event) => {
    if (!box.contains(event.target)) found.hidden = true;
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      field.focus();
      field.select();
    }
  });
  box.addEventListener("keydown", (event) => {
    const links = [...results.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement); // -1 in the field
    switch (event.key) {
      case "ArrowDown": links[Math.min(at + 1, links.length - 1)]?.focus(); break;
      case "ArrowUp": (at > 0 ? links[at - 1] : field).focus(); break;
      case "Enter": if (at >= 0 || links.length === 0 || found.hidden) return; links[0].click(); break;
      case "Escape": found.hidden = true; field.focus(); break;
      default: return;
    }
    event.preventDefault();
  });

  // The list of pages has a scroll bar of its own where it is beside the text: show this page in it.
  const here = document.querySelector("nav [aria-current]");
  if (here) here.closest("nav").scrollTop = here.offsetTop - here.closest("nav").offsetTop - 150;

  box.hidden = false; // without scripts there is no search
})();
