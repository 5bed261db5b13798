/** The receiver of all deliveries, in a separate process. Each endpoint is a listener, so each has its own origin. */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { Arrivals } from "./arrivals.ts";
import type { Behaviour, BehaviourChange } from "./behaviour.ts";
import { findIndex } from "./event-id.ts";
import { LedgerWriter } from "./ledger-writer.ts";
import { monotonicMs } from "./monotonic.ts";
import { serve } from "./rpc.ts";
import { answerBytes, readRequests } from "./sink-requests.ts";

const OK = answerBytes(200);
const FAILED = answerBytes(500);

const behaviours: Behaviour[] = [];
const listeners: { readonly server: Server; readonly port: number }[] = [];
const sockets = new Map<Socket, number>();
/** Connections accepted since the start. */
let connections = 0;
let arrivals = new Arrivals("00000000", 0, 1);
let ledger: LedgerWriter | undefined;

/** Calls `next` when the line is on disk, or immediately if no ledger is kept. */
function note(entry: Readonly<Record<string, number>>, next: () => void): void {
  if (ledger === undefined) {
    next();
  } else {
    ledger.append(entry, next);
  }
}

/** Returns whether an attempt at a flaky endpoint fails: spread over events, and equal in every run. */
function isUnlucky(index: number, attempt: number, percent: number): boolean {
  const mixed = Math.imul(index + 1, 0x9e_37_79_b1) ^ Math.imul(attempt, 0x85_eb_ca_6b);
  return (Math.imul(mixed ^ (mixed >>> 15), 0x2c_1b_3c_6d) >>> 8) % 100 < percent;
}

function answer(socket: Socket, bytes: Buffer): void {
  if (socket.writable) {
    socket.write(bytes);
  }
}

function receive(endpoint: number, socket: Socket, body: { buffer: Buffer; at: number }): void {
  const current = arrivals;
  const index = findIndex(body.buffer, body.at, current.run);
  if (index < 0) {
    current.foreign += index === -2 ? 1 : 0;
    answer(socket, OK);
    return;
  }
  const nowMs = monotonicMs();
  const { slot, attempt } = current.arrived(index, endpoint, nowMs);
  const acknowledge = (): void => {
    if (socket.writable) {
      current.acknowledged(slot, nowMs);
      note({ acknowledged: index, at_ms: nowMs }, () => answer(socket, OK));
    }
  };
  note({ arrived: index, endpoint, at_ms: nowMs }, () => {
    behave(socket, { endpoint, index, attempt }, acknowledge);
  });
}

interface Attempt {
  readonly endpoint: number;
  readonly index: number;
  readonly attempt: number;
}

function behave(socket: Socket, { endpoint, index, attempt }: Attempt, acknowledge: () => void): void {
  const behaviour = behaviours[endpoint] ?? { kind: "ok" };
  if (behaviour.kind === "ok" || attempt > (behaviour.attempts ?? Number.POSITIVE_INFINITY)) {
    acknowledge();
    return;
  }
  switch (behaviour.kind) {
    case "fail":
      answer(socket, FAILED);
      break;
    case "flaky":
      if (isUnlucky(index, attempt, behaviour.percent)) {
        answer(socket, FAILED);
      } else {
        acknowledge();
      }
      break;
    case "delay":
      setTimeout(acknowledge, behaviour.ms);
      break;
    case "hang":
      break;
    case "reset":
      socket.resetAndDestroy();
  }
}

function accept(socket: Socket, endpoint: number): void {
  connections += 1;
  sockets.set(socket, endpoint);
  socket.on("error", () => socket.destroy());
  socket.once("close", () => sockets.delete(socket));
  readRequests(socket, (from, buffer, at) => receive(endpoint, from, { buffer, at }));
}

async function openEndpoint(): Promise<string> {
  const endpoint = behaviours.push({ kind: "ok" }) - 1;
  const server = createServer({ noDelay: true }, (socket) => accept(socket, endpoint));
  await listen(server, 0);
  const { port } = server.address() as AddressInfo;
  listeners[endpoint] = { server, port };
  return `http://127.0.0.1:${port}/hook`;
}

/** Returns the n-th loopback address after 127.0.255.255. */
function addressOf(n: number): string {
  return `127.${1 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`;
}

/**
 * Opens one listener for all endpoints, each at its own loopback address and so its own origin. A listener for each
 * would need more descriptors and ports than there are.
 */
async function openAddresses(count: number): Promise<readonly string[]> {
  const first = behaviours.length;
  const endpoints = new Map<string, number>();
  for (let n = 0; n < count; n += 1) {
    endpoints.set(addressOf(n), first + n);
    behaviours.push({ kind: "ok" });
  }
  const server = createServer({ noDelay: true }, (socket) => {
    const endpoint = endpoints.get(socket.localAddress ?? "");
    if (endpoint === undefined) {
      // Not from this machine.
      socket.destroy();
    } else {
      accept(socket, endpoint);
    }
  });
  await listen(server, 0, "0.0.0.0");
  const { port } = server.address() as AddressInfo;
  return [...endpoints.keys()].map((address) => `http://${address}:${port}/hook`);
}

async function listen(server: Server, port: number, address = "127.0.0.1"): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, address, () => {
      server.off("error", reject);
      resolve();
    });
  });
}

/** Refuses connections and breaks open ones. */
function takeDown(endpoints: readonly number[]): void {
  const down = new Set(endpoints);
  for (const endpoint of down) {
    listeners[endpoint]?.server.close();
  }
  for (const [socket, endpoint] of sockets) {
    if (down.has(endpoint)) {
      socket.destroy();
    }
  }
}

async function bringUp(endpoints: readonly number[]): Promise<void> {
  for (const endpoint of endpoints) {
    const { server, port } = listeners[endpoint] ?? {};
    if (server !== undefined && port !== undefined) {
      await listen(server, port);
    }
  }
}

interface BeginOrder {
  readonly run: string;
  readonly events: number;
  readonly slots: number;
  /** File that records each arrival before it is answered. */
  readonly ledger?: string;
}

serve({
  open: async (count: number) => {
    const first = behaviours.length;
    const urls: string[] = [];
    for (let made = 0; made < count; made += 1) {
      urls.push(await openEndpoint());
    }
    return urls.map((url, index) => ({ url, number: first + index }));
  },
  openAddresses: async (count: number) => {
    const first = behaviours.length;
    return (await openAddresses(count)).map((url, index) => ({ url, number: first + index }));
  },
  connections: () => connections,
  begin: ({ run, events, slots, ledger: path }: BeginOrder) => {
    arrivals = new Arrivals(run, events, slots);
    ledger = path === undefined ? undefined : new LedgerWriter(path);
  },
  down: takeDown,
  up: bringUp,
  settle: async () => await ledger?.settled(),
  behave: ({ endpoints, behaviour }: BehaviourChange) => {
    for (const endpoint of endpoints) {
      behaviours[endpoint] = behaviour;
    }
  },
  progress: () => arrivals.progress,
  report: () => arrivals.report,
});
