/** Renders the documents of docs/ as pages of /docs/guide, with the index of the search: in the build, or in a clone. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { posix } from "node:path";
import type * as Marked from "marked";
import type { Section } from "./search.ts";
import { codeTabs } from "./tabs.ts";

/** A heading of the second level. */
interface Heading {
  readonly id: string;
  readonly text: string;
}

export interface GuidePage {
  /** Path below /docs/guide; empty for the first page. */
  readonly path: string;
  readonly title: string;
  readonly html: string;
  readonly headings: readonly Heading[];
}

/** Everything that /docs/guide serves. */
export interface Guide {
  /** The navigation: paths of pages by topic. */
  readonly topics: readonly { readonly title: string; readonly pages: readonly string[] }[];
  readonly pages: readonly GuidePage[];
  readonly sections: readonly Section[];
  /** Pictures, as paths below docs/. */
  readonly files: readonly string[];
}

export const GUIDE_PATH = "/docs/guide";
/** Lists the documents by topic, in reading order. */
const CONTENTS = "README.md";
const TOPIC = /^\d+\. ([^:[\]]+): (.+)$/gm;
const LINK_TARGET = /\]\(([^)#\s]+)\)/g;
/** Documents that the service itself serves elsewhere. */
const SERVED: Readonly<Record<string, string>> = { "openapi.json": "/openapi.json" };

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
};

function escape(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => ESCAPES[character] ?? "");
}

/** Returns the text of HTML that marked has rendered. */
function plain(html: string): string {
  return html
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (entity) => ENTITIES[entity] ?? "")
    .replaceAll(/\s+/g, " ")
    .trim();
}

function pathOf(document: string): string {
  return document === CONTENTS ? "" : document.replace(/\.md$/, "");
}

/** Returns the address of a page. */
export function guideAddress(path: string): string {
  return path === "" ? GUIDE_PATH : `${GUIDE_PATH}/${path}`;
}

/** Returns the documents by topic. A link to a directory stands for the documents in it. */
function readTopics(docs: URL): { readonly title: string; readonly documents: readonly string[] }[] {
  const contents = readFileSync(new URL(CONTENTS, docs), "utf8");
  return [...contents.matchAll(TOPIC)].map(([, title = "", line = ""]) => ({
    title,
    documents: [...line.matchAll(LINK_TARGET)]
      .flatMap(([, target = ""]) =>
        target.endsWith("/")
          ? readdirSync(new URL(target, docs))
              .toSorted()
              .map((name) => target + name)
          : [target],
      )
      .filter((name) => name.endsWith(".md")),
  }));
}

/** Creates the anchors of one page's headings, as GitHub does. */
function createAnchors(): (heading: string) => string {
  const uses = new Map<string, number>();
  return (heading) => {
    const slug = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-");
    const before = uses.get(slug) ?? 0;
    uses.set(slug, before + 1);
    return before === 0 ? slug : `${slug}-${before}`;
  };
}

/** Names a file of the repository, which is not served. */
function fileInRepository(path: string, label: string): string {
  const code = `<code>${escape(path)}</code>`;
  const names = (text: string): string => `/${text.replace(/\/$/, "")}`;
  return names(path).endsWith(names(plain(label))) ? code : `${label} (${code})`;
}

class Renderer {
  readonly #docs: URL;
  readonly #marked: typeof Marked;
  readonly #documents: readonly string[];
  readonly #files = new Set<string>();

  constructor(docs: URL, documents: readonly string[]) {
    this.#docs = docs;
    this.#documents = documents;
    // Found beside the documents, because production has no marked.
    this.#marked = createRequire(docs)("marked") as typeof Marked;
  }

  /** Pictures of the pages rendered so far. */
  get files(): readonly string[] {
    return [...this.#files].toSorted();
  }

  render(document: string): GuidePage {
    const headings: Heading[] = [];
    const anchor = createAnchors();
    const link = (href: string, label: string): string => this.#link(document, href, label);
    const image = (href: string, alt: string): string => this.#image(document, href, alt);
    const marked = new this.#marked.Marked(codeTabs(), {
      renderer: {
        heading({ tokens, depth, text }) {
          const [id, label] = [anchor(text), this.parser.parseInline(tokens)];
          if (depth === 2) {
            headings.push({ id, text: plain(label) });
          }
          return `<h${depth} id="${id}">${label}</h${depth}>\n`;
        },
        link({ href, tokens }) {
          return link(href, this.parser.parseInline(tokens));
        },
        image({ href, text }) {
          return image(href, text);
        },
        html({ text }) {
          return text.startsWith("<!--") ? "" : escape(text);
        },
      },
    });
    const text = readFileSync(new URL(document, this.#docs), "utf8");
    const html = marked
      .parse(text, { async: false })
      .replaceAll("<table>", '<div class="wide" tabindex="0"><table>')
      .replaceAll("</table>", "</table></div>");
    const [, title = ""] = /<h1 [^>]*>(.*?)<\/h1>/.exec(html) ?? [];
    return { path: pathOf(document), title: plain(title), html, headings };
  }

  #link(document: string, href: string, label: string): string {
    if (/^[a-z]+:/.test(href)) {
      return `<a href="${escape(href)}" rel="noreferrer">${label}</a>`;
    }
    const [file = "", anchor] = href.split("#");
    const hash = anchor === undefined ? "" : `#${anchor}`;
    const target = file === "" ? document : posix.join(posix.dirname(document), file);
    const page = this.#documents.find(
      (name) => name === target || (target.endsWith("/") && name.startsWith(target)),
    );
    const address = page === undefined ? SERVED[target] : guideAddress(pathOf(page));
    return address === undefined
      ? fileInRepository(posix.join("docs", target), label)
      : `<a href="${escape(address + hash)}">${label}</a>`;
  }

  #image(document: string, href: string, alt: string): string {
    const path = posix.join(posix.dirname(document), href);
    if (!existsSync(new URL(path, this.#docs))) {
      throw new Error(`docs/${document} shows docs/${path}, which does not exist`);
    }
    this.#files.add(path);
    return `<img src="${GUIDE_PATH}/${escape(path)}" alt="${escape(alt)}" loading="lazy">`;
  }
}

/** The labels of code in several languages, which are not text of a document. */
const TAB_LABELS = /<(legend|label)\b.*?<\/\1>/g;

function sectionsOf({ path, title, html }: GuidePage): Section[] {
  return html.split(/(?=<h[1-6] id=")/).map((part) => {
    const [whole = "", level, id = "", heading = ""] =
      /^<h([1-6]) id="([^"]*)">([\s\S]*?)<\/h[1-6]>/.exec(part) ?? [];
    return {
      address: level === "1" ? guideAddress(path) : `${guideAddress(path)}#${id}`,
      page: title,
      heading: plain(heading),
      text: plain(part.slice(whole.length).replaceAll(TAB_LABELS, "")),
    };
  });
}

/** @param docs directory of the documents, with a final slash */
export function renderGuide(docs: URL): Guide {
  const topics = readTopics(docs);
  const documents = [CONTENTS, ...topics.flatMap(({ documents }) => documents)];
  const renderer = new Renderer(docs, documents);
  const pages = documents.map((document) => renderer.render(document));
  return {
    topics: topics.map(({ title, documents }) => ({ title, pages: documents.map(pathOf) })),
    pages,
    sections: pages.flatMap(sectionsOf),
    files: renderer.files,
  };
}
