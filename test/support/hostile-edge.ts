/** A thread that attacks a hub over many connections with the certificate of an edge. */
import { randomBytes, randomInt } from "node:crypto";
import { parentPort, workerData } from "node:worker_threads";
import { WebSocket } from "ws";
import { HUB_PATH, HUB_PROTOCOL, REQUEST_MAX } from "#revocation/hub-messages.ts";

export interface HostileOptions {
  readonly url: string;
  readonly tls: { readonly key: string; readonly cert: string };
  readonly connections: number;
  readonly attack: keyof typeof ATTACKS;
}

const STEP_MS = 50;
/** Connections that are opened in a step: first as many as there may be, then as those that it lost. */
const [FIRST, AGAIN] = [100, 5];

function follow(lockKey: number): string {
  const follower = { lockKey, process: "edge", region: "eu", version: "1", leaseMs: 240 };
  return JSON.stringify({ type: "follow", version: HUB_PROTOCOL, follower });
}

/** What each connection does in a step. */
const ATTACKS = {
  "sends half messages": (socket: WebSocket): void => {
    socket.send("!".repeat(REQUEST_MAX / 2), { fin: false });
  },
  "reads no answer": (socket: WebSocket): void => {
    socket.pause();
    for (const type of ["snapshot", "more", "more", "keys"]) {
      socket.send(JSON.stringify({ type }));
    }
    socket.send(JSON.stringify({ type: "lines", after: 0 }));
  },
  "sends more nonces than there is time for": (socket: WebSocket): void => {
    for (let sent = 0; sent < 100; sent += 1) {
      socket.send(JSON.stringify({ type: "nonce", nonce: randomBytes(32).toString("base64url") }));
    }
  },
  "invents processes": (socket: WebSocket): void => {
    for (let sent = 0; sent < 10; sent += 1) {
      socket.send(follow(randomInt(2 ** 31)));
    }
  },
};

export const ATTACK_NAMES = Object.keys(ATTACKS) as readonly HostileOptions["attack"][];

if (parentPort !== null) {
  const { url, tls, connections, attack } = workerData as HostileOptions;
  const open = new Set<WebSocket>();
  let connecting = 0;
  let opened = 0;
  setInterval(() => {
    const many = opened < connections ? FIRST : AGAIN;
    for (let made = 0; made < many && open.size + connecting < connections; made += 1) {
      const socket = new WebSocket(`${url}${HUB_PATH}`, {
        ...tls,
        perMessageDeflate: false,
        rejectUnauthorized: false,
      });
      opened += 1;
      connecting += 1;
      socket.on("error", () => undefined);
      socket.once("open", () => open.add(socket));
      socket.once("close", () => open.delete(socket));
      socket.once("open", () => (connecting -= 1));
      socket.once("error", () => (connecting -= 1));
    }
    for (const socket of open) {
      if (socket.bufferedAmount < REQUEST_MAX) {
        ATTACKS[attack](socket);
      }
    }
    parentPort?.postMessage({ opened }, []);
  }, STEP_MS);
}
