/** The route table's file while it runs. */
import { randomBytes } from "node:crypto";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { RouteFile } from "#edge/route-file.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { certificateFiles } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";

const files = certificateFiles();
afterAll(files.remove);

const route = (path: string) => ({ method: "GET", path, scope: "inference:read", upstream: "data" });
const table = (upstream: object, ...paths: readonly string[]): string =>
  JSON.stringify({
    upstreams: { data: { url: "http://127.0.0.1:9", ...upstream } },
    routes: paths.map(route),
  });
const key = (): string => randomBytes(32).toString("base64");
const refused = async () => (await metrics.edgeRoutesRefused.get()).values[0]?.value;

test("a table that waits for one of its files is in use once the file is there", async () => {
  const path = files.write("routes.json", table({ identity_key: key() }, "/a"));
  const lines: string[] = [];
  const log = createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
  const environment = () => undefined;
  const opened = await RouteFile.open({ path, environment, checksOnly: false, log }, async () => {
    await Promise.resolve();
  });
  onTestFinished(() => opened.close());
  files.write("routes.json", table({ identity_key_file: "data.key" }, "/a", "/b"));
  await eventually(() => opened.problems.length > 0, "the refusal");
  expect(opened.table).toHaveLength(1);
  expect(await refused()).toBe(1);
  await opened.reload();
  files.write("data.key", key());
  await eventually(() => opened.table.length === 2, "the table to be in use");
  expect(opened.problems).toEqual([]);
  expect(await refused()).toBe(0);
  expect(lines.filter((line) => line.includes("unusable"))).toHaveLength(1);
});
