/** Target URLs for the sender, checked by the address policy and parsed once. */
import { SignetError } from "#domain/errors.ts";
import type { AddressPolicy } from "./address-policy.ts";
import type { Origin } from "./http-tls.ts";

/** Target of one request. */
export interface Target extends Origin {
  /** Connections are shared by this key: the origin, and the client certificate if there is one. */
  readonly key: string;
  /** Path and query. */
  readonly path: string;
}

const MAX_CACHED = 4_096;

function parseTarget(policy: Pick<AddressPolicy, "parseTarget">, raw: string): Target | null {
  try {
    const { url, hostname, port, literal } = policy.parseTarget(raw);
    const path = url.pathname + url.search;
    return {
      key: url.origin,
      url: url.origin,
      path,
      hostname,
      port,
      literal,
      secure: url.protocol === "https:",
    };
  } catch (error) {
    if (error instanceof SignetError) {
      return null;
    }
    throw error;
  }
}

/** Creates a cached lookup of URLs. Returns null for a URL that the policy rejects. */
export function createTargets(policy: Pick<AddressPolicy, "parseTarget">): (url: string) => Target | null {
  const cache = new Map<string, Target | null>();
  return (url) => {
    const known = cache.get(url);
    if (known !== undefined) {
      return known;
    }
    const target = parseTarget(policy, url);
    if (cache.size >= MAX_CACHED) {
      cache.clear();
    }
    cache.set(url, target);
    return target;
  };
}
