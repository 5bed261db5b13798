/** Prometheus' own checker accepts what deploy/prometheus has, and its tests of the rules pass. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { NO_PROMTOOL, promtool } from "#test/support/promtool.ts";

const DIRECTORY = join(import.meta.dirname, "..", "..", "..", "deploy", "prometheus");

it.skipIf(NO_PROMTOOL).each([
  ["the rules", ["check", "rules", join(DIRECTORY, "alerts.yml")]],
  ["the scrape configuration", ["check", "config", join(DIRECTORY, "prometheus.yml")]],
  ["tests that each alert fires and stays quiet", ["test", "rules", join(DIRECTORY, "alerts.test.yml")]],
])("promtool accepts %s", async (_what, args) => {
  const { code, output } = await promtool(args);
  expect(code, output).toBe(0);
});
