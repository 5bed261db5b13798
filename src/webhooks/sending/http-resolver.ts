/** Resolves host names for the sender. */
import { Resolver, lookup } from "node:dns/promises";

/** Returns every address of a host name. Rejects or returns an empty list if there is none. */
export type HostResolver = (hostname: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 2_000;

async function systemLookup(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

/**
 * Creates a resolver that queries the name servers directly. The system's `getaddrinfo` would block one of libuv's
 * four threads while a name server hangs. Cryptography needs the same threads.
 *
 * `localhost` goes to the system, because name servers do not know it.
 *
 * @param options.hostsFile whether to use the hosts file for names that DNS does not know; for development only
 * @param options.servers name servers as `address:port`; by default those of the system
 */
export function createHostResolver(
  options: { readonly hostsFile?: boolean; readonly servers?: readonly string[] } = {},
): HostResolver {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 1 });
  if (options.servers !== undefined) {
    resolver.setServers(options.servers);
  }
  return async (hostname) => {
    if (hostname === "localhost") {
      return await systemLookup(hostname);
    }
    const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
    const addresses = [ipv4, ipv6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (addresses.length === 0 && options.hostsFile === true) {
      return await systemLookup(hostname);
    }
    return addresses;
  };
}
