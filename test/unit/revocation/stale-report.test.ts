import { expect, test } from "vitest";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { StaleReport } from "#revocation/stale-report.ts";

test("any number of rejected requests logs one line at the beginning and one at the end", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  let nowMs = 1_000;
  const report = new StaleReport({ clock: { now: () => nowMs }, log });
  const counted = async (): Promise<number> => (await metrics.revocationStale.get()).values[0]?.value ?? 0;
  const before = await counted();
  report.admitted();
  for (let count = 0; count < 5; count += 1) {
    report.refused();
  }
  nowMs += 700;
  report.admitted();
  report.admitted();
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { level: "error", msg: "tokens are rejected: revocations are currently unknown" },
    { level: "warn", msg: "tokens are admitted again", refused: 5, duration_ms: 700 },
  ]);
  expect(await counted()).toBe(before + 5);
  report.refused();
  expect(lines).toHaveLength(3);
});
