/**
 * A TCP proxy that makes a server distant: one-way delay with jitter, and lost packets. Within a connection, order is
 * kept, so a late or lost packet delays those behind it, as TCP does.
 */
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export interface Distance {
  /** Round trip, in milliseconds. */
  readonly roundTripMs: number;
  /** Each one-way delay varies by this in both directions, in milliseconds. */
  readonly jitterMs: number;
  /** Share of chunks that are lost and sent again, 0 to 1. */
  readonly loss: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
}

export interface DistantProxy {
  readonly port: number;
  /** Chunks that were lost so far. */
  readonly lost: number;
  /** Stops forwarding without closing anything, until `join`. */
  cutOff(): void;
  join(): void;
  close(): Promise<void>;
}

/** A lost packet is noticed when later ones are acknowledged: one more round trip and a quarter (RFC 8985 section 6.2). */
export const LOST_ROUND_TRIPS = 1.25;

/** Starts a proxy to a port of 127.0.0.1. */
export async function startDistantProxy(target: number, distance: Distance): Promise<DistantProxy> {
  const { roundTripMs, jitterMs, loss, random } = distance;
  const sockets = new Set<Socket>();
  let lost = 0;
  const state = { cut: false };

  const carry = (from: Socket, to: Socket): void => {
    let lastDueAt = 0;
    const held: { readonly chunk: Buffer; readonly dueAt: number }[] = [];
    let timer: NodeJS.Timeout | undefined;
    const deliver = (): void => {
      timer = undefined;
      const now = performance.now();
      while (!state.cut && held[0] !== undefined && held[0].dueAt <= now) {
        to.write((held.shift() as (typeof held)[number]).chunk);
      }
      if (held[0] !== undefined) {
        timer = setTimeout(
          deliver,
          state.cut ? roundTripMs / 4 : Math.max(0, held[0].dueAt - performance.now()),
        );
      }
    };
    sockets.add(from);
    from.setNoDelay(true);
    from.on("data", (chunk: Buffer) => {
      const isLost = random() < loss;
      lost += isLost ? 1 : 0;
      const delay =
        roundTripMs / 2 + (2 * random() - 1) * jitterMs + (isLost ? LOST_ROUND_TRIPS * roundTripMs : 0);
      lastDueAt = Math.max(lastDueAt, performance.now() + delay);
      held.push({ chunk, dueAt: lastDueAt });
      timer ??= setTimeout(deliver, Math.max(0, lastDueAt - performance.now()));
    });
    from.on("close", () => {
      sockets.delete(from);
      clearTimeout(timer);
      to.destroy();
    });
    from.on("error", () => to.destroy());
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
    get lost() {
      return lost;
    },
    cutOff: () => {
      state.cut = true;
    },
    join: () => {
      state.cut = false;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      sockets.forEach((socket) => socket.destroy());
      await closed;
    },
  };
}
