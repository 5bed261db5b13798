import { expect, test } from "vitest";
import { crashesIn } from "#test/support/postgres-log.ts";

test("a crash of PostgreSQL is told with its signal and its statement", () => {
  const log = [
    "2026-11-29 16:50:21.100 UTC [17] LOG:  client backend (PID 18383) was terminated by signal 11: Segmentation fault",
    "2026-11-29 16:50:21.100 UTC [17] DETAIL:  Failed process was running: UPDATE deliveries",
    "\t  SET carrier = NULL",
    "\t  WHERE id = $1",
    "2026-11-29 16:50:21.101 UTC [17] LOG:  terminating any other active server processes",
    "2026-11-29 16:51:00.000 UTC [17] LOG:  background worker (PID 9) was terminated by signal 9: Killed",
    "",
  ].join("\n");
  expect(crashesIn(log)).toEqual([
    "signal 11: Segmentation fault: Failed process was running: UPDATE deliveries SET carrier = NULL WHERE id = $1",
    "signal 9: Killed: no statement",
  ]);
});
