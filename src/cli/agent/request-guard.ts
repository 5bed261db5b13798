/**
 * Who may ask the agent. On a unix socket the file's permissions decide. On loopback three things have to be right,
 * against the ways in which others send requests there: the Host names this listener (a page whose name was rebound to
 * 127.0.0.1 names its own), nothing says that a browser or a proxy is asking, and the local secret is in a header, where
 * a program that is talked into fetching an address cannot put it.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { formatListen } from "../../config/setting.ts";

const SECRET_HEADER = "x-signet-agent-secret";
/** Set by browsers and by proxies; a program that wants a token has no reason for them. */
const FOREIGN_HEADERS = ["origin", "referer", "sec-fetch-site", "forwarded", "x-forwarded-for", "via"];

export interface Guard {
  /** Names that the Host header may have; null on a unix socket. */
  readonly hosts: ReadonlySet<string> | null;
  /** Null on a unix socket. */
  readonly secret: string | null;
}

export interface Refusal {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/** How a listener on loopback may be called. */
export function hostNames(host: string, port: number): ReadonlySet<string> {
  return new Set([formatListen({ host, port }), `localhost:${port}`]);
}

function count(request: IncomingMessage, wanted: string): number {
  return request.rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === wanted).length;
}

/** By digest: the comparison then takes the same time whatever the length. */
function isEqual(left: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}

/** Why a request is not served at all, or nothing. */
export function refuseForeign(request: IncomingMessage, guard: Guard): Refusal | undefined {
  const foreign = FOREIGN_HEADERS.find((name) => request.headers[name] !== undefined);
  if (foreign !== undefined) {
    return {
      status: 403,
      code: "FOREIGN_REQUEST",
      detail: `requests with the header ${foreign} are not answered`,
    };
  }
  const host = request.headers.host?.toLowerCase() ?? "";
  if (guard.hosts !== null && (count(request, "host") !== 1 || !guard.hosts.has(host))) {
    return { status: 403, code: "FOREIGN_REQUEST", detail: "the Host header does not name this agent" };
  }
  return undefined;
}

/** Why a request gets no token, or nothing. */
export function refuseUnauthorized(request: IncomingMessage, { secret }: Guard): Refusal | undefined {
  const presented = request.headers[SECRET_HEADER];
  if (secret === null || (typeof presented === "string" && isEqual(presented, secret))) {
    return undefined;
  }
  return { status: 401, code: "SECRET_REQUIRED", detail: `send the agent's secret in ${SECRET_HEADER}` };
}
