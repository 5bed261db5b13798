/** Targets that tenants must not reach: this machine's addresses, counting listeners on them, and URLs that lead there. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { networkInterfaces } from "node:os";
import type { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import vectors from "./vectors/targets.json" with { type: "json" };

/** Listeners on every address of this machine, on one port. */
export interface CountingListeners {
  readonly port: number;
  /** Number of connections by destination address. */
  readonly reached: Map<string, number>;
  close(): void;
}

/** Returns this machine's non-public addresses that can be listened on. */
export function privateAddresses(policy: AddressPolicy): readonly string[] {
  const assigned = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const addresses = assigned.filter(({ scopeid }) => !scopeid).map(({ address }) => address);
  return [...new Set(["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", ...addresses])].filter(
    (address) => !policy.allows(address),
  );
}

/** Listens on every address of both families, so that any connection that gets through is counted. */
export async function startCountingListeners(): Promise<CountingListeners> {
  const reached = new Map<string, number>();
  const servers: Server[] = [];
  async function listenOn(host: string, port: number): Promise<number> {
    const server = createServer((socket) => {
      const address = (socket.localAddress ?? "").replace(/^::ffff:/, "");
      reached.set(address, (reached.get(address) ?? 0) + 1);
      socket.on("error", () => {});
      socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    server.listen({ host, port, ipv6Only: host === "::" });
    await once(server, "listening");
    servers.push(server);
    return (server.address() as AddressInfo).port;
  }
  const port = await listenOn("0.0.0.0", 0);
  await listenOn("::", port);
  return {
    port,
    reached,
    close: () => {
      servers.forEach((server) => server.close());
    },
  };
}

const SPELLINGS = [
  "localhost",
  "LOCALHOST.",
  "127.1",
  "0x7f.1",
  "0x7f000001",
  "2130706433",
  "017700000001",
  "0",
  "0.0.0.0",
  "[::]",
  "127.0.0.1.",
  "%31%32%37.0.0.1",
  "①②⑦.⓪.⓪.①",
  "127。0。0。1",
  "127.0.0.1%00.example.com",
  "[::1%25lo]",
  "user@127.0.0.1",
  "example.com@127.0.0.1",
  "127.0.0.1\\@example.com",
  "127.0.0.1#@example.com",
];

/** Returns the suite's hostile URLs, unchanged and with a port that has a listener. */
export function hostileUrls(addresses: readonly string[], port: number): readonly string[] {
  const hosts = addresses.flatMap((address) =>
    address.includes(":")
      ? [`[${address}]`]
      : [address, `[::ffff:${address}]`, `[::${address}]`, `[64:ff9b::${address}]`],
  );
  const aimed = [...hosts, ...SPELLINGS].flatMap((host) =>
    ["http", "https"].map((scheme) => `${scheme}://${host}:${port}/`),
  );
  const fromVectors = vectors.denied_urls.flatMap((url) => {
    const parts = /^(https?:\/\/)([^/?#\\:@]+)(.*)$/.exec(url);
    return parts === null ? [url] : [url, `${parts[1]}${parts[2]}:${port}${parts[3]}`];
  });
  return [...aimed, ...fromVectors];
}
