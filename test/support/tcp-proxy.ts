/** A line between two programs that can stop carrying anything without either of them being told. */
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Nothing gets through any more, in either direction; nothing is closed, and new connections open and stay silent. */
  freeze(): void;
  /** Everything that was held back arrives. */
  thaw(): void;
  close(): Promise<void>;
}

/** Starts a proxy to a port of 127.0.0.1. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let frozen = false;
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
    const upstream = connect(target, "127.0.0.1");
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
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      sockets.forEach((socket) => socket.destroy());
      await closed;
    },
  };
}
