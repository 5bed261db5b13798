/** Arbitrary headers and bodies of signed requests: always an error of the catalogue, never a failure. */
import { assert, asyncProperty, constantFrom, dictionary, oneof, string, uint8Array } from "fast-check";
import { expect, test } from "vitest";
import { SignetError } from "#domain/errors.ts";
import { ProducerAuthenticator } from "#tokens/producers/authenticate-producer.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { cases } from "#test/support/properties.ts";

const KEY = "crd_000000000000000000000000";
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const NOW_S = 1_763_650_000;

const producers = new ProducerAuthenticator({
  find: async (credentialId) => ({
    credential_id: credentialId,
    tenant_id: "ten_000000000000000000000000",
    principal_id: "prn_000000000000000000000000",
    client_id: "cl_x",
    region: "eu",
    scopes: ["events:publish"],
    san_uri: null,
    certificate_thumbprints: [],
    data_key: "",
    versions: [{ version: 1, sealed: "", last_used_at: null }],
  }),
  keyring: { openForTenant: async () => Buffer.from(SECRET) },
  admit: async () => true,
  failures: new FailureLimiter({ count: 0, limit: "signature_failures", detail: "", monotonic: () => 0 }),
  lookups: new FruitlessLookups(0, () => 0),
  lastUsed: { note: () => undefined },
  certificateRequired: false,
  headerBrand: "Service",
  clock: { now: () => NOW_S * 1_000 },
});

const value = oneof(
  string(),
  string({ unit: "binary" }),
  constantFrom(KEY, String(NOW_S), `sha256=${"0".repeat(64)}`, `v1,${"A".repeat(43)}=`, "v1a,x", "", "id"),
);
const name = constantFrom(
  "x-service-key-id",
  "x-service-timestamp",
  "x-service-signature-256",
  "x-service-signature-256-alt",
  "x-service-event-id",
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
  "__proto__",
  "get",
);

test("only a valid signature is accepted, and no input makes the check fail", async () => {
  await assert(
    asyncProperty(dictionary(name, value), uint8Array({ maxLength: 64 }), async (parts, body) => {
      const headers = { "x-service-key-id": KEY, ...parts };
      const refused = await producers
        .identify({ headers, address: "192.0.2.1", certificate: undefined })
        .then(async (producer) => await producer.verify(body))
        .catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(SignetError);
      expect([400, 401]).toContain((refused as SignetError).status);
    }),
    cases(200),
  );
});
