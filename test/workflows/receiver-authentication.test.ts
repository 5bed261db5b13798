/**
 * An endpoint's headers and authentication, from the tenant's request to the receiver. Pings and deliveries use them, a
 * change applies to the next request, and workflow histories contain none of them.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Authentication } from "#webhooks/sending/authentication.ts";
import type { SettingsInput } from "#webhooks/endpoints/settings.ts";
import { verifyWorkflowId } from "#workflows/messages.ts";
import { createAuthority } from "../integration/delivery/http-certificates.ts";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const authority = createAuthority();
const directory = mkdtempSync(join(tmpdir(), "signet-target-ca-"));
const caFile = join(directory, "ca.pem");
writeFileSync(caFile, `# The receivers' own authority\n${authority.cert}`);
const made = useWorld({ environment: { SIGNET_TARGET_CA_FILE: caFile } });

beforeAll(async () => {
  await made.current.startWorker();
});
afterAll(() => {
  authority.remove();
  rmSync(directory, { recursive: true });
});

async function register(
  url: string,
  settings: Pick<SettingsInput, "headers" | "authentication">,
): Promise<{ readonly tenant: string; readonly id: string }> {
  const world = made.current;
  const tenant = await world.createTenant();
  const { endpoint } = await world.endpoints.register(tenant, registrationOf(url, settings), TEST_CALLER);
  await eventually(
    async () => (await world.endpoints.find(tenant, endpoint.id)).state === "ACTIVE" || undefined,
    `endpoint ${endpoint.id}`,
  );
  return { tenant, id: endpoint.id };
}

async function deliver(
  tenant: string,
): Promise<{ readonly id: string; readonly workflow_id: string | null }> {
  const { deliveries } = await made.current.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  return await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
}

async function historyText(workflowId: string): Promise<string> {
  return await eventually(
    async () => JSON.stringify(await made.current.temporal.workflow.getHandle(workflowId).fetchHistory()),
    `the workflow ${workflowId}`,
  );
}

describe("an endpoint with headers and a secret header", () => {
  test("gets both with its ping and its deliveries; a change applies to the next request", async () => {
    const receiver = await startReceiver();
    const { tenant, id } = await register(receiver.url, {
      headers: { "X-Environment": "staging" },
      authentication: { type: "header", name: "Authorization", value: "Bearer canary-1" },
    });
    const delivery = await deliver(tenant);
    await made.current.endpoints.update(
      tenant,
      id,
      { authentication: { type: "header", name: "Authorization", value: "Bearer canary-2" } },
      TEST_CALLER,
    );
    await deliver(tenant);
    await made.current.endpoints.update(tenant, id, { authentication: null, headers: null }, TEST_CALLER);
    await deliver(tenant);
    const seen = receiver.requests.map(({ headers }) => [headers.authorization, headers["x-environment"]]);
    expect(seen).toEqual([
      ["Bearer canary-1", "staging"],
      ["Bearer canary-1", "staging"],
      ["Bearer canary-2", "staging"],
      [undefined, undefined],
    ]);
    const histories = [verifyWorkflowId(id, 1), delivery.workflow_id ?? ""];
    for (const workflowId of histories) {
      expect(await historyText(workflowId)).not.toMatch(/canary|staging/);
    }
    await receiver.close();
  });
});

describe("an endpoint with OAuth 2.0 client credentials", () => {
  test("gets the same token with its ping and its deliveries; without a token the attempt fails as such", async () => {
    const receiver = await startReceiver();
    const tokens = await startReceiver({
      script: [{ kind: "answer", body: '{"access_token":"t1","token_type":"Bearer","expires_in":3600}' }],
    });
    const authentication = (url: string): Authentication => ({
      type: "oauth2_client_credentials",
      token_url: url,
      client_id: "client",
      client_secret: "canary-secret",
    });
    const { tenant, id } = await register(receiver.url, { authentication: authentication(tokens.url) });
    await deliver(tenant);
    expect(receiver.requests.map(({ headers }) => headers.authorization)).toEqual(["Bearer t1", "Bearer t1"]);
    expect(tokens.requests).toHaveLength(1);
    tokens.answer([{ kind: "answer", status: 401 }]);
    // A new secret drops the old one's token.
    await made.current.endpoints.update(
      tenant,
      id,
      { authentication: authentication(tokens.url) },
      TEST_CALLER,
    );
    const { deliveries } = await made.current.publish(tenant);
    const delivery = await made.current.untilDelivery(
      tenant,
      deliveries[0]?.id ?? "",
      ({ last_error: lastError }) => lastError !== null,
    );
    expect(delivery).toMatchObject({ last_error: "authentication", last_status: null });
    const [attempt] = await made.current.attempts(tenant, delivery.id);
    expect(attempt).toMatchObject({
      error: "authentication",
      status: null,
      response_body: "token_url: status 401",
    });
    expect(receiver.requests).toHaveLength(2);
    await receiver.close();
    await tokens.close();
  });
});

describe("an endpoint with a client certificate", () => {
  test("sends it in every handshake with a receiver of the operator's own authority", async () => {
    const names: unknown[] = [];
    const server = createServer(
      { ...authority.issue("IP:127.0.0.1"), requestCert: true, rejectUnauthorized: false },
      (request, response) => {
        names.push((request.socket as TLSSocket).getPeerCertificate().fingerprint256);
        request.resume().on("end", () => response.end());
      },
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { cert, key } = authority.issue("DNS:sender.example.com");
    const { tenant, id } = await register(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`, {
      authentication: { type: "client_certificate", certificate: cert, private_key: key },
    });
    await deliver(tenant);
    const { authentication } = await made.current.endpoints.find(tenant, id);
    const { fingerprint } = JSON.parse(authentication ?? "{}") as { fingerprint: string };
    expect(names).toHaveLength(2);
    for (const name of names) {
      expect(String(name).replaceAll(":", "").toLowerCase()).toBe(fingerprint);
    }
    server.closeAllConnections();
    server.close();
  });
});
