/** `/docs/guide`: the documents of docs/ as pages, with a search. The pages also work without scripts. */
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { nothingHere } from "#domain/errors.ts";
import { prefersHtml } from "#http/accept.ts";
import { Closed } from "#http/common.ts";
import {
  makeDocument,
  makeJsonDocument,
  onceMade,
  type PublicDocument,
  sendDocument,
} from "#http/public-document.ts";
import type { SignetServer } from "#http/types.ts";
import { Assets } from "../assets.ts";
import { html, type Html, type Part } from "../html.ts";
import { type Guide, GUIDE_PATH, guideAddress, type GuidePage, renderGuide } from "./markdown.ts";
import { createSearch, type Hit, QUERY_MAX } from "./search.ts";

/** A clone renders the documents at the first request. A build has the result, and the pictures beside it. */
const IS_BUILD = !import.meta.url.endsWith(".ts");
const RENDERED = new URL("./pages.json.gz", import.meta.url);
const FILES = new URL(IS_BUILD ? "./files/" : "../../../docs/", import.meta.url);
const TYPES: Readonly<Record<string, string>> = { png: "image/png", svg: "image/svg+xml" };

const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;
const PAGE_HEADERS = { ...HEADERS, "cache-control": "no-cache" } as const;
const FILE_HEADERS = { ...HEADERS, "cache-control": "public, max-age=86400" } as const;
const HTML_TYPE = "text/html; charset=utf-8";
/** Longer topics are closed, unless they have the current page. */
const OPEN_TOPIC_MAX = 12;

async function loadGuide(): Promise<Guide> {
  return IS_BUILD
    ? (JSON.parse((await promisify(gunzip)(await readFile(RENDERED))).toString()) as Guide)
    : renderGuide(FILES);
}

interface Shown {
  /** Path of the page; undefined for a page outside the navigation. */
  readonly path?: string;
  readonly title: string;
  readonly query?: string;
  /** HTML of the page's content. */
  readonly content: string;
}

function pageLink({ path, title, headings }: GuidePage, current: boolean): Html {
  return html`<li>
    <a href="${guideAddress(path)}" ${current && html`aria-current="page"`}>${title}</a>
    ${
      current &&
      headings.length > 1 &&
      html`<ul>
        ${headings.map(({ id, text }) => html`<li><a href="#${id}">${text}</a></li>`)}
      </ul>`
    }
  </li>`;
}

function navigation({ topics, pages }: Guide, current: string | undefined): Part {
  const byPath = new Map(pages.map((page) => [page.path, page]));
  return topics.map(({ title, pages: paths }) => {
    const listed = paths.flatMap((path) => byPath.get(path) ?? []);
    const isOpen = paths.length <= OPEN_TOPIC_MAX || paths.some((path) => path === current);
    return html`<details ${isOpen && html`open`}>
      <summary>${title}</summary>
      <ul>
        ${listed.map((page) => pageLink(page, page.path === current))}
      </ul>
    </details>`;
  });
}

/** Links to the neighbours of a page in reading order. */
function neighbours({ pages }: Guide, current: string | undefined): Part {
  const at = pages.findIndex(({ path }) => path === current);
  const [before, after] = at === -1 ? [] : [pages[at - 1], pages[at + 1]];
  return html`<nav class="neighbours" aria-label="Neighbouring pages">
    ${before && html`<a rel="prev" href="${guideAddress(before.path)}">← ${before.title}</a>`}
    ${after && html`<a rel="next" href="${guideAddress(after.path)}">${after.title} →</a>`}
  </nav>`;
}

