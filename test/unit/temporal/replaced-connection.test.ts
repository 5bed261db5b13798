import pino from "pino";
import { expect, test } from "vitest";
import { ReplacedConnection } from "#temporal/replaced-connection.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

const HOUR_MS = 3_600_000;

function connectionOf() {
  const state = { closed: false };
  const close = async (): Promise<void> => {
    state.closed = true;
    await Promise.resolve();
  };
  return { state, close, setApiKey: () => undefined };
}

/** Replaces a connection that does not respond. @returns whether it is closed at once */
async function closesAtOnce(callsLastMs: number): Promise<boolean> {
  const [dead, fresh] = [connectionOf(), connectionOf()];
  const replaced = new ReplacedConnection(dead, {
    timers: time,
    connect: async () => await Promise.resolve(fresh),
    probe: async (connection) => {
      await (connection === dead ? Promise.reject(new Error("silent")) : Promise.resolve());
    },
    callsLastMs,
    log: pino({ level: "silent" }),
  });
  const job = replaced.watch();
  await job.run();
  await job.run();
  expect(replaced.connection.state).toBe(fresh.state);
  return dead.state.closed;
}

test("a connection whose calls are retried is not closed while they may be", async () => {
  expect(await closesAtOnce(HOUR_MS)).toBe(false);
  expect(await closesAtOnce(0)).toBe(true);
});
