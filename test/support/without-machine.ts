/**
 * Fails a file of test/unit that opens a socket, or starts a process or a thread: its result would depend on the machine.
 * test/unit/repository/pure-tests.test.ts looks for real time.
 */
import { afterAll, expect } from "vitest";
import { watchMachine } from "./machine-use.ts";

const machine = watchMachine();

afterAll(() => {
  machine.end();
  // oxlint-disable-next-line vitest/no-standalone-expect -- checks each file, from a setup file
  expect(machine.uses, "this file uses sockets, processes or threads: move it to test/machine").toEqual([]);
});
