/** `/docs`: renders the OpenAPI document with Scalar (src/api/vendor), without requests to other hosts. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { makeDocument, onceMade, sendDocument } from "#http/public-document.ts";
import type { SignetServer } from "#http/types.ts";

const SCRIPT = fileURLToPath(new URL("../vendor/scalar.js.gz", import.meta.url));

/** Scalar needs inline styles, and a blob worker for syntax highlighting. */
const CONTENT_SECURITY_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src blob:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Signet API</title>
</head>
<body>
<noscript><p>This page needs JavaScript. <a href="/openapi.json">The OpenAPI document</a> and <a href="/docs/guide">the guide</a> do not.</p></noscript>
<main id="reference"></main>
<script src="/docs/scalar.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** Disables fonts, telemetry, proxy and assistant, since all of them use third-party services. */
const START = `Scalar.createApiReference("#reference", {
  url: "/openapi.json",
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
});
`;

/** Registers the page and its two scripts. */
export function registerApiReference(server: SignetServer): void {
  const route = { config: { public: true }, schema: { hide: true } } as const;
  const headers = { ...HEADERS, "cache-control": "no-cache" };

  const page = onceMade(() => makeDocument("text/html; charset=utf-8", PAGE));
  server.get("/docs", route, (request, reply) => sendDocument(request, reply, page(), headers));

  const start = onceMade(() => makeDocument("text/javascript", START));
  server.get("/docs/start.js", route, (request, reply) => sendDocument(request, reply, start(), headers));

  // Read and unpacked on the first request: most processes never serve it.
  const script = onceMade(async () => {
    const packed = await readFile(SCRIPT);
    return makeDocument("text/javascript", await promisify(gunzip)(packed), packed);
  });
  server.get("/docs/scalar.js", route, async (request, reply) =>
    sendDocument(request, reply, await script(), { ...HEADERS, "cache-control": "public, max-age=86400" }),
  );
}
