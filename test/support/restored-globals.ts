/**
 * Fails a test file that leaves its process changed: with `isolate: false`, the next files run in the same process.
 * Changes that imports make are allowed, because every file may import every module.
 */
import { getGlobalDispatcher } from "undici";
import { afterAll, beforeAll, expect } from "vitest";

/** Returns what tests tend to change: by value, or by identity for functions. */
function globals() {
  // A logger listens for the exit until it is collected.
  const events = process.eventNames().filter((name) => typeof name === "string" && !/exit$/i.test(name));
  return {
    environment: { ...process.env },
    directory: process.cwd(),
    arguments: [process.argv, process.execArgv].map((list) => [...list]),
    parent: process.ppid,
    exitCode: process.exitCode,
    listeners: Object.fromEntries(events.map((name) => [String(name), process.listenerCount(name)])),
    // Libraries define names that begin with two underscores when they are first imported.
    names: Object.getOwnPropertyNames(globalThis).filter((name) => !name.startsWith("__")),
    stackTraceLimit: Error.stackTraceLimit,
    functions: [
      fetch,
      Date,
      Date.now,
      Math.random,
      Reflect.get(performance, "now") as unknown,
      setTimeout,
      setInterval,
      setImmediate,
      ...[process.stdout, process.stderr].map((stream) => Reflect.get(stream, "write") as unknown),
    ],
    dispatcher: getGlobalDispatcher() === dispatcher,
  };
}

const dispatcher = getGlobalDispatcher();
let before: ReturnType<typeof globals>;

beforeAll(() => {
  before = globals();
});
afterAll(() => {
  // oxlint-disable-next-line vitest/no-standalone-expect -- checks each file, from a setup file
  expect(globals(), "this file leaves its process changed").toEqual(before);
});
