/** A TCP proxy that cuts a network in the ways in which networks are cut. */
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

export const CUT_KINDS = ["reset", "silent", "late", "half-open", "delay", "loss"] as const;

/**
 * `reset`: connections break at once, and new ones do. `silent`: whatever is sent is lost, also in new connections, which
 * open; connections of that time never carry anything again. `late`: the same, but all arrives at the end. `half-open`:
 * open connections go silent for ever, once a second, and new ones work. `delay`: all arrives half a second later.
 * `loss`: one packet in twenty is sent again.
 */
export type CutKind = (typeof CUT_KINDS)[number];

const DELAY_MS = 500;
const LOSS = 0.05;
/** Shortest time after which TCP sends a lost packet again, and after which a lost opening (RFC 6298 sections 2 and 5). */
const AGAIN_MS = 200;
const OPEN_AGAIN_MS = 1_000;
const FORGETS_EVERY_MS = 1_000;

export interface CutProxy {
  readonly port: number;
  begin(kind: CutKind): void;
  end(): void;
  close(): Promise<void>;
}

/** One direction of a connection. Order is kept, so what is late delays what comes after it. */
class Way {
  readonly from: Socket;
  readonly to: Socket;
  #dueAt = 0;

  constructor(from: Socket, to: Socket) {
    this.from = from;
    this.to = to;
  }

  carry(chunk: Buffer, lateMs: number): void {
    const now = performance.now();
    this.#dueAt = Math.max(this.#dueAt, now + lateMs);
    if (this.#dueAt <= now) {
      this.to.write(chunk);
    } else {
      setTimeout(() => this.to.write(chunk), this.#dueAt - now);
    }
  }
}

/** Returns how late a packet arrives of which some are lost. A second loss takes twice as long. */
function lossMs(random: () => number, againMs: number): number {
  let lateMs = 0;
  for (let pause = againMs; random() < LOSS; pause *= 2) {
    lateMs += pause;
  }
  return lateMs;
}

/** Starts a proxy to ports of 127.0.0.1, whose connections go to them in turns. */
export async function startCutProxy(targets: readonly number[], random: () => number): Promise<CutProxy> {
  const open = new Set<Way>();
  const dead = new Set<Socket>();
  let kind: CutKind | undefined;
  let forgetting: NodeJS.Timeout | undefined;
  let turn = 0;
  const silence = (): void => {
    for (const { from } of open) {
      // A paused socket does not see the other side close either.
      from.pause();
      dead.add(from);
    }
    open.clear();
  };
  const carry = (from: Socket, to: Socket): void => {
    const way = new Way(from, to);
    open.add(way);
    from.setNoDelay(true);
    from.on("data", (chunk: Buffer) => {
      const lateMs = kind === "delay" ? DELAY_MS : kind === "loss" ? lossMs(random, AGAIN_MS) : 0;
      way.carry(chunk, lateMs);
    });
    from.on("close", () => {
      open.delete(way);
      dead.delete(from);
      to.destroy();
    });
    from.on("error", () => to.destroy());
    if (kind === "late") {
      from.pause();
    }
  };
  const join = (client: Socket): void => {
    const target = targets[turn % targets.length] ?? 0;
    turn += 1;
    const upstream = connect(target, "127.0.0.1");
    carry(client, upstream);
    carry(upstream, client);
  };
  const server = createServer((client) => {
    client.on("error", () => client.destroy());
    if (kind === "reset") {
      client.resetAndDestroy();
    } else if (kind === "silent") {
      client.pause();
      dead.add(client);
    } else if (kind === "delay" || kind === "loss") {
      setTimeout(() => join(client), kind === "delay" ? DELAY_MS : lossMs(random, OPEN_AGAIN_MS));
    } else {
      join(client);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    begin: (begun) => {
      kind = begun;
      if (begun === "reset") {
        open.forEach(({ from }) => from.resetAndDestroy());
      } else if (begun === "silent" || begun === "half-open") {
        silence();
      } else if (begun === "late") {
        open.forEach(({ from }) => from.pause());
      }
      forgetting = begun === "half-open" ? setInterval(silence, FORGETS_EVERY_MS) : undefined;
    },
    end: () => {
      kind = undefined;
      clearInterval(forgetting);
      open.forEach(({ from }) => from.resume());
    },
    close: async () => {
      clearInterval(forgetting);
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      [...open].forEach(({ from }) => from.destroy());
      dead.forEach((socket) => socket.destroy());
      await closed;
    },
  };
}
