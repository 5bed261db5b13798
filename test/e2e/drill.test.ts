/** Six tasks of a night on call, done with the commands of docs/nights.md against a running `npm start`. */
import { randomBytes, randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OPERATOR_TOKEN_FILE } from "#crypto/development-keys.ts";
import { closeAtOnce, listenOn } from "#runtime/http-server.ts";
import { type Answer, askOperators, jsonBody, readAnswer } from "../support/answer.ts";
import { shellLines } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, grant, provision, type Provisioned } from "../support/factories.ts";
import { allowMinutes } from "../support/limits.ts";
import {
  bash,
  type Home,
  killServersOf,
  makeHome,
  type NpmStart,
  npmStart,
  openTerminal,
  ownSettings,
  type Settings,
} from "../support/npm-start.ts";
import { asTenant, publish, rows, type Tenant, WEBHOOK_SCOPES } from "../support/tenant.ts";

allowMinutes(5);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const WAIT_MS = 60_000;
const NAME = `acme ${randomUUID().slice(0, 8)}`;

/** The service as its callers see it. */
interface Service {
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  request(path: string, init?: RequestInit): Promise<Answer>;
  token(parameters: Readonly<Record<string, unknown>>): Promise<Answer>;
}

function serviceAt(settings: Settings, operatorToken: string): Service {
  const request: Service["request"] = async (path, init) =>
    await readAnswer(await fetch(`http://${settings["SIGNET_API_LISTEN"]}${path}`, init));
  return {
    request,
    admin: async (method, path, body) =>
      await askOperators(
        { adminUrl: `http://${settings["SIGNET_ADMIN_LISTEN"]}`, token: operatorToken },
        method,
        path,
        body,
      ),
    token: async (parameters) => await request("/v1/auth/token", { method: "POST", ...jsonBody(parameters) }),
  };
}

/** Creates a client that needs no certificate. */
async function createClient(
  tenantId: string,
  scopes: readonly string[] = ["credentials:read"],
): Promise<Provisioned> {
  return await provision(service, { tenantId, scopes, environment: "development" });
}

/** Summary of a receipt from api and edge. A busy machine may be slow, but then it is safe. */
const SAFE = /All 2 processes applied the revocation|Slow but safe: /;

let directory: Home;
let kekFile: string;
let settings: Settings;
let start: NpmStart;
let service: Service;
let tenant: Tenant;
let receiver: Server;
/** The receiver's answer to everything. */
let status = 200;
let endpointId: string;

/** Returns the document's line with this text or beginning, with placeholders replaced. */
async function documented(beginning: string, values: Readonly<Record<string, string>> = {}): Promise<string> {
  const lines = await shellLines("docs/nights.md");
  const found =
    lines.find(({ text }) => text === beginning) ?? lines.find(({ text }) => text.startsWith(beginning));
  const line = found?.text;
  if (line === undefined) {
    throw new Error(`docs/nights.md has no line that begins with ${beginning}`);
  }
  return Object.entries(values).reduce((text, [from, to]) => text.replaceAll(from, to), line);
}

/** Runs lines as the operator, or as the tenant. */
async function paste(script: string, more: Settings = {}): Promise<string> {
  const npx = `signet() { npx signet "$@"; }\n${script}`;
  return await bash(npx, { cwd: REPOSITORY, settings: { ...settings, ...more } });
}

async function pasteAsTenant(script: string): Promise<string> {
  return await paste(script, {
    SIGNET_API_URL: `http://${settings["SIGNET_API_LISTEN"]}`,
    SIGNET_CLIENT_ID: tenant.clientId,
    SIGNET_CLIENT_SECRET: tenant.clientSecret,
  });
}

