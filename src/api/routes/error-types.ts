/** `/errors/{slug}`: the target of a problem document's `type`, as JSON or, if the client prefers it, as HTML. */
import { Type } from "typebox";
import { ERROR_CATALOGUE, type ErrorCode, errorSlug, SignetError } from "#domain/errors.ts";
import { prefersHtml } from "#http/accept.ts";
import { ERROR_DESCRIPTIONS } from "#http/error-descriptions.ts";
import { Closed } from "#http/common.ts";
import {
  ANY_ORIGIN,
  makeDocument,
  makeJsonDocument,
  type PublicDocument,
  sendDocument,
} from "#http/public-document.ts";
import type { SignetServer } from "#http/types.ts";

const CODES = new Map((Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map((code) => [errorSlug(code), code]));

/** Renders the error pages, with their headers. */
export interface ErrorPages {
  readonly headers: Readonly<Record<string, string>>;
  /** Returns the page of a code, or the page for unknown codes. */
  render(code: ErrorCode | undefined): string;
}

function description(code: ErrorCode): PublicDocument {
  const { meaning, causes, remedies } = ERROR_DESCRIPTIONS[code];
  return makeJsonDocument({ code, ...ERROR_CATALOGUE[code], description: meaning, causes, remedies });
}

/** Registers the route of all problem types. */
export function registerErrorTypeRoutes(server: SignetServer, pages: ErrorPages): void {
  const made = new Map<string, PublicDocument>();
  /** Two documents per code, and one for all unknown codes. */
  const kept = (name: string, make: () => PublicDocument): PublicDocument => {
    const document = made.get(name) ?? make();
    made.set(name, document);
    return document;
  };
  server.get(
    "/errors/:slug",
    { config: { public: true }, schema: { hide: true, params: Closed({ slug: Type.String() }) } },
    (request, reply) => {
      const code = CODES.get(request.params.slug);
      const vary = "accept, accept-encoding";
      if (prefersHtml(request.headers.accept)) {
        const page = kept(`html ${code}`, () => makeDocument("text/html; charset=utf-8", pages.render(code)));
        const cacheControl = code === undefined ? "no-store" : "public, max-age=3600";
        reply.code(code === undefined ? ERROR_CATALOGUE.NOT_FOUND.status : 200);
        return void sendDocument(request, reply, page, {
          ...pages.headers,
          vary,
          "cache-control": cacheControl,
        });
      }
      if (code === undefined) {
        throw new SignetError("NOT_FOUND", { detail: "There is no such error.", headers: { vary } });
      }
      const json = kept(`json ${code}`, () => description(code));
      return void sendDocument(request, reply, json, {
        ...ANY_ORIGIN,
        vary,
        "cache-control": "public, max-age=3600",
      });
    },
  );
}
