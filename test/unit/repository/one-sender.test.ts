/**
 * Every request to a tenant's target goes through one sender and one address policy. This test lists all other code
 * that opens connections, and where to: each addition must be reviewed.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = new URL("../../../", import.meta.url).pathname;
/** Code that opens a connection: `fetch`, undici, and Node's connecting functions. */
const OPENS = [
  /\bfetch\(/,
  /from "undici"/,
  /import (?!type)[^;]*\b(?:request|get|connect|createConnection|Agent)\b[^;]*from "node:(?:http|https|http2|net|tls)"/,
];
const ALLOWED = [
  // The sender. http-connect and http-proxy open TCP connections for it, http-tls encrypts them.
  "src/webhooks/sending/http-connect.ts",
  "src/webhooks/sending/http-connections.ts",
  "src/webhooks/sending/http-exchange.ts",
  "src/webhooks/sending/http-proxy.ts",
  "src/webhooks/sending/http-sender.ts",
  "src/webhooks/sending/http-tls.ts",
  // Requests to the operator's own services: upstreams of the edge.
  /^src\/edge\//,
  // Requests for the metrics of Temporal's SDK, served on a loopback port of this process.
  "src/temporal/runtime.ts",
  // Scripts of the portal's pages, which run in browsers and call the portal.
  /^src\/portal\/browser\//,
  // The key set of a transmitter, in programs of tenants.
  "src/lib/receiver/ssf-receiver.ts",
  // Programs of operators, tenants, verifiers and contributors, on their own machines.
  /^src\/(?:cli|lib\/(?:client|status-list)|processes\/(?:demo|doctor|embedded)|tools)\//,
];

async function sources(folder: string): Promise<string[]> {
  const entries = await readdir(join(ROOT, folder), { recursive: true });
  return entries.filter((name) => name.endsWith(".ts")).map((name) => `${folder}/${name}`);
}

it("only the sender makes requests to tenants' targets", async () => {
  const found: string[] = [];
  for (const file of [
    ...(await sources("src")),
    ...(await sources("activities")),
    ...(await sources("workflows")),
  ]) {
    const text = await readFile(join(ROOT, file), "utf8");
    if (OPENS.some((pattern) => pattern.test(text))) {
      found.push(file);
    }
  }
  // The pattern matches the known places.
  expect(found).toEqual(
    expect.arrayContaining(["src/webhooks/sending/http-connect.ts", "src/webhooks/sending/http-sender.ts"]),
  );
  const unlisted = found.filter(
    (file) =>
      !ALLOWED.some((allowed) => (typeof allowed === "string" ? allowed === file : allowed.test(file))),
  );
  expect(unlisted).toEqual([]);
});

it("one place creates the sender, and one the policy that api and worker share", async () => {
  const makers = { sender: [] as string[], policy: [] as string[] };
  for (const file of await sources("src")) {
    const text = await readFile(join(ROOT, file), "utf8");
    if (/\bnew HttpSender\(/.test(text)) {
      makers.sender.push(file);
    }
    if (/\bnew AddressPolicy\(|(?<!function )\bconfiguredPolicy\(/.test(text)) {
      makers.policy.push(file);
    }
  }
  // `signet grade` without a service runs on its user's machine and connects to loopback literals only
  // (test/integration/grader/command.test.ts).
  expect(makers.sender.toSorted()).toEqual(["src/cli/grade.ts", "src/processes/engine.ts"]);
  expect(makers.policy.toSorted()).toEqual([
    "src/cli/grade.ts",
    "src/processes/api/webhooks.ts",
    "src/processes/engine.ts",
    "src/webhooks/sending/address-policy.ts",
  ]);
});
