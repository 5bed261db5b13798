/** Host names to addresses, for the sender. */
import { Resolver, lookup } from "node:dns/promises";

/** Every address of a host name. Rejects or gives an empty list when there is none. */
export type HostResolver = (hostname: string) => Promise<readonly string[]>;

const TIMEOUT_MS = 2_000;

async function systemLookup(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

/**
 * Asks the name servers directly. The system's `getaddrinfo` would occupy one of libuv's four threads for as
 * long as a name server hangs, and cryptography waits for the same threads.
 *
 * `localhost` is asked from the system, as name servers do not know it.
 *
 * @param options.hostsFile development only: names that DNS does not know may stand in the hosts file
 * @param options.servers name servers, `address:port`; those of the system unless given
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
