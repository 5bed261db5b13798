/**
 * Decides which requests the agent serves. On a unix socket, the file's permissions decide. On loopback, a request must
 * pass three checks:
 * - Its Host names this listener. A page whose name was rebound to 127.0.0.1 sends its own name.
 * - It has no header that a browser or a proxy sets.
 * - It has the local secret in a header, which a program that is tricked into fetching an address cannot set.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { formatListen } from "#config/setting.ts";

const SECRET_HEADER = "x-signet-agent-secret";
/** Browsers and proxies set these headers; a program that wants a token does not need them. */
const FOREIGN_HEADERS = ["origin", "referer", "sec-fetch-site", "forwarded", "x-forwarded-for", "via"];

export interface Guard {
  /** Accepted values of the Host header; null on a unix socket. */
  readonly hosts: ReadonlySet<string> | null;
  /** Null on a unix socket. */
  readonly secret: string | null;
}

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/** Returns the values of the Host header that name a listener on loopback. */
export function hostNames(host: string, port: number): ReadonlySet<string> {
  return new Set([formatListen({ host, port }), `localhost:${port}`]);
}

function count(request: IncomingMessage, wanted: string): number {
  return request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === wanted).length;
}

/** Compares digests, so that the time does not depend on the lengths. */
function isEqual(left: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}

/** Returns the reason to reject a request outright, or undefined. */
export function refuseForeign(request: IncomingMessage, guard: Guard): Refusal | undefined {
  const foreign = FOREIGN_HEADERS.find((name) => request.headers[name] !== undefined);
  if (foreign !== undefined) {
    return {
      status: 403,
      code: "FOREIGN_REQUEST",
      detail: `requests with the header ${foreign} are rejected`,
    };
  }
  const host = request.headers.host?.toLowerCase() ?? "";
  if (guard.hosts !== null && (count(request, "host") !== 1 || !guard.hosts.has(host))) {
    return { status: 403, code: "FOREIGN_REQUEST", detail: "the Host header does not name this agent" };
  }
  return undefined;
}

/** Returns the reason to refuse the request a token, or undefined. */
export function refuseUnauthorized(request: IncomingMessage, { secret }: Guard): Refusal | undefined {
  const presented = request.headers[SECRET_HEADER];
  if (secret === null || (typeof presented === "string" && isEqual(presented, secret))) {
    return undefined;
  }
  return { status: 401, code: "SECRET_REQUIRED", detail: `send the agent's secret in ${SECRET_HEADER}` };
}
