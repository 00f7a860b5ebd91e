// The errata page's filter: words, a chapter, a document. The page is complete without it.
(() => {
  "use strict";

  const named = (element, prefix) =>
    [...element.classList].filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));

  function labelled(text, control) {
    const label = document.createElement("label");
    label.append(`${text} `, control);
    return label;
  }

  function choice(every, options) {
    const select = document.createElement("select");
    select.append(new Option(every, ""));
    for (const [value, text] of options) select.append(new Option(text, value));
    return select;
  }

  function build(place) {
    const entries = [...document.querySelectorAll(".cute-erratum")].map((element) => ({
      element,
      text: element.textContent.toLowerCase(),
      chapters: named(element, "cute-chapter-"),
      documents: named(element, "cute-document-"),
    }));
    const groups = [...document.querySelectorAll(".cute-errata")].map((element) => {
      const title = element.closest("section")?.querySelector("h2")?.cloneNode(true);
      title?.querySelector(".headerlink")?.remove();
      return { element: element.closest("section") ?? element, list: element, title: title?.textContent ?? "" };
    });
    const chapters = [...new Set(entries.flatMap((entry) => entry.chapters))].sort();
    const documents = groups.flatMap(({ list, title }) =>
      named(list, "cute-errata-of-").map((key) => [key, title]));

    const words = document.createElement("input");
    words.type = "search";
    const chapter = choice("all chapters", chapters.map((number) => [number, `chapter ${Number(number)}`]));
    const source = choice("all documents", documents);
    const shown = document.createElement("p");
    shown.setAttribute("role", "status");

    function filter() {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const entry of entries) {
        const match =
          wanted.every((word) => entry.text.includes(word)) &&
          (!chapter.value || entry.chapters.includes(chapter.value)) &&
          (!source.value || entry.documents.includes(source.value));
        entry.element.hidden = !match;
        count += match;
      }
      for (const { element, list } of groups) {
        element.hidden = !list.querySelector(".cute-erratum:not([hidden])");
      }
      shown.textContent = `${count} of ${entries.length} errata`;
    }

    // A link to an entry that the filter hides shows them all.
    function showTarget() {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target?.closest("[hidden]")) return;
      words.value = chapter.value = source.value = "";
      filter();
      target.scrollIntoView();
    }

    const form = document.createElement("form");
    form.setAttribute("role", "search");
    form.setAttribute("aria-label", "Errata");
    form.append(labelled("Words", words), labelled("Chapter", chapter), labelled("Document", source), shown);
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    window.addEventListener("hashchange", showTarget);
    place.append(form);
    filter();
  }

  document.querySelectorAll(".cute-errata-filter").forEach(build);
})();