function render(guide: Guide, assets: Assets, { path, title, query = "", content }: Shown): string {
  const top = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · Signet guide</title>
        <link rel="icon" href="${assets.path("icon.svg")}" type="image/svg+xml" />
        <link rel="stylesheet" href="${assets.path("portal.css")}" />
        <link rel="stylesheet" href="${assets.path("guide.css")}" />
        <script src="${assets.path("guide.js")}" defer></script>
      </head>
      <body class="guide">
        <a class="skip" href="#main">Skip to content</a>
        <header>
          <div class="bar">
            <a class="brand" href="${GUIDE_PATH}"
              ><img src="${assets.path("icon.svg")}" alt="" width="24" height="24" />Signet guide</a
            >
            <form role="search" action="${GUIDE_PATH}/search">
              <label class="hidden" for="q">Search the guide</label>
              <input
                type="search"
                id="q"
                name="q"
                value="${query}"
                placeholder="Search"
                maxlength="${QUERY_MAX}"
                autocomplete="off"
                required
              />
              <button>Search</button>
            </form>
            <a href="/docs">API reference</a>
          </div>
        </header>
        <div class="columns">
          <nav aria-label="Guide">
            <details class="contents">
              <summary>Contents</summary>
              ${navigation(guide, path)}
            </details>
          </nav>
          <main id="main" tabindex="-1">
     `.text;
  return `${top}${content}${
    html`${neighbours(guide, path)}</main>
        </div>
      </body>
    </html>`.text
  }`;
}

function hitItem({ address, page, heading, excerpt: [before, found, after] }: Hit): Html {
  return html`<li>
    <a href="${address}">${heading === page ? page : `${page}: ${heading}`}</a>
    <p>${before}<mark>${found}</mark>${after}</p>
  </li>`;
}

function searchPage(query: string, hits: readonly Hit[]): Shown {
  const found = hits.length === 1 ? "1 section" : `${hits.length} sections`;
  const content = html`<h1>Search</h1>
    ${query !== "" && html`<p>${hits.length === 0 ? "No section has" : `${found} with`} “${query}”.</p>`}
    <ol class="hits">
      ${hits.map(hitItem)}
    </ol>`.text;
  return { title: "Search", query, content };
}

/** Renders what is requested, and keeps it. Nothing is loaded before the first request. */
class GuideServer {
  readonly #assets = new Assets();
  readonly #guide = onceMade(loadGuide);
  readonly #search = onceMade(async () => createSearch((await this.#guide()).sections));
  readonly #kept = new Map<string, PublicDocument>();
  /** The index for the script of the pages. */
  readonly index = onceMade(async () => makeJsonDocument((await this.#guide()).sections));

  /** Returns a page or a picture; undefined if there is none. */
  async find(path: string): Promise<PublicDocument | undefined> {
    const document = this.#kept.get(path) ?? (await this.#make(path));
    if (document !== undefined) {
      this.#kept.set(path, document);
    }
    return document;
  }

  /** Returns the page of a search's results. */
  async results(query: string): Promise<string> {
    const [guide, search] = [await this.#guide(), await this.#search()];
    return render(guide, this.#assets, searchPage(query, search(query)));
  }

  async missing(): Promise<string> {
    const content = html`<h1>Page not found</h1>
      <p>There is no such page. Search for it, or choose one of the contents.</p>`.text;
    return render(await this.#guide(), this.#assets, { title: "Page not found", content });
  }

  async #make(path: string): Promise<PublicDocument | undefined> {
    const guide = await this.#guide();
    const page = guide.pages.find((each) => each.path === path);
    if (page !== undefined) {
      return makeDocument(HTML_TYPE, render(guide, this.#assets, { ...page, content: page.html }));
    }
    return guide.files.includes(path)
      ? makeDocument(TYPES[path.slice(-3)] ?? "", await readFile(new URL(path, FILES)))
      : undefined;
  }
}

/** Registers the pages, their pictures and the search. */
export function registerGuide(server: SignetServer): void {
  const config = { public: true } as const;
  const guide = new GuideServer();
  const send = async (request: FastifyRequest, reply: FastifyReply, path: string): Promise<FastifyReply> => {
    const document = await guide.find(path);
    if (document !== undefined) {
      const headers = document.type === HTML_TYPE ? PAGE_HEADERS : FILE_HEADERS;
      return sendDocument(request, reply, document, headers);
    }
    if (!prefersHtml(request.headers.accept)) {
      throw nothingHere();
    }
    return await reply
      .code(404)
      .headers(PAGE_HEADERS)
      .type(HTML_TYPE)
      .send(await guide.missing());
  };

  server.get(GUIDE_PATH, { config, schema: { hide: true } }, (request, reply) => send(request, reply, ""));
  server.get(`${GUIDE_PATH}/search.json`, { config, schema: { hide: true } }, async (request, reply) =>
    sendDocument(request, reply, await guide.index(), PAGE_HEADERS),
  );
  server.get(
    `${GUIDE_PATH}/search`,
    {
      config,
      schema: {
        hide: true,
        querystring: Closed({ q: Type.Optional(Type.String({ maxLength: QUERY_MAX })) }),
      },
    },
    async (request, reply) =>
      await reply
        .headers(PAGE_HEADERS)
        .type(HTML_TYPE)
        .send(await guide.results(request.query.q?.trim() ?? "")),
  );
  server.get(
    `${GUIDE_PATH}/*`,
    { config, schema: { hide: true, params: Closed({ "*": Type.String() }) } },
    (request, reply) => send(request, reply, request.params["*"]),
  );
}
