/** Rejects ambiguous requests before routing, since two servers could interpret them differently. */
import type { IncomingMessage } from "node:http";
import { Transform, type Readable } from "node:stream";
import { nothingHere, SignetError } from "#domain/errors.ts";
import { ambiguous } from "#http/plugins/request-hygiene.ts";
import { canonicalTarget } from "./canonical-target.ts";

/** Requests with a rejected target. They are routed to `/`, so that a hook can respond. */
const refusedTargets = new WeakSet<IncomingMessage>();

/**
 * Returns the target to route and forward: the canonical form of the request's target. With `asItIs`, the request's own
 * form must be canonical.
 */
export function routedTarget(request: IncomingMessage, { asItIs = false } = {}): string {
  const target = canonicalTarget(request.url ?? "");
  if (target === undefined || (asItIs && target !== request.url)) {
    refusedTargets.add(request);
    return "/";
  }
  return target;
}

/** Checks whether the request has a body (RFC 9112 section 6.3). */
function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || (length !== undefined && length !== "0");
}

/** @throws SignetError `INVALID_REQUEST` */
export function checkRequest(request: IncomingMessage): void {
  const { headers, method, httpVersion } = request;
  if (refusedTargets.has(request)) {
    throw ambiguous("The path is not in its canonical form.");
  }
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && (coding.toLowerCase() !== "chunked" || httpVersion !== "1.1")) {
    throw ambiguous("Transfer-Encoding must be chunked, and the version HTTP/1.1.");
  }
  if ((method === "GET" || method === "HEAD") && hasBody(request)) {
    throw ambiguous(`A ${method} request must not have a body.`);
  }
  // An offer of HTTP/2 may be ignored (RFC 9113 section 3.1); for other protocols the client would wait.
  if (headers.upgrade !== undefined && headers.upgrade.toLowerCase() !== "h2c") {
    throw ambiguous("Connection upgrades are not supported.");
  }
}

/**
 * Rejects empty path parameters, which the router would accept. An upstream could interpret `/v1/models/` as the
 * collection, which is another route and may require another scope.
 *
 * @throws SignetError `NOT_FOUND`
 */
export function checkParameters(parameters: Readonly<Record<string, string>>): void {
  for (const name in parameters) {
    if (parameters[name] === "" && name !== "*") {
      throw nothingHere();
    }
  }
}

function tooLarge(limit: number): SignetError {
  return new SignetError("PAYLOAD_TOO_LARGE", {
    detail: `The body may have at most ${limit} bytes.`,
    headers: { connection: "close" },
  });
}

/**
 * Limits a body to `limit` bytes. A too large Content-Length is rejected at once; a body without one is counted.
 *
 * @throws SignetError `PAYLOAD_TOO_LARGE`, or the stream fails with it
 */
export function limitedBody(request: IncomingMessage, body: Readable, limit: number): Readable {
  const length = request.headers["content-length"];
  if (length !== undefined) {
    if (Number(length) > limit) {
      throw tooLarge(limit);
    }
    return body;
  }
  let seen = 0;
  const counted = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      seen += chunk.length;
      done(seen > limit ? tooLarge(limit) : null, chunk);
    },
  });
  body
    .once("error", (error) => counted.destroy(error))
    .once("close", () => {
      if (!body.readableEnded) {
        counted.destroy();
      }
    });
  return body.pipe(counted);
}
