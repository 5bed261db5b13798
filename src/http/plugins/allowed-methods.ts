import type { SignetServer } from "../types.ts";

/** Which methods an address has: the answer to a method it does not have names them (RFC 9110 section 15.5.6). */
export interface AllowedMethods {
  /** The methods of the routes that match this path; empty when there is no such address. */
  of(path: string): readonly string[];
}

/** Watches the routes that are registered after this call. */
export function collectAllowedMethods(server: SignetServer): AllowedMethods {
  const addresses = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  server.addHook("onRoute", (route) => {
    const pattern = route.url
      .replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&")
      .replaceAll("*", ".*")
      .replaceAll(/:[A-Za-z_]+/g, "[^/]+");
    const address = addresses.get(route.url) ?? {
      pattern: new RegExp(`^${pattern}$`),
      methods: new Set<string>(),
    };
    for (const method of [route.method].flat()) {
      address.methods.add(method);
    }
    addresses.set(route.url, address);
  });
  return {
    of: (path) => {
      // An address of its own beside one with a parameter, /dlq/replay beside /dlq/:id, is the one that is meant.
      const exact = addresses.get(path);
      const matches =
        exact === undefined
          ? [...addresses.values()].filter((address) => address.pattern.test(path))
          : [exact];
      return [...new Set(matches.flatMap((address) => [...address.methods]))].sort();
    },
  };
}
