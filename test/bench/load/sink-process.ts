/** The receiver of all deliveries, in a process of its own: an endpoint is a listener, so that each has its own origin. */
import { type AddressInfo, createServer, type Socket } from "node:net";
import { Arrivals } from "./arrivals.ts";
import type { Behaviour, BehaviourChange } from "./behaviour.ts";
import { findIndex } from "./event-id.ts";
import { monotonicMs } from "./monotonic.ts";
import { serve } from "./rpc.ts";
import { answerBytes, readRequests } from "./sink-requests.ts";

const OK = answerBytes(200);
const FAILED = answerBytes(500);

const behaviours: Behaviour[] = [];
let arrivals = new Arrivals("00000000", 0, 1);

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
      answer(socket, OK);
    }
  };
  const behaviour = behaviours[endpoint] ?? { kind: "ok" };
  if (behaviour.kind === "ok" || attempt > (behaviour.attempts ?? Number.POSITIVE_INFINITY)) {
    acknowledge();
    return;
  }
  switch (behaviour.kind) {
    case "fail":
      answer(socket, FAILED);
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

async function openEndpoint(): Promise<string> {
  const endpoint = behaviours.push({ kind: "ok" }) - 1;
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    readRequests(socket, (from, buffer, at) => receive(endpoint, from, { buffer, at }));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
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
  begin: ({ run, events, slots }: { run: string; events: number; slots: number }) => {
    arrivals = new Arrivals(run, events, slots);
  },
  behave: ({ endpoints, behaviour }: BehaviourChange) => {
    for (const endpoint of endpoints) {
      behaviours[endpoint] = behaviour;
    }
  },
  progress: () => arrivals.progress,
  report: () => arrivals.report,
});
