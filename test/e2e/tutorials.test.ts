/** The applications of docs/tutorials, each with its packages from the registry, beside a real api and worker. */
import { randomUUID } from "node:crypto";
import { cp, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, inject, test } from "vitest";
import { signDelivery } from "#lib/receiver/sign.ts";
import { type TestApi, useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { packPackages } from "../support/packages.ts";
import { productionImage, runProcess, type SpawnedProcess, spawnProcess } from "../support/processes.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { lacks } from "../support/skips.ts";
import { createTenant, type Tenant } from "../support/tenant.ts";

const MINUTES = 15;
allowMinutes(MINUTES);

const EXAMPLES = join(import.meta.dirname, "..", "..", "docs", "examples");
const NO_PACKAGES = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
/** A dead letter is reported after its minute. */
const REPORTED_MS = 240_000;

interface Tutorial {
  readonly name: string;
  /** Directory below docs/examples. */
  readonly folder: string;
  /** Succeeds if the runtime and its registry are there. */
  readonly probe: string;
  /** Commands that install and build it. */
  readonly prepare: readonly (readonly string[])[];
  readonly start: (port: number) => readonly string[];
}

const NPM_INSTALL = ["npm", "install", ...NO_PACKAGES];
/** The client's tarball. */
let client: Promise<string> | undefined;

async function packedClient(): Promise<string> {
  const directory = await mkdtemp(join(inject("runDirectory"), "packages-"));
  return (await packPackages(directory, join(productionImage(), "dist"))).client.tarball;
}

const TUTORIALS: readonly Tutorial[] = [
  {
    name: "Express",
    folder: "express",
    probe: "npm view express version",
    prepare: [NPM_INSTALL],
    start: () => ["node", "app.mjs"],
  },
  {
    name: "FastAPI",
    folder: "fastapi",
    probe: "python3 -m pip index versions standardwebhooks",
    prepare: [
      ["python3", "-m", "venv", ".venv"],
      [".venv/bin/pip", "install", "--quiet", "-r", "requirements.txt"],
    ],
    start: (port) => [".venv/bin/uvicorn", "app:app", "--port", String(port)],
  },
  {
    name: "Go",
    folder: "net-http",
    probe: "go list -m golang.org/x/oauth2@latest",
    prepare: [["go", "build", "-o", "shop", "."]],
    start: () => ["./shop"],
  },
  {
    name: "Next.js",
    folder: "nextjs",
    probe: "npm view next version",
    prepare: [NPM_INSTALL, ["npx", "next", "build"]],
    start: (port) => ["node_modules/.bin/next", "start", "--hostname", "127.0.0.1", "--port", String(port)],
  },
];

const isLacking = ({ name, probe }: Tutorial): boolean => lacks(`the tutorial for ${name}`, probe);

/** Creates a database with the table of the shop. */
async function createShopDatabase(api: TestApi): Promise<string> {
  const name = `shop_${randomUUID().replaceAll("-", "")}`;
  const schema = await readFile(join(EXAMPLES, "express", "schema.sql"), "utf8");
  const url = new URL(api.database.adminUrl);
  for (const [path, statement] of [
    [url.pathname, `CREATE DATABASE ${name}`],
    [`/${name}`, schema],
  ] as const) {
    url.pathname = path;
    const client = new Client({ connectionString: url.href });
    await client.connect();
    await client.query(statement);
    await client.end();
  }
  return url.href;
}

/** Copies an application, installs its packages and builds it. */
async function install({ folder, prepare }: Tutorial): Promise<string> {
  const directory = await mkdtemp(join(inject("runDirectory"), `${folder}-`));
  await cp(join(EXAMPLES, folder), directory, { recursive: true });
  if (folder === "nextjs") {
    await cp(join(EXAMPLES, "express", "shop.mjs"), join(directory, "lib", "shop.mjs"));
  }
  for (const step of prepare) {
    const command = step === NPM_INSTALL ? [...step, await (client ??= packedClient())] : step;
    await runProcess({ command, cwd: directory, environment: { ...process.env, NODE_ENV: "production" } });
  }
  return directory;
}

interface Shop {
  readonly tenant: Tenant;
  readonly url: string;
  readonly secret: string;
  readonly process: SpawnedProcess;
}

/** Registers the shop's endpoint, starts the shop, and waits until it has answered the ping. */
async function open(api: TestApi, tutorial: Tutorial): Promise<Shop> {
  const cwd = await install(tutorial);
  const [port, tenant] = [await freePort(), await createTenant(api)];
  const url = `http://127.0.0.1:${port}`;
  const events = ["order.paid", "delivery.dead_lettered"];
  const made = await tenant.post("/v1/webhooks/endpoints", { url: `${url}/hook`, events });
  const { id, secret } = made.body as { id: string; secret: string };
  const credential = join(cwd, "credential.json");
  const { clientId, clientSecret } = tenant;
  await writeFile(
    credential,
    JSON.stringify({ client_id: clientId, client_secret: clientSecret, version: 1 }),
    { mode: 0o600 },
  );
  const child = spawnProcess({
    command: tutorial.start(port),
    cwd,
    environment: {
      SIGNET_URL: api.publicUrl,
      SIGNET_CREDENTIAL_FILE: credential,
      SIGNET_CLIENT_ID: clientId,
      SIGNET_CLIENT_SECRET: clientSecret,
      WEBHOOK_SECRET: secret,
      DATABASE_URL: await createShopDatabase(api),
      PORT: String(port),
      HOME: cwd,
    },
  });
  await eventually(async () => (await fetch(`${url}/orders`)).status > 0, "the shop to listen");
  await tenant.post(`/v1/webhooks/endpoints/${id}/verify`);
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${id}`)).body["state"] === "ACTIVE",
    "the shop's endpoint to be ACTIVE",
  );
  return { tenant, url, secret, process: child };
}

async function post(
  url: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return await fetch(url, {
    method: "POST",
    body,
    headers: { "content-type": "application/json", ...headers },
  });
}

async function order({ url }: Shop): Promise<{ readonly order: string; readonly event: string }> {
  const answer = await post(`${url}/orders`, '{"item":"tea"}');
  expect(answer.status).toBe(201);
  return (await answer.json()) as { order: string; event: string };
}

/** Waits until the shop has sent the order's receipt, and returns how many it has sent. */
async function receipts({ process }: Shop, id: string): Promise<number> {
  const sent = (): number => process.stdout().split(`receipt for order ${id}`).length - 1;
  return await eventually(() => sent() || undefined, `the receipt for ${id}`);
}

/** Sends an `order.paid` as the service would. Returns the status of the answer. */
async function deliver(
  { url, secret }: Shop,
  { order: id, event }: { readonly order: string; readonly event: string },
  { age = 0, suffix = "" } = {},
): Promise<number> {
  const timestampSeconds = Math.floor(Date.now() / 1_000) - age;
  const body = JSON.stringify({
    id: event,
    type: "order.paid",
    sent_at: timestampSeconds,
    data: { order: id },
  });
  const { v1 } = signDelivery({ secret, body: Buffer.from(body), id: event, timestampSeconds });
  const answer = await post(`${url}/hook`, body + suffix, {
    "webhook-id": event,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": v1,
  });
  return answer.status;
}

/** Registers a receiver that answers only its ping, until it is repaired. */
async function addFailingReceiver({ tenant }: Shop) {
  const receiver = await startReceiver({ script: [{ kind: "answer" }, { kind: "answer", status: 500 }] });
  const made = await tenant.post("/v1/webhooks/endpoints", { url: receiver.url, events: ["order.paid"] });
  const endpoint = `endpoint_id=${String(made.body["id"])}`;
  await eventually(
    async () =>
      (await tenant.get(`/v1/webhooks/endpoints/${String(made.body["id"])}`)).body["state"] === "ACTIVE",
    "the other endpoint to be ACTIVE",
  );
  const state = async (name: string, cycle: number): Promise<string> =>
    await eventually(
      async () => {
        const { body } = await tenant.get(`/v1/webhooks/deliveries?${endpoint}&state=${name}`);
        const deliveries = body["data"] as readonly { readonly id: string; readonly cycle: number }[];
        return deliveries.find((delivery) => delivery.cycle === cycle)?.id;
      },
      `the delivery to be ${name} in cycle ${cycle}`,
      REPORTED_MS,
    );
  return { receiver, state };
}

const PRESENT = TUTORIALS.filter((tutorial) => !isLacking(tutorial));

describe.skipIf(PRESENT.length === 0)("beside a real service, the shop in", () => {
  const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });

  // Together, because each waits for the report of a dead letter, which follows after its minute.
  test.concurrent.for(TUTORIALS)(
    "$name publishes, verifies, handles each event once, and replays a dead letter",
    async (tutorial, { skip }) => {
      skip(!PRESENT.includes(tutorial));
      const shop = await open(api, tutorial);
      const first = await order(shop);
      expect(await receipts(shop, first.order)).toBe(1);

      expect([await deliver(shop, first), await deliver(shop, first)]).toEqual([200, 200]);
      expect(await deliver(shop, first, { age: 600 })).toBe(401);
      expect(await deliver(shop, first, { suffix: " " })).toBe(401);
      expect((await post(`${shop.url}/hook`, "{}")).status).toBeGreaterThanOrEqual(400);

      const other = await addFailingReceiver(shop);
      const second = await order(shop);
      await receipts(shop, second.order);
      // Events are handled in the order of their arrival.
      expect(await receipts(shop, first.order)).toBe(1);
      const dead = await other.state("DEAD_LETTERED", 1);
      other.receiver.answer([{ kind: "answer" }]);
      expect(await other.state("DELIVERED", 2)).toBe(dead);
      await eventually(() => shop.process.stdout().includes(`replayed ${dead}`), "the shop's report");
      await other.receiver.close();
      await shop.process.stop();
    },
  );
});
