/** `/docs`: the OpenAPI document for people, by Scalar (src/api/vendor). Nothing is fetched from anywhere else. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { SignetServer } from "../types.ts";

const SCRIPT = fileURLToPath(new URL("../vendor/scalar.js.gz", import.meta.url));

/** Its styles are written into the page by the script; its highlighting runs in a worker that it makes itself. */
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
<noscript><p>This page needs JavaScript. <a href="/openapi.json">The OpenAPI document</a> does not.</p></noscript>
<main id="reference"></main>
<script src="/docs/scalar.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

/** No fonts, no telemetry, no proxy, no assistant: they would all be somebody else's. */
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

  server.get("/docs", route, (_request, reply) => {
    reply.headers(HEADERS).header("cache-control", "no-cache").type("text/html; charset=utf-8").send(PAGE);
  });

  server.get("/docs/start.js", route, (_request, reply) => {
    reply.headers(HEADERS).header("cache-control", "no-cache").type("text/javascript").send(START);
  });

  // Read when it is first asked for: most processes serve it to nobody.
  let script: Promise<Buffer> | undefined;
  server.get("/docs/scalar.js", route, async (request, reply) => {
    script ??= readFile(SCRIPT);
    const packed = await script;
    const takesGzip = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
    reply
      .headers(HEADERS)
      .header("cache-control", "public, max-age=86400")
      .header("vary", "accept-encoding")
      .type("text/javascript");
    return await (takesGzip
      ? reply.header("content-encoding", "gzip").send(packed)
      : reply.send(await promisify(gunzip)(packed)));
  });
}
