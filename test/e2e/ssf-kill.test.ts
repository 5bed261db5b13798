/** No security event is lost, although the api and the workers are killed again and again. */
import { expect, test } from "vitest";
import { CAEP_EVENTS } from "#domain/security-events.ts";
import { type Answer, askOperators, jsonBody, readAnswer } from "../support/answer.ts";
import type { ServiceUnderTest } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { type SpawnedProcess, spawnSignet } from "../support/processes.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { ACCEPTED, pushStream, streamTenant, verifiedSet } from "../support/ssf.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(8);

const made = useWorld({ retryWindowMs: 600_000 });
const REVOCATIONS = 24;
const KILL_EVERY = 8;
const PATIENCE_MS = 120_000;

/** Returns the answer of a service that may be dead; undefined while it is. */
async function ask(request: () => Promise<Answer>): Promise<Answer> {
  return await eventually(
    async () => {
      const answer = await request().catch(() => undefined);
      return answer !== undefined && answer.status < 500 ? answer : undefined;
    },
    "an answer",
    PATIENCE_MS,
  );
}

test("every revocation that was answered arrives, published once, whatever is killed", async () => {
  const { environment } = made.current;
  const [port, adminPort, metricsPort] = [await freePort(), await freePort(), await freePort()];
  const publicUrl = `http://127.0.0.1:${port}`;
  const settings = {
    ...environment,
    SIGNET_PUBLIC_URL: publicUrl,
    SIGNET_API_LISTEN: `127.0.0.1:${port}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
  };
  const startApi = (): SpawnedProcess => spawnSignet(["api"], settings);
  const startWorker = async (): Promise<SpawnedProcess> =>
    await startWorkerProcess(made.current, { SIGNET_PUBLIC_URL: publicUrl });
  let [api, worker] = [startApi(), await startWorker()];
  const other = await startWorker();
  const operator = {
    adminUrl: `http://127.0.0.1:${adminPort}`,
    token: String(environment["SIGNET_OPERATOR_TOKEN"]),
  };
  const request: ServiceUnderTest["request"] = async (path, init) =>
    await ask(async () => await readAnswer(await fetch(`${publicUrl}${path}`, init)));
  const service = {
    publicUrl,
    request,
    admin: async (method: string, path: string, body?: unknown) =>
      await ask(async () => await askOperators(operator, method, path, body)),
    token: async (parameters: Readonly<Record<string, unknown>>) =>
      await request("/v1/auth/token", { method: "POST", ...jsonBody(parameters) }),
  } as ServiceUnderTest;
  const receiver = await startReceiver({ script: [ACCEPTED] });
  try {
    const tenant = await streamTenant(service);
    const stream = await pushStream(tenant, receiver, { events_requested: [CAEP_EVENTS["session-revoked"]] });
    const victims: Provisioned[] = [];
    for (let count = 0; count < REVOCATIONS; count += 1) {
      victims.push(await provision(service, { tenantId: tenant.tenantId }));
    }
    for (const [index, { credentialId }] of victims.entries()) {
      const revoking = service.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "leaked" });
      if (index % KILL_EVERY === 0) {
        await Promise.all([api.stop("SIGKILL"), worker.stop("SIGKILL")]);
        [api, worker] = [startApi(), await startWorker()];
      }
      expect(await revoking).toMatchObject({ status: 200 });
    }
    const missing = async (): Promise<readonly string[]> => {
      const bodies = new Set(receiver.requests.map(({ rawBody }) => rawBody.toString()));
      const claims = await Promise.all(
        [...bodies].map(async (set) => await verifiedSet(service, set, stream.id)),
      );
      const told = new Set(claims.map(({ sub_id: { sub } }) => sub));
      return victims.map(({ clientId }) => clientId).filter((id) => !told.has(id));
    };
    await eventually(async () => (await missing()).length === 0, "every event", PATIENCE_MS).catch(
      () => undefined,
    );
    expect(await missing()).toEqual([]);
    // A worker that was killed between two revocations has told of none twice, nor have two at once.
    const { rows } = await made.current.sql.query(
      "SELECT count(*)::int AS events FROM events WHERE tenant_id = $1 AND type = 'signet.session_revoked'",
      [tenant.tenantId],
    );
    expect(rows).toEqual([{ events: REVOCATIONS }]);
  } finally {
    await Promise.all([api.stop("SIGKILL"), worker.stop("SIGKILL"), other.stop("SIGKILL"), receiver.close()]);
  }
});
