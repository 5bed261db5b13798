/** A process with invalid settings reports why and ends, despite connections that it has opened by then. */
import { createPrivateKey, createPublicKey } from "node:crypto";
import { expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { useTestApi } from "#test/support/api.ts";
import { freePort } from "#test/support/free-port.ts";
import { spawnSignet } from "#test/support/processes.ts";
import { sql } from "#test/support/tenant.ts";

/** The PKCS #8 prefix of an Ed25519 seed. */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const api = useTestApi();

/** Resolves when the process has ended; a hanging process fails the test. */
async function failedStart(command: "api" | "worker", changes: Environment): Promise<string> {
  const child = spawnSignet([command], {
    ...api.environment,
    SIGNET_API_LISTEN: `127.0.0.1:${await freePort()}`,
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_METRICS_LISTEN: "127.0.0.1:0",
    ...changes,
  });
  expect(await child.ended).toEqual({ code: 1, signal: null });
  return child.output();
}

const PRODUCTION: Environment = {
  SIGNET_ENV: "production",
  SIGNET_PUBLIC_URL: "https://api.example.com",
};

test("in production a worker needs the checkpoint key", async () => {
  expect(await failedStart("worker", { ...PRODUCTION, SIGNET_CHECKPOINT_KEY: "" })).toContain(
    "SIGNET_CHECKPOINT_KEY or SIGNET_CHECKPOINT_KEY_FILE must be set in production, for the worker",
  );
});

test("in production a worker needs a checkpoint directory", async () => {
  expect(await failedStart("worker", { ...PRODUCTION, SIGNET_CHECKPOINT_DIR: "" })).toContain(
    "SIGNET_CHECKPOINT_DIR or SIGNET_CHECKPOINT_S3_URL must be set in production, for the worker",
  );
});

test("a worker rejects a directory that it cannot write to", async () => {
  expect(await failedStart("worker", { SIGNET_CHECKPOINT_DIR: "/dev/null/checkpoints" })).toContain(
    "SIGNET_CHECKPOINT_DIR cannot be used",
  );
});

test("a worker rejects a checkpoint key that signs tokens, and ends despite its open connections", async () => {
  const seed = Buffer.from(api.environment["SIGNET_CHECKPOINT_KEY"] ?? "", "base64");
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
  const jwk = JSON.stringify(createPublicKey(key).export({ format: "jwk" }));
  await sql(
    api,
    `INSERT INTO signing_keys (kid, alg, public_jwk, private_key, state, created_at)
      VALUES ('same', 'Ed25519', '${jwk}', 'x', 'PREVIOUS', now())`,
  );
  expect(await failedStart("worker", {})).toContain(
    "the checkpoint key must not be one of the keys that sign tokens",
  );
  await sql(api, "DELETE FROM signing_keys WHERE kid = 'same'");
});

test("an api process that cannot read its certificates ends despite its open connections", async () => {
  const output = await failedStart("api", {
    SIGNET_MTLS_MODE: "native",
    SIGNET_MTLS_URL: "https://127.0.0.1:8443",
    SIGNET_TLS_KEY_FILE: "/nowhere/key.pem",
    SIGNET_TLS_CERT_FILE: "/nowhere/certificate.pem",
    SIGNET_CLIENT_CA_FILE: "/nowhere/ca.pem",
  });
  expect(output).toContain("/nowhere/");
});
