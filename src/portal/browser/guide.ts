/**
 * Searches the guide while the reader types, and shows code in the reader's language. Without this script, the form shows
 * the results on a page, and each tab is chosen on its own.
 */
import { createSearch, type Hit, type Section } from "../guide/search.ts";

const SHOWN = 8;

type Search = (query: string) => readonly Hit[];

let loading: Promise<Search> | undefined;

/** Fetches the index, once. */
async function load(): Promise<Search> {
  const answer = await fetch("/docs/guide/search.json");
  if (!answer.ok) {
    throw new Error(`the index answers ${answer.status}`);
  }
  return createSearch((await answer.json()) as readonly Section[]);
}

function itemOf({ address, page, heading, excerpt }: Hit): HTMLElement {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const text = document.createElement("p");
  const mark = document.createElement("mark");
  const [before, found, after] = excerpt;
  link.href = address;
  link.textContent = heading === page ? page : `${page}: ${heading}`;
  mark.textContent = found;
  text.append(before, mark, after);
  item.append(link, text);
  return item;
}

/** Shows results below the form. Arrow keys move between them, Escape closes them. */
function offerResults(form: HTMLFormElement, input: HTMLInputElement): void {
  const panel = document.createElement("div");
  const status = document.createElement("p");
  const list = document.createElement("ol");
  panel.className = "results";
  panel.hidden = true;
  status.setAttribute("role", "status");
  list.className = "hits";
  panel.append(status, list);
  form.append(panel);

  const show = async (): Promise<void> => {
    const query = input.value.trim();
    const search = await (loading ??= load());
    // The reader may have typed on meanwhile.
    if (query !== input.value.trim()) {
      return;
    }
    const hits = search(query);
    panel.hidden = query === "";
    status.textContent = hits.length === 0 ? "Nothing found" : `${hits.length} found`;
    list.replaceChildren(...hits.slice(0, SHOWN).map(itemOf));
  };
  const update = (): void => {
    show().catch(() => {
      // Enter still asks the service.
      loading = undefined;
      panel.hidden = true;
    });
  };
  const close = (): void => {
    panel.hidden = true;
  };
  input.addEventListener("input", update);
  form.addEventListener("keydown", (event) => {
    const stops = [input, ...list.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      close();
      input.focus();
    } else if (step !== undefined && !panel.hidden) {
      event.preventDefault();
      const at = stops.findIndex((stop) => stop === document.activeElement);
      stops[(at + step + stops.length) % stops.length]?.focus();
    }
  });
  form.addEventListener("focusout", ({ relatedTarget }) => {
    if (!(relatedTarget instanceof Node && form.contains(relatedTarget))) {
      close();
    }
  });
  // A result on the same page only scrolls.
  list.addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      event.preventDefault();
      input.focus();
    }
  });
}

/** Shows one language in all tabs that have it, and remembers it for other pages. */
function followLanguage(): void {
  const key = "signet-language";
  const choose = (language: string): void => {
    for (const choice of document.querySelectorAll<HTMLInputElement>(".tabs input")) {
      choice.checked ||= choice.value === language;
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLInputElement && target.matches(".tabs input")) {
      choose(target.value);
      localStorage.setItem(key, target.value);
    }
  });
  choose(localStorage.getItem(key) ?? "");
}

const contents = document.querySelector<HTMLDetailsElement>("details.contents");
if (contents && matchMedia("(min-width: 60rem)").matches) {
  // The style sheet also shows them, but assistive technology and older browsers go by the state.
  contents.open = true;
}
const form = document.querySelector<HTMLFormElement>("form[role=search]");
const input = form?.querySelector("input");
if (form && input) {
  offerResults(form, input);
}
followLanguage();
