/** A TCP proxy that can stop forwarding without either side noticing. */
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Stops forwarding in both directions. Closes nothing; new connections open and stay silent. */
  freeze(): void;
  /** Forwards everything that was held back, except in black-holed connections. */
  thaw(): void;
  /**
   * Silences every open connection in both directions forever: no data, no FIN, no RST. New connections work. A
   * fail-over behind a virtual address, or a NAT that loses its state, has the same effect.
   *
   * @returns the number of silenced connections
   */
  blackHole(): number;
  /** Leads new connections to another port. */
  lead(port: number): void;
  close(): Promise<void>;
}

/** Starts a proxy to a port of 127.0.0.1. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const dead = new Set<Socket>();
  let frozen = false;
  let leadsTo = target;
  const carry = (from: Socket, to: Socket): void => {
    sockets.add(from);
    from.on("data", (chunk) => void to.write(chunk));
    from.on("close", () => {
      sockets.delete(from);
      to.destroy();
    });
    from.on("error", () => to.destroy());
    if (frozen) {
      from.pause();
    }
  };
  const server = createServer((client) => {
    const upstream = connect(leadsTo, "127.0.0.1");
    carry(client, upstream);
    carry(upstream, client);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    freeze: () => {
      frozen = true;
      sockets.forEach((socket) => socket.pause());
    },
    thaw: () => {
      frozen = false;
      sockets.forEach((socket) => socket.resume());
    },
    blackHole: () => {
      const taken = sockets.size / 2;
      for (const socket of sockets) {
        // A paused socket does not see the other side close either.
        socket.pause();
        dead.add(socket);
      }
      sockets.clear();
      return taken;
    },
    lead: (port) => {
      leadsTo = port;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      [...sockets, ...dead].forEach((socket) => socket.destroy());
      await closed;
    },
  };
}