async function untilDelivered(event: string): Promise<void> {
  await eventually(
    async () => {
      const found = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${event}`));
      return found.length > 0 && found.every((delivery) => delivery["state"] === "DELIVERED");
    },
    "the event to be delivered",
    WAIT_MS,
  );
}

beforeAll(async () => {
  directory = await makeHome();
  kekFile = join(directory.home, "..", "kek");
  await writeFile(kekFile, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  settings = {
    ...(await ownSettings(directory.home)),
    SIGNET_CONFIG_DIR: join(directory.home, "profiles"),
    SIGNET_KEK_FILE: kekFile,
  };
  receiver = createServer((request, response) => {
    request.resume();
    // Without it, an automatic retry may come before the commands.
    response.writeHead(status, status === 200 ? {} : { "retry-after": "3600" }).end();
  });
  const { port } = await listenOn(receiver, { host: "127.0.0.1", port: 0 });
  start = npmStart(settings);
  await start.untilPrinted(/^signet ready$/m);
  service = serviceAt(settings, (await readFile(join(directory.home, OPERATOR_TOKEN_FILE), "utf8")).trim());
  const made = await service.admin("POST", "/tenants", { name: NAME, region: "eu" });
  const client = await createClient(String(made.body["id"]), WEBHOOK_SCOPES);
  tenant = asTenant(service, client, await accessToken(service, client));
  const url = `http://127.0.0.1:${port}/hook`;
  const endpoint = await tenant.post("/v1/webhooks/endpoints", { url, events: ["*"] });
  endpointId = String(endpoint.body["id"]);
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${endpointId}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
    WAIT_MS,
  );
});

afterAll(async () => {
  await start.interrupt();
  await killServersOf(directory.home);
  await closeAtOnce(receiver);
  await directory.remove();
});

let late: string;

test("late deliveries are explained", async () => {
  status = 500;
  late = await publish(tenant);
  await eventually(
    async () => rows(await tenant.get("/v1/webhooks/deliveries?state=RETRYING")).length === 1,
    "a first attempt to fail",
    WAIT_MS,
  );
  expect(await paste(await documented("signet find acme", { acme: `"${NAME}"` }))).toContain(tenant.tenantId);
  const values = { "ten_…": tenant.tenantId, "ep_…": endpointId };
  expect(await paste(await documented("signet why ten_…", values))).toContain(NAME);
  expect(await paste(await documented("signet why ep_…", values))).toMatch(/\b500\b/);
});

test("everything since two is replayed once the receiver is fixed", async () => {
  status = 200;
  // Also if it is just past two now.
  const values = { "ep_…": endpointId, "02:00": "1h" };
  const replay = "signet replay --endpoint ep_… --since 02:00";
  expect(await pasteAsTenant(await documented(`${replay} --dry-run`, values))).toMatch(/total +1\b/);
  expect(await pasteAsTenant(await documented(replay, values))).toMatch(/since_delivered +1\b/);
  await untilDelivered(late);
});

test("a leak is stopped by client id, and by the secret itself", async () => {
  const [byId, bySecret] = [await createClient(tenant.tenantId), await createClient(tenant.tenantId)];
  expect(await paste(await documented("signet revoke cl_…", { "cl_…": byId.clientId }))).toMatch(SAFE);
  const line = await documented("signet revoke --secret-stdin");
  const output = await paste(`printf '%s\\n' '${bySecret.clientSecret}' | ${line}`);
  expect(output).toMatch(SAFE);
  expect(output).not.toContain(bySecret.clientSecret);
  for (const client of [byId, bySecret]) {
    expect(await service.token(grant(client))).toMatchObject({ status: 401 });
  }
});

test("it is proved that nothing was lost", async () => {
  expect(await paste(await documented("signet reconcile --since 24h"))).toMatch(/^Verified/);
});

test("the key-encryption key is changed", async () => {
  const old = (await readFile(kekFile, "utf8")).trim();
  const made = (await paste(await documented("openssl rand -base64 32"))).trim();
  await writeFile(kekFile, `${old}\n${made}\n`);
  await writeFile(kekFile, `${made}\n${old}\n`);
  const rewrap = await documented("signet keys rewrap");
  // The service reads the file when it has changed. Until then, it wraps with the old key, and nothing is left to do.
  await eventually(
    async () => /rewrapped +[1-9]/.test(await paste(rewrap)),
    "the new key to be used",
    WAIT_MS,
  );
  expect(await paste(rewrap)).toMatch(/rewrapped +0\b/);
  await writeFile(kekFile, `${made}\n`);
  await untilDelivered(await publish(tenant));
});

test("a worker is added", async () => {
  const worker = openTerminal(
    (await documented("SIGNET_ENV=development")).replace("127.0.0.1:9471", "127.0.0.1:0"),
    { cwd: REPOSITORY, settings },
  );
  try {
    await eventually(
      async () => /alive 2\b/.test(await paste("signet top --once")),
      "two workers to be alive",
      WAIT_MS,
    );
  } finally {
    await worker.interrupt();
  }
});
