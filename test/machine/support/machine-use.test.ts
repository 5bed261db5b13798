/** Node reports every use of the machine that files of test/unit must not make. */
import { execFile, fork, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { watchMachine } from "#test/support/machine-use.ts";

/** Waits until a server of this process listens, and passes its port to `use`. */
async function listening(use: (port: number) => Promise<unknown> = async () => await Promise.resolve()) {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  await use((server.address() as AddressInfo).port);
  server.close();
}

it.each<[string, string, () => Promise<unknown>]>([
  ["a listener", "tracing:net.server.listen:asyncStart", async () => await listening()],
  [
    "a connection",
    "net.client.socket",
    async () => await listening(async (port) => await once(connect(port, "127.0.0.1"), "close")),
  ],
  [
    "a request",
    "net.client.socket",
    async () =>
      await listening(async (port) => await fetch(`http://127.0.0.1:${port}`).catch(() => undefined)),
  ],
  ["a UDP socket", "udp.socket", async () => await once(createSocket("udp4").close(), "close")],
  ["spawn", "child_process", async () => await once(spawn("true"), "exit")],
  ["execFile", "child_process", async () => await once(execFile("true"), "exit")],
  ["fork", "child_process", async () => await once(fork("/dev/null"), "exit")],
  ["a thread", "worker_threads", async () => await once(new Worker("", { eval: true }), "exit")],
])("%s is noticed on the channel %s", async (_what, channel, use) => {
  const machine = watchMachine();
  await use();
  machine.end();
  expect(machine.uses.map((text) => text.split(" ")[0])).toContain(channel);
});

it("a use is reported with its place, and none after the end", async () => {
  const machine = watchMachine();
  await once(spawn("true"), "exit");
  machine.end();
  await once(spawn("true"), "exit");
  expect(machine.uses).toEqual([
    expect.stringMatching(/^child_process at .*test\/machine\/support\/machine-use\.test\.ts:\d+/),
  ]);
});
