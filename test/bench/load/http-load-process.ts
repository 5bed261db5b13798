/**
 * Sends requests in a loop. All compared servers get the same client: raw sockets, HTTP/1.1, one request in flight per
 * connection, no pipelining. Takes its plan as JSON in the first argument and prints one line of JSON.
 */
import { readFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { HttpLoadPlan, HttpLoadResult } from "./http-load.ts";
import { monotonicMs } from "./monotonic.ts";

const HEAD_END = "\r\n\r\n";

interface TlsFiles {
  readonly ca: Buffer;
  readonly key: Buffer;
  readonly cert: Buffer;
}

const plan = JSON.parse(process.argv[2] ?? "{}") as HttpLoadPlan;
const tls: TlsFiles | undefined =
  plan.tls === undefined
    ? undefined
    : {
        ca: readFileSync(plan.tls.caFile),
        key: readFileSync(plan.tls.keyFile),
        cert: readFileSync(plan.tls.certFile),
      };
/** The request, or one per line of the file, used in turn. */
const requests = (
  plan.authorizationsFile === undefined
    ? [[]]
    : readFileSync(plan.authorizationsFile, "latin1")
        .trim()
        .split("\n")
        .map((line) => [`Authorization: ${line}`])
).map((authorization) =>
  Buffer.from(
    [
      `${plan.method} ${plan.path} HTTP/1.1`,
      `Host: ${plan.host}:${plan.port}`,
      ...plan.headers,
      ...authorization,
      ...(plan.method === "GET" ? [] : [`Content-Length: ${Buffer.byteLength(plan.body)}`]),
      "",
      plan.body,
    ].join("\r\n"),
  ),
);
let asked = 0;

function nextRequest(): Buffer {
  const request = requests[asked % requests.length];
  asked += 1;
  return request as Buffer;
}

async function open(): Promise<Socket> {
  const { host, port } = plan;
  return await new Promise((resolve, reject) => {
    const socket: Socket =
      tls === undefined
        ? connectTcp({ host, port, noDelay: true }, () => resolve(socket))
        : connectTls({ ...tls, host, port, servername: "localhost" }, () => resolve(socket));
    socket.once("error", reject);
  });
}

/** Returns the status of a complete response, or undefined if it is incomplete. */
function completeStatus(received: string): number | undefined {
  const end = received.indexOf(HEAD_END);
  if (end === -1) {
    return undefined;
  }
  const head = received.slice(0, end);
  const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Number.NaN);
  if (Number.isNaN(length)) {
    throw new Error(`response without Content-Length: ${head}`);
  }
  return received.length >= end + HEAD_END.length + length ? Number(head.slice(9, 12)) : undefined;
}

async function ask(socket: Socket): Promise<number> {
  return await new Promise((resolve, reject) => {
    let received = "";
    const onData = (chunk: Buffer): void => {
      received += chunk.toString("latin1");
      const status = completeStatus(received);
      if (status !== undefined) {
        socket.off("data", onData);
        socket.off("error", reject);
        resolve(status);
      }
    };
    socket.on("data", onData);
    socket.once("error", reject);
    socket.write(nextRequest());
  });
}

const statuses: Record<string, number> = {};
const latencies: number[] = [];
const beganMs = monotonicMs();
const countFromMs = beganMs + plan.warmUpSeconds * 1_000;
const endMs = countFromMs + plan.seconds * 1_000;

function over(): boolean {
  return monotonicMs() >= endMs || (plan.once === true && asked >= requests.length);
}

function note(fromMs: number, status: number): void {
  const nowMs = monotonicMs();
  if (fromMs >= countFromMs && nowMs <= endMs) {
    statuses[status] = (statuses[status] ?? 0) + 1;
    latencies.push(nowMs - fromMs);
  }
}

/** Each connection sends its next request after the response; with `fresh`, on a new connection each time. */
async function closedLoop(fresh: boolean): Promise<void> {
  let socket = fresh ? undefined : await open();
  while (!over()) {
    const fromMs = monotonicMs();
    socket ??= await open();
    note(fromMs, await ask(socket));
    if (fresh) {
      socket.destroy();
      socket = undefined;
    }
  }
  socket?.destroy();
}

/** Sends requests at fixed instants, independent of the responses. Latency counts from the scheduled instant. */
async function openLoop(perSecond: number): Promise<void> {
  const idle = await Promise.all(Array.from({ length: plan.connections }, open));
  const due: number[] = [];
  const underWay = new Set<Promise<void>>();
  let scheduled = 0;
  const startMs = monotonicMs();
  while (monotonicMs() < endMs) {
    while (startMs + (scheduled * 1_000) / perSecond <= monotonicMs()) {
      due.push(startMs + (scheduled * 1_000) / perSecond);
      scheduled += 1;
    }
    while (due.length > 0 && idle.length > 0) {
      const [fromMs, socket] = [due.shift() ?? 0, idle.pop()];
      if (socket !== undefined) {
        const underWayNow = ask(socket).then((status) => {
          note(fromMs, status);
          idle.push(socket);
          underWay.delete(underWayNow);
        });
        underWay.add(underWayNow);
      }
    }
    // Sleep between requests; busy waiting would take a core from the server.
    await new Promise((resolve) => {
      setTimeout(resolve, 1);
    });
  }
  await Promise.all(underWay);
  for (const socket of idle) {
    socket.destroy();
  }
}

await (plan.perSecond === undefined
  ? Promise.all(Array.from({ length: plan.connections }, async () => await closedLoop(plan.fresh === true)))
  : openLoop(plan.perSecond));
const result: HttpLoadResult = { statuses, latencies, seconds: plan.seconds };
process.stdout.write(JSON.stringify(result));
