/** Measures single features that no switch turns off, by running their code in a loop. */
import { createPublicKey, generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { buildEnvelope } from "../../../src/webhooks/sending/envelope.ts";
import { compileFilter } from "../../../src/webhooks/ingest/event-filter.ts";
import { createSigner } from "../../../src/webhooks/sending/signer.ts";
import { systemClock, unguardedClock } from "../../../src/domain/clock.ts";
import { compileSchema } from "../../../src/webhooks/event-types/schema-validator.ts";
import { createTokenMint } from "../../../src/tokens/oauth/access-token.ts";
import { createTokenVerifier } from "../../../src/tokens/oauth/verify-access-token.ts";
import { generateSecret } from "../../../src/lib/receiver/secret.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { measureDatabaseFeatures } from "./database-features.ts";
import { PAYLOAD_BYTES } from "./run.ts";

const TOKENS = 2_000;
const CALLS = 20_000;
const ISSUER = "http://127.0.0.1:8080";

/** Returns CPU-seconds per 1,000 calls. The first half of the calls warms up. */
async function cpuPerThousand(calls: number, work: (call: number) => unknown): Promise<number> {
  const half = Math.floor(calls / 2);
  for (let call = 0; call < half; call += 1) {
    await work(call);
  }
  const before = process.cpuUsage();
  for (let call = half; call < calls; call += 1) {
    await work(call);
  }
  const { user, system } = process.cpuUsage(before);
  return round(((user + system) / 1e6 / (calls - half)) * 1_000, 4);
}

async function tokenVerification(): Promise<Readonly<Record<string, number>>> {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const publicKey = createPublicKey(privateKey);
  const mint = createTokenMint({
    issuer: ISSUER,
    audience: "signet",
    clock: unguardedClock(systemClock),
    randomBytes,
    signingKey: () => ({
      kid: "bench",
      alg: "ES256",
      sign: (text) =>
        sign("sha256", Buffer.from(text), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString(
          "base64url",
        ),
    }),
  });
  const minted = Array.from(
    { length: TOKENS },
    async (_, index) =>
      await mint.mint({
        clientId: `cl_${index}`,
        tenantId: "ten_bench",
        principalId: "prn_bench",
        credentialId: "crd_bench",
        secretVersion: 1,
        region: "eu",
        scope: "events:publish",
      }),
  );
  const tokens = await Promise.all(minted);
  const verify = createTokenVerifier({
    issuer: ISSUER,
    audience: "signet",
    clock: systemClock,
    verificationKey: async () => ({ alg: "ES256", key: publicKey }),
  });
  const tokenOf = (call: number): string => tokens[call % TOKENS]?.token ?? "";
  return {
    first_use: await cpuPerThousand(TOKENS, async (call) => await verify(tokenOf(call))),
    repeated: await cpuPerThousand(CALLS, async (call) => await verify(tokenOf(call))),
  };
}

async function signing(): Promise<number> {
  const signer = createSigner({ headerBrand: "Service", docsUrl: `${ISSUER}/docs` });
  const secret = generateSecret(randomBytes);
  const ids = { eventId: `evt_${"0".repeat(24)}`, deliveryId: `dlv_${"0".repeat(24)}` };
  const timestampSeconds = Math.floor(systemClock.now() / 1_000);
  const body = buildEnvelope({
    ...ids,
    type: "bench.type_00",
    timestamp: new Date(systemClock.now()).toISOString(),
    sentAt: timestampSeconds,
    attempt: 1,
    endpointId: `ep_${"0".repeat(24)}`,
    metadataJson: null,
    dataJson: JSON.stringify({ pad: "x".repeat(PAYLOAD_BYTES) }),
  });
  return await cpuPerThousand(CALLS, () =>
    signer.headers({ secret, body, ...ids, eventType: "bench.type_00", attempt: 1, timestampSeconds }),
  );
}

/** Measures the rules of an event: parsing, a schema of eight members, and one filter. */
async function eventRules(): Promise<Readonly<Record<string, number>>> {
  const members = ["a", "b", "c", "d", "e", "f", "g", "pad"];
  const text = JSON.stringify({
    ...Object.fromEntries(members.map((name) => [name, name])),
    amount: 120,
    pad: "x".repeat(PAYLOAD_BYTES),
  });
  const check = compileSchema({
    type: "object",
    required: members,
    properties: Object.fromEntries(members.map((name) => [name, { type: "string" }])),
  });
  const admits = compileFilter({ "data.amount": { $gte: 100 }, "data.a": { $in: ["a", "b"] } });
  const data = JSON.parse(text) as unknown;
  if (check(data).length > 0 || typeof admits !== "function" || !admits({ type: "bench.type_00", data })) {
    throw new Error("the event does not match its schema and filter");
  }
  return {
    parse: await cpuPerThousand(CALLS, () => JSON.parse(text) as unknown),
    schema: await cpuPerThousand(CALLS, () => check(data)),
    filter: await cpuPerThousand(CALLS, () => admits({ type: "bench.type_00", data })),
  };
}

async function runScenario(bench: Bench): Promise<void> {
  const finding = {
    unit: "CPU-seconds per 1,000",
    token_verification: await tokenVerification(),
    signing: await signing(),
    event_rules: await eventRules(),
    ...(await measureDatabaseFeatures(bench)),
  };
  bench.findings["features"] = finding;
  bench.log(JSON.stringify(finding, undefined, 2));
}

export const features: Scenario = {
  name: "features",
  about:
    "cost of token verification, signing, schemas and filters, row-level security and attempt rows: their code in a loop",
  run: runScenario,
};
