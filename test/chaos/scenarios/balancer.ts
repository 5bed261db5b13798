/** A small connection balancer: round robin over the ready apis. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

const ASK_AGAIN_MS = 200;

export interface Balancer {
  readonly url: string;
  close(): Promise<void>;
}

async function isReady(url: string): Promise<boolean> {
  return await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(ASK_AGAIN_MS * 5) })
    .then(({ ok }) => ok)
    .catch(() => false);
}

/** Forwards bytes both ways. When one side ends, the other ends too. */
function join(client: Socket, upstream: Socket): void {
  for (const [from, to] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    from.pipe(to);
    from.on("error", () => to.destroy());
    from.once("close", () => to.destroy());
  }
}

/** Tries the targets in order. Ends the connection if none accepts it. */
function carry(client: Socket, [target, ...others]: readonly string[]): void {
  if (target === undefined) {
    client.destroy();
    return;
  }
  const upstream = connect(Number(new URL(target).port), "127.0.0.1");
  const next = (): void => carry(client, others);
  upstream.once("error", next);
  upstream.once("connect", () => {
    upstream.off("error", next);
    join(client, upstream);
  });
}

/** Starts a balancer in front of these apis. */
export async function startBalancer(urls: readonly string[]): Promise<Balancer> {
  const ready = new Set(urls);
  const ended = new AbortController();
  const watching = Promise.all(
    urls.map(async (url) => {
      while (!ended.signal.aborted) {
        if (await isReady(url)) {
          ready.add(url);
        } else {
          ready.delete(url);
        }
        await delay(ASK_AGAIN_MS);
      }
    }),
  );
  const clients = new Set<Socket>();
  let turn = 0;
  const server = createServer((client) => {
    clients.add(client);
    client.on("error", () => client.destroy());
    client.once("close", () => clients.delete(client));
    turn += 1;
    const turned = urls.map((_, index) => urls[(index + turn) % urls.length] ?? "");
    const first = turned.filter((url) => ready.has(url));
    carry(client, [...first, ...turned.filter((url) => !ready.has(url))]);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      ended.abort();
      await watching;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      clients.forEach((client) => client.destroy());
      await closed;
    },
  };
}
