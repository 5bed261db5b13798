/** Compresses responses to authenticated callers that accept gzip, off the event loop. */
import { constants, gzip } from "node:zlib";
import { takesGzip } from "../public-document.ts";
import type { SignetServer } from "../types.ts";

/** Minimum length, in characters: compressing less costs more than it saves. */
const PACKED_FROM = 8_192;
/** Maximum concurrent compressions. Further responses are sent uncompressed, instead of waiting in memory. */
const PACKING_MAX = 4;

/** Compresses long JSON of routes with scopes or for operators, but not portal pages, which depend on a cookie. */
export function installPackedAnswers(server: SignetServer): void {
  let packing = 0;
  server.addHook("onSend", ({ method, headers, routeOptions: { config } }, reply, payload, done) => {
    const isPackable =
      typeof payload === "string" &&
      payload.length >= PACKED_FROM &&
      method === "GET" &&
      (config.scopes ?? config.operator) !== undefined &&
      takesGzip(headers["accept-encoding"]) &&
      packing < PACKING_MAX;
    if (!isPackable) {
      done(null, payload);
      return;
    }
    packing += 1;
    gzip(payload, { level: constants.Z_BEST_SPEED }, (error, packed) => {
      packing -= 1;
      if (error === null) {
        reply.removeHeader("content-length");
        reply.headers({ "content-encoding": "gzip", vary: "accept-encoding" });
      }
      done(null, error === null ? packed : payload);
    });
  });
}
