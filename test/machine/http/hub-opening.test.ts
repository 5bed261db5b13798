import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { certificatesOf } from "#http/mutual-tls/trust.ts";
import { createLogger } from "#observability/logger.ts";
import { Hub } from "#revocation/hub.ts";
import type { HubConnection } from "#revocation/hub-messages.ts";
import type { Upstream } from "#revocation/hub-questions.ts";
import { createHubOpener, HubListener } from "#revocation/hub-socket.ts";
import { newRoot, serverPair, today } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";

const root = await newRoot();
const tls = {
  ...(await serverPair(root)),
  anchors: { pem: root.cert, certificates: certificatesOf(root.cert) },
  names: ["DNS:hub.test"],
  relays: [],
};

test.each(["ws", "wss"])(
  "an attempt to reach a hub that accepts and says nothing ends with its signal, over %s",
  async (scheme) => {
    const silent = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void silent.close());
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const ending = new AbortController();
    const opening = createHubOpener(() => (scheme === "wss" ? tls : undefined))(
      `${scheme}://127.0.0.1:${port}`,
      { onMessage: () => undefined, onClose: () => undefined },
      ending.signal,
    );
    const [accepted] = (await once(silent, "connection")) as [Socket];
    // A part of the handshake has arrived, and nothing answers.
    await once(accepted, "data");
    const closed = once(accepted, "close");
    accepted.on("error", () => undefined);
    ending.abort(new Error("its time is over"));
    await expect(opening).rejects.toThrow("its time is over");
    await closed;
  },
);

/** Connections that a hub takes with one certificate. */
const TAKEN = 100;

test("a hub at its limit for one certificate ends a connection that is silent, and none that speaks", async () => {
  const pair = await root.issue({
    subject: "CN=hub and edge",
    names: [{ type: "dns", value: "hub.test" }],
    purposes: ["serverAuth", "clientAuth"],
    ...today(),
  });
  const own = { ...tls, ...pair };
  let nowMs = 0;
  const log = createLogger({ level: "silent" });
  const hub = new Hub({
    upstream: {} as Upstream,
    leaseMs: 240,
    timers: { ...machineTimers, monotonic: () => nowMs },
    log,
  });
  const listener = new HubListener({
    timers: machineTimers,
    clock: systemClock,
    hub,
    listen: { host: "127.0.0.1", port: 0 },
    tls: own,
    log,
  });
  const { port } = await listener.listen();
  onTestFinished(async () => await listener.close());
  const closed: number[] = [];
  const open = async (index: number): Promise<HubConnection> =>
    await createHubOpener(() => own)(`wss://127.0.0.1:${port}`, {
      onMessage: () => undefined,
      onClose: () => closed.push(index),
    });
  for (let index = 0; index < TAKEN; index += 1) {
    nowMs += 1;
    await open(index);
  }
  await expect(open(TAKEN)).rejects.toThrow(/socket|hang up|ECONNRESET|closed/i);
  expect(closed).toEqual([TAKEN]);
  // The network was cut in silence: a process does not ask over its earlier connection any more.
  nowMs += 3_000;
  await open(TAKEN + 1);
  await eventually(() => closed.length > 1, "the end of a silent connection");
  expect(closed).toEqual([TAKEN, 0]);
  expect(hub.connections).toBe(TAKEN);
});
