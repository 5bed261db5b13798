/** `signet listen` as a process: what it registers, verifies, forwards and cleans up. */
import { afterEach, beforeAll, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { type RunningCommand, startSignet } from "#test/support/signet-command.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { createTenant, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });

let tenant: Tenant;
let environment: Environment;
const running = new Set<RunningCommand>();

beforeAll(async () => {
  tenant = await createTenant(api);
  environment = {
    SIGNET_API_URL: api.publicUrl,
    SIGNET_CLIENT_ID: tenant.clientId,
    SIGNET_CLIENT_SECRET: tenant.clientSecret,
    SIGNET_CONFIG_DIR: "/nonexistent",
  };
});

afterEach(async () => {
  for (const command of running) {
    command.kill();
    await command.ended;
  }
  running.clear();
});

async function listen(...options: readonly string[]): Promise<RunningCommand> {
  const command = startSignet(["listen", ...options], environment);
  running.add(command);
  await eventually(() => /Ready/.test(command.stdout() + command.stderr()), "signet listen");
  return command;
}

async function endpoints(): Promise<readonly { id: string; url: string }[]> {
  const { body } = await tenant.get("/v1/webhooks/endpoints");
  return (body as { data: { id: string; url: string }[] }).data;
}

async function publish(type: string, data: object): Promise<void> {
  expect(await tenant.post("/v1/events", { type, data })).toMatchObject({ status: 202 });
}

function lines(command: RunningCommand): Record<string, unknown>[] {
  return command
    .stdout()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test("it verifies and prints published events, and Ctrl-C removes the endpoint", async () => {
  const command = await listen();
  expect(await endpoints()).toHaveLength(1);
  await publish("listen.first", { run: 7 });
  await eventually(() => command.stdout().includes("listen.first"), "the delivery");
  expect(command.stdout()).toMatch(
    /listen\.first {2}dlv_\w+ {2}attempt 1 {2}verified \(v1\) {2}200\n {2}\{\n {4}"run": 7/,
  );
  // Not a terminal: no colours.
  expect(command.stdout()).not.toContain("\u001b");
  command.interrupt();
  expect(await command.ended).toMatchObject({ code: 0, stderr: "" });
  expect(await endpoints()).toEqual([]);
});

test("--json prints one object per line, and --count stops it", async () => {
  const command = await listen("--json", "--count", "1", "--events", "listen.json");
  await publish("listen.other", {});
  await publish("listen.json", { text: "\u001b[2J" });
  expect((await command.ended).code).toBe(0);
  expect(lines(command).map(({ event_type: type }) => type)).toEqual(["ping", "listen.json"]);
  expect(lines(command)[1]).toMatchObject({
    verified: true,
    scheme: "v1",
    problem: null,
    repeated: false,
    status: 200,
    payload: { data: { text: "\u001b[2J" } },
  });
  expect(command.stdout()).not.toContain("\u001b");
  expect(await endpoints()).toEqual([]);
});

test("a forged request is rejected, shown as such, and not forwarded", async () => {
  const target = await startReceiver();
  try {
    const command = await listen("--json", "--forward-to", `${target.url}/app`);
    const [endpoint] = await endpoints();
    const body = Buffer.from(
      JSON.stringify({ id: "evt_1", sent_at: Math.floor(Date.now() / 1_000), data: {} }),
    );
    const timestampSeconds = Math.floor(Date.now() / 1_000);
    const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const { sha256, v1 } = signDelivery({ secret, body, id: "evt_1", timestampSeconds });
    const response = await fetch(endpoint?.url ?? "", {
      method: "POST",
      headers: {
        "x-service-signature-256": sha256,
        "x-service-timestamp": String(timestampSeconds),
        "x-service-event-type": "listen.forged",
        "webhook-id": "evt_1",
        "webhook-timestamp": String(timestampSeconds),
        "webhook-signature": v1,
      },
      body,
    });
    expect(response.status).toBe(401);
    const forged = await eventually(
      () => lines(command).find(({ event_type: type }) => type === "listen.forged"),
      "the forged request",
    );
    expect(forged).toMatchObject({ verified: false, problem: "SIGNATURE_INVALID", payload: null });
    expect(target.requests).toEqual([]);
    expect((await fetch(endpoint?.url ?? "")).status).toBe(405);
  } finally {
    await target.close();
  }
});

test("the user's program gets the original bytes and headers, and its answer counts", async () => {
  const target = await startReceiver();
  try {
    const command = await listen("--json", "--forward-to", `${target.url}/app`);
    await publish("listen.forwarded", { exact: 1 });
    await eventually(
      () => lines(command).some(({ event_type: type }) => type === "listen.forwarded"),
      "the delivery",
    );
    expect(target.requests).toHaveLength(1);
    const [request] = target.requests;
    expect(request?.headers["webhook-signature"]).toMatch(/^v1,/);
    const secret = /whsec_\S+/.exec(command.stderr())?.[0] ?? "";
    expect(secret).not.toBe("");
  } finally {
    await target.close();
  }
});

test("an attempt fails if the user's program does not answer", async () => {
  const command = await listen("--json", "--forward-to", `http://127.0.0.1:${await freePort()}/`);
  await publish("listen.nobody", {});
  const delivery = await eventually(
    () => lines(command).find(({ event_type: type }) => type === "listen.nobody"),
    "the delivery",
  );
  expect(delivery).toMatchObject({ verified: true, status: 502 });
  expect(command.stderr()).toContain("did not answer");
});

test("the next run removes a killed one's endpoint, but not a running one's", async () => {
  const killed = await listen();
  const kept = await listen();
  killed.kill();
  await killed.ended;
  expect(await endpoints()).toHaveLength(2);
  const next = await listen();
  expect(await endpoints()).toHaveLength(2);
  for (const command of [kept, next]) {
    command.interrupt();
    expect((await command.ended).code).toBe(0);
  }
  expect(await endpoints()).toEqual([]);
});

test("a remote service cannot reach this machine, which it reports before registering anything", async () => {
  const command = startSignet(["listen"], { ...environment, SIGNET_API_URL: "https://signet.example" });
  const { code, stderr } = await command.ended;
  expect(code).toBe(1);
  expect(stderr).toContain("--url");
});
