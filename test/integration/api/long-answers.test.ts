/** Long answers over real sockets end within 250 ms of the revocation of their credential or operator. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { committedAt } from "#test/support/edge-processes.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { monotonicMs } from "#test/support/monotonic.ts";
import { createOperator } from "#test/support/operators.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { createEndpoint, createTenant, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useTestApi();
const LIMIT_MS = 250;
/** Number of dead letters. Their export exceeds the socket buffers, so an idle reader blocks it. */
const DEAD_LETTERS = 40_000;

/** The service's ends of connections. It runs in this process. */
const accepted: Socket[] = [];
const onAccept = (message: unknown): void =>
  void accepted.push((message as { readonly socket: Socket }).socket);
beforeAll(() => subscribe("net.server.socket", onAccept));
afterAll(() => unsubscribe("net.server.socket", onAccept));

/** Starts a request and pauses its answer after the first data. */
async function begin(url: string, token: string): Promise<IncomingMessage> {
  const request = get(url, { headers: bearer(token), agent: false });
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  await once(answer, "data");
  answer.pause();
  return answer;
}

/** Returns when the service aborts an answer, by CLOCK_MONOTONIC. */
async function abortOf({ socket }: IncomingMessage): Promise<number> {
  const end = accepted.find(({ remotePort }) => remotePort === socket.localPort);
  await once(end as Socket, "close");
  return monotonicMs();
}

/** Revokes a credential. @returns when that was committed */
async function revoke({ credentialId }: Provisioned): Promise<number> {
  const revoked = await api.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "lost" });
  expect(revoked.status).toBe(200);
  return await committedAt(api, String(revoked.body["revocation_id"]));
}

describe("within 250 ms of a revocation", () => {
  test("an export of dead letters is aborted, even if its client does not read", async () => {
    const tenant = await createTenant(api);
    const { id: endpointId } = await createEndpoint(api, tenant, { state: "DISABLED" });
    await seedDeadLetters(
      { query: async (statement, values) => await sql(api, statement, values) },
      { tenantId: tenant.tenantId, endpointId, count: DEAD_LETTERS },
    );
    const url = `${api.publicUrl}/v1/webhooks/dlq/export`;
    await withoutPause(async () => {
      const reader = await provision(api, { tenantId: tenant.tenantId, scopes: WEBHOOK_SCOPES });
      const answer = await begin(url, await accessToken(api, reader));
      const abortedAt = abortOf(answer);
      const revokedAt = await revoke(reader);
      expect((await abortedAt) - revokedAt).toBeLessThan(LIMIT_MS);
      await expect(text(answer)).rejects.toThrow("aborted");
    });
  });

  test("a stream of deliveries sends its end event", async () => {
    await withoutPause(async () => {
      const tenant = await createTenant(api);
      const answer = await begin(`${api.publicUrl}/v1/webhooks/deliveries/stream`, tenant.token);
      const rest = text(answer).then((received) => ({ received, endedAt: monotonicMs() }));
      const revokedAt = await revoke(tenant);
      const { received, endedAt } = await rest;
      expect(received).toMatch(/event: end\ndata: \{"reason":"revoked"\}\n\n$/);
      expect(endedAt - revokedAt).toBeLessThan(LIMIT_MS);
    });
  });

  test.each([
    ["token", "UPDATE operator_tokens SET revoked_at = now() WHERE operator_id = $1"],
    ["operator", "UPDATE operators SET state = 'REVOKED', revoked_at = now() WHERE id = $1"],
  ])("an export of the compliance log is aborted, for a revoked %s", async (_what, statement) => {
    const holder = new Client({ connectionString: api.database.adminUrl });
    await holder.connect();
    try {
      // The lock blocks the export after its first lines.
      await holder.query("BEGIN; LOCK TABLE clog_tile IN ACCESS EXCLUSIVE MODE");
      await withoutPause(async () => {
        const operator = await createOperator(api, "read");
        const answer = await begin(`${api.adminUrl}/admin/v1/audit/export`, operator.token);
        const abortedAt = abortOf(answer);
        await sql(api, statement, [operator.id]);
        const revokedAt = monotonicMs();
        expect((await abortedAt) - revokedAt).toBeLessThan(LIMIT_MS);
        await expect(text(answer)).rejects.toThrow("aborted");
      });
    } finally {
      await holder.end();
    }
  });
});
