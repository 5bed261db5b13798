/** The connection to Temporal: variables, profiles, which of them wins, and what contradicts. */
import { mkdirSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { type Config, type ConfigError, type Environment, loadConfig } from "#config/config.ts";
import { certificateFiles } from "#test/support/certificates.ts";

const files = certificateFiles();
afterAll(files.remove);

const CA = files.write("ca.pem", "a root");
const PROFILES = files.write(
  "temporal.toml",
  `[profile.default]
address = "default.example.com:7233"

[profile.cloud]
address = "signet.a1b2c.tmprl.cloud:7233"
namespace = "signet.a1b2c"
api_key = "profile-key"
[profile.cloud.grpc_meta]
x-team = "payments"

[profile.certificates]
address = "own.example.com:7233"
[profile.certificates.tls]
server_name = "temporal"
server_ca_cert_data = "a root"
client_cert_data = "a certificate"
client_key_data = "its key"
`,
);

const load = (environment: Environment): Config => loadConfig({ SIGNET_ENV: "development", ...environment });
const problemsOf = (environment: Environment): readonly string[] => {
  try {
    load(environment);
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
};

describe("a profile", () => {
  test("gives address, namespace, API key and headers", () => {
    const config = load({ TEMPORAL_CONFIG_FILE: PROFILES, TEMPORAL_PROFILE: "cloud" });
    expect(config).toMatchObject({
      temporalAddress: "signet.a1b2c.tmprl.cloud:7233",
      temporalNamespace: "signet.a1b2c",
      temporalConnection: { tls: true, metadata: { "x-team": "payments" } },
    });
    expect(config.temporalConnection.apiKey?.()).toBe("profile-key");
  });

  test("gives certificates as data", () => {
    const { temporalConnection } = load({
      TEMPORAL_CONFIG_FILE: PROFILES,
      TEMPORAL_PROFILE: "certificates",
    });
    expect(temporalConnection).toEqual({
      tls: {
        serverNameOverride: "temporal",
        serverRootCACertificate: Buffer.from("a root"),
        clientCertPair: { crt: Buffer.from("a certificate"), key: Buffer.from("its key") },
      },
      metadata: {},
    });
  });

  test("is `default` unless named, and variables override it one by one", () => {
    expect(load({ TEMPORAL_CONFIG_FILE: PROFILES })).toMatchObject({
      temporalAddress: "default.example.com:7233",
      temporalNamespace: "signet",
    });
    const config = load({
      TEMPORAL_CONFIG_FILE: PROFILES,
      TEMPORAL_PROFILE: "cloud",
      TEMPORAL_NAMESPACE: "another.a1b2c",
      TEMPORAL_API_KEY: "variable-key",
      TEMPORAL_GRPC_META_X_TEAM: "",
      TEMPORAL_GRPC_META_X_COST_CENTER: "7",
    });
    expect(config).toMatchObject({
      temporalAddress: "signet.a1b2c.tmprl.cloud:7233",
      temporalNamespace: "another.a1b2c",
    });
    expect(config.temporalConnection.metadata).toEqual({ "x-cost-center": "7" });
    expect(config.temporalConnection.apiKey?.()).toBe("variable-key");
  });

  test("of the CLI's own file is read only if TEMPORAL_PROFILE asks for it", () => {
    mkdirSync(files.path("temporalio"));
    files.write("temporalio/temporal.toml", `[profile.default]\naddress = "own.example.com:7233"\n`);
    const home = { XDG_CONFIG_HOME: files.path("."), TEMPORAL_NAMESPACE: "mine" };
    expect(load(home).temporalAddress).toBeUndefined();
    expect(load({ ...home, TEMPORAL_PROFILE: "default" }).temporalAddress).toBe("own.example.com:7233");
  });
});

test("an API key in a file is read again, and the last good one is kept", () => {
  const file = files.write("key", "one\n");
  const { temporalConnection } = load({ TEMPORAL_API_KEY_FILE: file });
  expect(temporalConnection.tls).toBe(true);
  expect(temporalConnection.apiKey?.()).toBe("one");
  files.write("key", "two");
  expect(temporalConnection.apiKey?.()).toBe("two");
  files.write("key", "");
  expect(temporalConnection.apiKey?.()).toBe("two");
});

test("empty variables count as unset", () => {
  const { temporalConnection, temporalNamespace } = load({
    TEMPORAL_API_KEY: "",
    TEMPORAL_NAMESPACE: "",
    TEMPORAL_TLS: "",
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: "",
  });
  expect(temporalConnection).toEqual({ tls: false, metadata: {} });
  expect(temporalNamespace).toBe("signet");
});

test("a process without Temporal reads none of it", () => {
  const broken = { TEMPORAL_CONFIG_FILE: "/nonexistent", SIGNET_ENV: "development", SIGNET_EDGE_ROUTES: CA };
  expect(loadConfig(broken, "edge").temporalConnection).toEqual({ tls: false, metadata: {} });
});

test.for<[what: string, environment: Environment, problem: RegExp]>([
  ["half a pair", { TEMPORAL_TLS_CLIENT_CERT_DATA: "x" }, /^TEMPORAL_TLS_CLIENT_CERT_PATH and .* together/],
  [
    "a path and data",
    { TEMPORAL_TLS_SERVER_CA_CERT_PATH: CA, TEMPORAL_TLS_SERVER_CA_CERT_DATA: "x" },
    /Cannot specify both server_ca_cert_path and server_ca_cert_data/,
  ],
  [
    "a key without TLS",
    { TEMPORAL_TLS: "0", TEMPORAL_API_KEY: "k" },
    /TEMPORAL_TLS must not be false with an/,
  ],
  [
    "a CA without TLS",
    { TEMPORAL_TLS: "false", TEMPORAL_TLS_SERVER_CA_CERT_PATH: CA },
    /TEMPORAL_TLS must not be false where other settings/,
  ],
  ["an invalid flag", { TEMPORAL_TLS: "yes" }, /^TEMPORAL_TLS must be one of true, false$/],
  ["no verification", { TEMPORAL_TLS_DISABLE_HOST_VERIFICATION: "1" }, /DISABLE_HOST_VERIFICATION must not/],
  ["a missing file", { TEMPORAL_TLS_SERVER_CA_CERT_PATH: "/nonexistent" }, /cannot be read: ENOENT/],
  [
    "a key twice",
    { TEMPORAL_API_KEY_FILE: files.write("once", "k"), TEMPORAL_API_KEY: "k" },
    /_FILE and TEMPORAL_API_KEY must not/,
  ],
  ["a missing key file", { TEMPORAL_API_KEY_FILE: "/nonexistent" }, /_KEY_FILE cannot be used: ENOENT/],
  ["an empty key file", { TEMPORAL_API_KEY_FILE: "/dev/null" }, /_KEY_FILE cannot be used: .* is empty$/],
  [
    "a key and a header for it",
    { TEMPORAL_API_KEY: "k", TEMPORAL_GRPC_META_AUTHORIZATION: "Basic x" },
    /TEMPORAL_GRPC_META_AUTHORIZATION must not be set with an API key/,
  ],
  ["an invalid header", { TEMPORAL_GRPC_META_X: "a\nb" }, /^TEMPORAL_GRPC_META_\* must be .*: x$/],
  ["no file of profiles", { TEMPORAL_CONFIG_FILE: "/nonexistent" }, /\/nonexistent: ENOENT/],
  [
    "an unknown profile",
    { TEMPORAL_CONFIG_FILE: PROFILES, TEMPORAL_PROFILE: "other" },
    /temporal\.toml: Profile 'other' not found/,
  ],
  [
    "a misspelt key in a profile",
    { TEMPORAL_CONFIG_FILE: files.write("bad.toml", `[profile.default]\napi_kye = "k"\n`) },
    /bad\.toml: .*api_kye/,
  ],
])("%s is an error", ([, environment, problem]) => {
  expect(problemsOf(environment)).toEqual([expect.stringMatching(problem)]);
});

test("all problems are reported at once, and none repeats a secret", () => {
  const problems = problemsOf({
    TEMPORAL_API_KEY: "secret-key",
    TEMPORAL_TLS: "false",
    TEMPORAL_TLS_CLIENT_KEY_DATA: "secret-pem",
    TEMPORAL_GRPC_META_AUTHORIZATION: "secret-header",
  });
  expect(problems).toHaveLength(4);
  expect(problems.join("\n")).not.toContain("secret");
});
