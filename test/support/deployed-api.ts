/** A deployment as its users see it: tenants through HTTP, operators through HTTP and the `temporal` program. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, inject, onTestFailed, onTestFinished } from "vitest";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import { type Answer, askOperators, jsonBody, readAnswer, unlessStale } from "./answer.ts";
import type { ServiceUnderTest } from "./api.ts";
import { thumbprint } from "./certificates.ts";
import type { Deployment } from "./deployed-service.ts";
import { eventually } from "./eventually.ts";
import { call, callOnce, type CallAnswer, type CallOptions } from "./https-request.ts";
import { type Receiver, type ReceiverOptions, startReceiver } from "./receiver-server.ts";
import { untilTaken } from "./temporal-cli.ts";
import { createTenant, type Json, publish, rows, type Tenant } from "./tenant.ts";

const run = promisify(execFile);
const COMMAND_MS = 30_000;

export interface DeployedApi extends ServiceUnderTest {
  readonly deployment: Deployment;
  /** Binds each provisioned credential to the first client certificate, as production requires. */
  readonly credential: Json;
  /** Sends a request to the api's mutual TLS listener, with the first client certificate unless `pair` is given. */
  overTls(path: string, options?: CallOptions): Promise<CallAnswer>;
  /** Sends a request to an edge in the same way. */
  edge(index: number, path: string, options?: CallOptions): Promise<CallAnswer>;
  /** Like `edge`, but does not repeat the request while the edge cannot hear revocations. */
  edgeOnce(index: number, path: string, options?: CallOptions): Promise<CallAnswer>;
  /** Runs the `temporal` program in the deployment's namespace. Repeats it while the server is busy. */
  temporal(...args: readonly string[]): Promise<string>;
  /** Runs `signet` with the deployment's settings. Rejects if it fails. */
  signet(...line: readonly string[]): Promise<string>;
}

/** Returns a client of the deployment (default: that of the run). Tenants connect by mutual TLS. */
export function deployedApi(deployment: Deployment = inject("deployment")): DeployedApi {
  const { publicUrl, adminUrl, operatorToken, ca, clients, database, temporal } = deployment;
  const { cert, key } = clients.first;
  const tlsFetch = createTlsFetch({ cert, key, ca });
  const over = (port = 0, options: CallOptions = {}): CallOptions => ({
    port,
    ca,
    pair: clients.first,
    ...options,
  });
  const api: DeployedApi = {
    deployment,
    publicUrl,
    database,
    credential: { certificate_thumbprints: [thumbprint(clients.first)] },
    request: async (path, init) =>
      await unlessStale(
        async () =>
          await readAnswer(await tlsFetch(`https://127.0.0.1:${deployment.apiTlsPort}${path}`, init ?? {})),
      ),
    admin: async (method, path, body) =>
      await askOperators({ adminUrl, token: operatorToken }, method, path, body),
    token: async (parameters) =>
      await api.request("/v1/auth/token", { method: "POST", ...jsonBody(parameters) }),
    overTls: async (path, options) => await call(path, over(deployment.apiTlsPort, options)),
    edge: async (index, path, options) => await call(path, over(deployment.edgePorts[index], options)),
    edgeOnce: async (index, path, options) =>
      await callOnce(path, over(deployment.edgePorts[index], options)),
    temporal: async (...args) =>
      await untilTaken(async () => {
        const where = ["--address", temporal.address, "--namespace", temporal.namespace];
        const { stdout } = await run(inject("temporalBinary"), [...args, ...where], {
          // HOME is the run's directory, so that the user's CLI settings are not read.
          env: { PATH: process.env["PATH"] ?? "", HOME: inject("runDirectory") },
          timeout: COMMAND_MS,
        });
        return stdout;
      }),
    signet: async (...line) => {
      const main = `${deployment.image}/dist/src/processes/main.js`;
      const { stdout } = await run(process.execPath, [main, ...line], {
        env: { PATH: process.env["PATH"] ?? "", ...deployment.environment },
        timeout: COMMAND_MS,
      });
      return stdout;
    },
  };
  return api;
}

/** Starts a receiver that is closed at the end of the test. */
export async function receiverOf(options: ReceiverOptions = {}): Promise<Receiver> {
  const receiver = await startReceiver(options);
  onTestFinished(async () => await receiver.close());
  onTestFailed(() => {
    const requests = receiver.requests.map(({ method, path, headers }) => ({ method, path, headers }));
    console.error("the receiver got", JSON.stringify(requests.slice(-5), undefined, 2));
  });
  return receiver;
}

/** A verified endpoint, registered through the API. */
export interface VerifiedEndpoint {
  readonly tenant: Tenant;
  readonly id: string;
  readonly secret: string;
  readonly receiver: Receiver;
}

/** Creates a tenant with an endpoint that has acknowledged its ping; the receiver's record starts empty. */
export async function verifiedEndpoint(
  api: DeployedApi,
  settings: Json = {},
  scopes?: readonly string[],
): Promise<VerifiedEndpoint> {
  const receiver = await receiverOf();
  const tenant = await createTenant(api, scopes);
  const body = { url: `${receiver.url}/hook`, events: ["inference.completed"], ...settings };
  const answer = await tenant.post("/v1/webhooks/endpoints", body);
  expect(answer).toMatchObject({ status: 201, body: { state: "PENDING" } });
  const id = String(answer.body["id"]);
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${id}`)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  receiver.clear();
  return { tenant, id, secret: String(answer.body["secret"]), receiver };
}

/** Waits until a delivery has these members. */
export async function untilDelivery(tenant: Tenant, id: unknown, wanted: Json): Promise<Json> {
  let last: Answer | undefined;
  let found: Json | undefined;
  onTestFailed(() => {
    // A test waits for many states, and one of them did not come.
    if (found === undefined) {
      console.error("the delivery was last", last?.text);
    }
  });
  found = await eventually(
    async () => {
      last = await tenant.get(`/v1/webhooks/deliveries/${String(id)}`);
      const { body } = last;
      return Object.entries(wanted).every(([name, value]) => body[name] === value) ? body : undefined;
    },
    `delivery ${String(id)} to be ${JSON.stringify(wanted)}`,
  );
  return found;
}

/** Publishes one event and returns the id of its only delivery. */
export async function publishOne(tenant: Tenant, event: Json = {}): Promise<string> {
  const eventId = await publish(tenant, event);
  const [delivery, ...others] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${eventId}`));
  expect(others).toEqual([]);
  return String(delivery?.["id"]);
}

/** Makes all attempts that are left at once, through the API, until the delivery is a dead letter. */
export async function exhaust(tenant: Tenant, id: string, attempts = 17): Promise<Json> {
  for (let made = 0; made < attempts - 1;) {
    const before = made;
    made = await eventually(async () => {
      const { state, attempt_count: count } = (await tenant.get(`/v1/webhooks/deliveries/${id}`)).body;
      // On a busy machine, an attempt by schedule may come between.
      return state === "RETRYING" && Number(count) > before && Number(count);
    }, `more than ${before} attempts of ${id}`);
    expect(await tenant.post(`/v1/webhooks/deliveries/${id}/retry`)).toMatchObject({ status: 202 });
  }
  return await untilDelivery(tenant, id, { state: "DEAD_LETTERED", attempt_count: attempts });
}
