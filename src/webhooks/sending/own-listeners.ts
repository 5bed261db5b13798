/** Addresses of this deployment, which are never targets of deliveries. */
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import type { Config } from "#config/config.ts";
import type { Clock } from "#domain/clock.ts";
import { formatListen } from "#config/setting.ts";
import type { ListenAddress } from "#runtime/http-server.ts";
import type { HostResolver } from "./http-resolver.ts";

/** How long resolved addresses of our own names are used, in milliseconds. */
const REFRESH_MS = 30_000;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { "https:": 443, "http:": 80 };

/** Addresses and names of this deployment. */
export interface OwnTargets {
  /** Rejected at this host and port. A wildcard covers every address of this machine. */
  readonly listeners: readonly ListenAddress[];
  /**
   * Hosts and ports of the deployment's URLs. Their names are rejected at every port, their addresses at this port.
   */
  readonly urls: readonly ListenAddress[];
  /** Returns the current addresses of this machine's interfaces. */
  readonly localAddresses: () => readonly string[];
}

type OwnSettings = Pick<
  Config,
  | "adminListen"
  | "adminUrl"
  | "apiListen"
  | "development"
  | "edgeListen"
  | "embeddedDatabasePort"
  | "embeddedTemporalPort"
  | "embeddedTemporalUiPort"
  | "metricsListen"
  | "mtlsUrl"
  | "portalUrl"
  | "publicUrl"
>;

function originOf(url: string): ListenAddress {
  const { hostname, port, protocol } = new URL(url);
  return {
    host: hostname.toLowerCase().replace(/^\[|\]$/g, ""),
    port: port === "" ? (DEFAULT_PORTS[protocol] ?? 0) : Number(port),
  };
}

/** Returns the current addresses of this machine's interfaces. */
function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((found) => (found ?? []).map(({ address }) => address));
}

/**
 * Returns the listeners and URLs of the deployment (public, which is also the issuer, portal, mutual TLS, operators).
 * In development, also those of its PostgreSQL and Temporal.
 */
export function ownTargets(config: OwnSettings): OwnTargets {
  const { apiListen, adminListen, edgeListen, metricsListen, development } = config;
  const { embeddedDatabasePort, embeddedTemporalPort, embeddedTemporalUiPort } = config;
  const embedded = [embeddedDatabasePort, embeddedTemporalPort, embeddedTemporalUiPort];
  const local = development ? embedded.map((port) => ({ host: "127.0.0.1", port })) : [];
  const origins = [config.publicUrl, config.portalUrl, config.mtlsUrl, config.adminUrl]
    .filter((url) => url !== undefined)
    .map(originOf);
  // Other ports of localhost or of an address belong to other programs. A name is ours at all ports.
  const isName = ({ host }: ListenAddress): boolean => isIP(host) === 0 && host !== "localhost";
  const literals = origins.filter((origin) => !isName(origin));
  return {
    listeners: [apiListen, adminListen, edgeListen, metricsListen, ...local, ...literals],
    urls: origins.filter(isName),
    localAddresses: interfaceAddresses,
  };
}

interface Resolved {
  at: number;
  addresses: Promise<readonly string[]>;
}

/**
 * Creates the check whether an address and port belong to one of our own names. Names are resolved again every 30
 * seconds, so a connection waits for it at most once. If that fails, a name keeps its addresses; if it has none yet, the
 * check rejects.
 */
export function createOwnAddresses(
  urls: readonly ListenAddress[],
  { resolve, clock }: { readonly resolve: HostResolver; readonly clock: Clock },
): (address: string, port: number) => Promise<boolean> {
  const known = new Map<string, Resolved>();

  async function addressesOf({ host, port }: ListenAddress): Promise<readonly string[]> {
    const key = formatListen({ host, port });
    const before = known.get(key);
    const now = clock.now();
    if (before !== undefined && now - before.at < REFRESH_MS) {
      return await before.addresses;
    }
    if (before === undefined) {
      const addresses = resolve(host);
      known.set(key, { at: now, addresses });
      // Nothing is known: the connection is refused, and the next one asks again.
      addresses.catch(() => known.delete(key));
      return await addresses;
    }
    // Later connections need not wait for the name server.
    known.set(key, { at: now, addresses: before.addresses });
    resolve(host).then(
      (found) => found.length > 0 && known.set(key, { at: now, addresses: Promise.resolve(found) }),
      () => undefined,
    );
    return await before.addresses;
  }

  return async (address, port) => {
    const concerned = urls.filter((url) => url.port === port);
    const found = await Promise.all(concerned.map(addressesOf));
    return found.some((addresses) => addresses.includes(address));
  };
}
