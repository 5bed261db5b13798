/** `/`: in development a page with links, otherwise a problem document that points to the documentation. */
import { prefersHtml } from "#http/accept.ts";
import { makeDocument, sendDocument } from "#http/public-document.ts";
import { SignetError } from "#domain/errors.ts";
import type { SignetServer } from "#http/types.ts";

/** A page, with its headers. */
export interface RootPage {
  readonly headers: Readonly<Record<string, string>>;
  render(): Promise<string>;
}

/**
 * Registers the route.
 *
 * @param baseUrl public address of the API
 * @param page page for browsers; undefined in production
 */
export function registerRootRoute(server: SignetServer, baseUrl: string, page: RootPage | undefined): void {
  server.get("/", { config: { public: true }, schema: { hide: true } }, async (request, reply) => {
    const vary = "accept, accept-encoding";
    if (page === undefined || !prefersHtml(request.headers.accept)) {
      throw new SignetError("NOT_FOUND", {
        detail: `This is the address of an API. Its documentation is at ${baseUrl}/docs.`,
        headers: { link: '</docs>; rel="service-doc"', vary },
      });
    }
    const document = makeDocument("text/html; charset=utf-8", await page.render());
    return sendDocument(request, reply, document, { ...page.headers, vary, "cache-control": "no-cache" });
  });
}
