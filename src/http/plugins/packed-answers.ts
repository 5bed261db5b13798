/** Answers to callers with a token are packed for clients that take gzip, off the event loop. */
import { constants, gzip } from "node:zlib";
import { takesGzip } from "../public-document.ts";
import type { SignetServer } from "../types.ts";

/** Below this many characters packing costs more than it saves. */
const PACKED_FROM = 8_192;
/** At once; what comes meanwhile is sent as it is, so that nothing waits in memory for a thread. */
const PACKING_MAX = 4;

/** Packs long JSON of routes with scopes, or for operators. Pages of the portal stay plain: a cookie belongs to them. */
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
