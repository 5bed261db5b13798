/** Keys in AWS KMS, on a local server: every key of the service, rotation both ways, and keys that cannot be used. */
import { randomBytes } from "node:crypto";
import { KMS } from "@aws-sdk/client-kms";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { EnvelopeError } from "#crypto/envelope.ts";
import { createServiceEncryption } from "#crypto/key-service.ts";
import { loadKeyServices } from "#crypto/key-service-clients.ts";
import { Keyring } from "#crypto/keyring.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { createLogger } from "#observability/logger.ts";
import { type ApiProcess, startApi } from "#processes/api.ts";
import { useTestApi } from "#test/support/api.ts";
import { AWS_REGION, type AwsServer, startAwsServer, withoutAwsServer } from "#test/support/aws-server.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer, grant } from "#test/support/factories.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { spawnSignet } from "#test/support/processes.ts";
import { type Receiver, startReceiver, verifyReceived } from "#test/support/receiver-server.ts";
import { createEndpoint, createTenant, publish, sql } from "#test/support/tenant.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

// The first run builds the server.
allowMinutes(10);

const KEK = randomBytes(32).toString("base64");
const HOUR_MS = 3_600_000;

describe.skipIf(withoutAwsServer("Local KMS", "keys in AWS KMS"))("a key in AWS KMS", () => {
  let aws: AwsServer;
  let kms: KMS;
  let receiver: Receiver;
  const environment: Record<string, string> = {};

  async function createKey(): Promise<string> {
    return (await kms.createKey({})).KeyMetadata?.Arn ?? "";
  }

  beforeAll(async () => {
    aws = await startAwsServer("Local KMS");
    kms = new KMS({ region: AWS_REGION });
    receiver = await startReceiver();
    Object.assign(environment, { SIGNET_KEK: "", SIGNET_KEK_KMS: await createKey() });
  });
  // After the server, whose key it uses.
  const api = useTestApi({ worker: true, environment });
  const running: ApiProcess[] = [];
  afterAll(async () => {
    await Promise.all(running.map(async (process) => await process.close()));
    kms.destroy();
    await receiver.close();
    await aws.close();
  });

  /** Returns which keys have wrapped the data keys and the signing keys. */
  async function wrappedBy(): Promise<readonly string[]> {
    const found = await sql<{ by: string }>(
      api,
      `SELECT DISTINCT split_part(wrapped, '.', 1) || '.' || split_part(split_part(wrapped, '.', 2), '-', 1) AS by
         FROM (SELECT data_key AS wrapped FROM tenants UNION SELECT private_key FROM signing_keys) AS all_keys`,
    );
    return found.map(({ by }) => by);
  }

  test("wraps all that a local one would, and signs, seals and delivers", async () => {
    const tenant = await createTenant(api);
    const { secret } = await createEndpoint(api, tenant, { url: receiver.url });
    const event = await publish(tenant, { data: { answer: 42 } });
    // The ping that verifies the endpoint may arrive as well.
    const delivered = await eventually(
      () => receiver.requests.find(({ headers }) => headers["webhook-id"] === event),
      "the delivery",
    );
    expect(JSON.parse(delivered.rawBody.toString())).toMatchObject({ data: { answer: 42 } });
    expect(() => verifyReceived(delivered, [secret])).not.toThrow();
    expect(await wrappedBy()).toEqual(["kms1.aws"]);
  });

  test("takes over from a local one and hands back to it, while the service runs", async () => {
    const [first, second] = [environment["SIGNET_KEK_KMS"] ?? "", await createKey()];
    const tenant = await createTenant(api);
    const endpoint = { url: "http://127.0.0.1:19999/hook", events: ["a.b"] };
    const key = { "idempotency-key": "again" };
    const { secret } = (await tenant.post("/v1/webhooks/endpoints", endpoint, key)).body;

    async function startWith(settings: Record<string, string>) {
      const own = {
        ...api.environment,
        SIGNET_API_LISTEN: "127.0.0.1:0",
        SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
        SIGNET_KEK_KMS: "",
        ...settings,
      };
      const process = await startApi({
        config: { ...loadConfig(own), databaseUrl: api.database.url, temporalAddress: "127.0.0.1:1" },
        log: createLogger({ level: "silent" }),
      });
      running.push(process);
      const url = `http://127.0.0.1:${process.publicAddress.port}`;
      const headers = { "content-type": "application/json" };
      return {
        rewrap: async (): Promise<CommandRun> =>
          await runSignet(["keys", "rewrap", "--json"], {
            ...own,
            SIGNET_ADMIN_LISTEN: `127.0.0.1:${process.adminAddress.port}`,
          }),
        /** The stored answer holds the secret, sealed under the tenant's data key. */
        secretAgain: async (): Promise<unknown> => {
          const token = await fetch(`${url}/v1/auth/token`, {
            method: "POST",
            headers,
            body: JSON.stringify(grant(tenant)),
          });
          const { access_token: text } = (await token.json()) as { access_token: string };
          const answer = await fetch(`${url}/v1/webhooks/endpoints`, {
            method: "POST",
            headers: { ...headers, ...bearer(text), ...key },
            body: JSON.stringify(endpoint),
          });
          return ((await answer.json()) as { secret?: unknown }).secret;
        },
      };
    }

    for (const [settings, by] of [
      [{ SIGNET_KEK: KEK, SIGNET_KEK_KMS_PREVIOUS: first }, ["v1."]],
      [{ SIGNET_KEK: KEK, SIGNET_KEK_KMS: second }, ["kms1.aws"]],
      [{ SIGNET_KEK_KMS: first, SIGNET_KEK_KMS_PREVIOUS: second }, ["kms1.aws"]],
    ] as const) {
      const process = await startWith(settings);
      expect(await process.secretAgain()).toBe(secret);
      const rewrapped = await process.rewrap();
      expect(rewrapped.code, rewrapped.stderr).toBe(0);
      expect(JSON.parse(rewrapped.stdout)).toMatchObject({ unreadable: [] });
      const kinds = (await wrappedBy()).map((kind) => kind.replace(/^v1\..*/, "v1."));
      expect(new Set(kinds)).toEqual(new Set(by));
    }
    // The service's second key and the local one are no longer needed.
    const alone = await startWith({ SIGNET_KEK_KMS: first });
    expect(await alone.secretAgain()).toBe(secret);
    expect(JSON.parse((await alone.rewrap()).stdout)).toMatchObject({ rewrapped: 0, unreadable: [] });
    const without = await startWith({ SIGNET_KEK_KMS: first, SIGNET_KEK: KEK });
    expect(await without.secretAgain()).toBe(secret);
  });

  async function keyringOf(key: string, monotonicMs = machineTimers.monotonic): Promise<Keyring> {
    const config = loadConfig({ ...api.environment, SIGNET_KEK_KMS: key });
    const current = config.kmsKek;
    const serviceOf = await loadKeyServices(current === undefined ? [] : [current]);
    return new Keyring({
      keyEncryption: createServiceEncryption({
        timers: machineTimers,
        current,
        previous: [],
        serviceOf,
        local: undefined,
      }),
      randomBytes,
      monotonicMs,
    });
  }

  test("opens a wrapped key only in its place", async () => {
    const keyring = await keyringOf(await createKey());
    const wrapped = await keyring.newTenantDataKey("ten_a");
    const sealed = await keyring.sealForTenant(wrapped, "ten_a", "place", "x");
    await expect(keyring.openForTenant(wrapped, "ten_b", "place", sealed)).rejects.toThrow(EnvelopeError);
    const elsewhere = await keyringOf(await createKey());
    await expect(elsewhere.openForTenant(wrapped, "ten_a", "place", sealed)).rejects.toThrow(
      /sealed with key aws-[0-9a-f]{12}, which this process does not have/,
    );
  });

  test("that is disabled ends the use of cached data keys within an hour", async () => {
    const key = await createKey();
    let nowMs = 0;
    const keyring = await keyringOf(key, () => nowMs);
    const wrapped = await keyring.newTenantDataKey("ten_a");
    const seal = async () => await keyring.sealForTenant(wrapped, "ten_a", "place", "x");
    await seal();
    await kms.disableKey({ KeyId: key });
    await seal();
    nowMs = HOUR_MS;
    await expect
      .poll(
        async () =>
          await seal().then(
            () => undefined,
            (error: unknown) => error,
          ),
        { timeout: 50_000 },
      )
      .toMatchObject({ code: "UNAVAILABLE", refused: true, cause: { name: "DisabledException" } });
  });

  test.each([
    ["does not exist", async () => `${(await createKey()).slice(0, -4)}0000`, "NotFoundException"],
    [
      "is disabled",
      async () => {
        const key = await createKey();
        await kms.disableKey({ KeyId: key });
        return key;
      },
      "DisabledException",
    ],
  ])("that %s stops the start", async (_what, make, reason) => {
    const config = loadConfig({ ...api.environment, SIGNET_KEK_KMS: await make() });
    await expect(loadServiceSecrets(config, randomBytes, machineTimers)).rejects.toThrow(
      `SIGNET_KEK_KMS cannot be used: ${reason}`,
    );
  });

  test("that does not answer stops the start", async () => {
    const before = process.env["AWS_ENDPOINT_URL_KMS"];
    process.env["AWS_ENDPOINT_URL_KMS"] = `http://127.0.0.1:${await freePort()}`;
    const config = loadConfig(api.environment);
    await expect(loadServiceSecrets(config, randomBytes, machineTimers)).rejects.toThrow(
      /SIGNET_KEK_KMS cannot be used: .*ECONNREFUSED/,
    );
    process.env["AWS_ENDPOINT_URL_KMS"] = before;
  });

  test("needs a package, which a process without it names", async () => {
    // The image has no optional packages.
    const child = spawnSignet(["api"], {
      ...api.environment,
      SIGNET_API_LISTEN: `127.0.0.1:${await freePort()}`,
      SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
      SIGNET_METRICS_LISTEN: "127.0.0.1:0",
      SIGNET_HOME: inject("runDirectory"),
    });
    expect(await child.ended).toEqual({ code: 1, signal: null });
    expect(child.output()).toContain(
      "SIGNET_KEK_KMS cannot be used: a package is missing: run `npm install @aws-sdk/client-kms@3`",
    );
  });
});
