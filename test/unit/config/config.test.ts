import { networkInterfaces } from "node:os";
import { expect, test } from "vitest";
import { PRODUCTION, problemsOf } from "#test/support/config-problems.ts";
import {
  ConfigError,
  formatListen,
  loadClientSettings,
  loadConfig,
  loadOperatorSettings,
  SETTINGS,
  settingWarnings,
} from "#config/config.ts";
import { DEAD_LETTER_MS } from "#domain/retry-schedule.ts";
import { configuredPolicy } from "#webhooks/sending/address-policy.ts";
import { RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";
import { ownTargets } from "#webhooks/sending/own-listeners.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
test("development needs no settings", () => {
  expect(loadConfig({ SIGNET_ENV: "development" })).toMatchObject({
    development: true,
    publicUrl: "http://127.0.0.1:8080",
    allowHttpTargets: true,
    allowedTargetCidrs: ["127.0.0.0/8", "::1/128"],
    retryWindowMs: RETRY_WINDOW_MS,
    deadLetterMs: DEAD_LETTER_MS,
  });
});

test("the embedded services of development are not allowed targets", () => {
  const moved = { SIGNET_EMBEDDED_TEMPORAL_UI_PORT: "18233" };
  const config = loadConfig({ SIGNET_ENV: "development", ...moved });
  const policy = configuredPolicy(config, ownTargets(config));
  for (const [port, what] of [
    [8080, "the api"],
    [8081, "the operators' API"],
    [54329, "PostgreSQL"],
    [7233, "Temporal"],
    [18233, "Temporal's UI"],
  ] as const) {
    expect(() => policy.checkUrl(`http://localhost:${port}/`), what).toThrow("not an allowed target");
  }
  expect(policy.checkUrl("http://127.0.0.1:8233/").port).toBe("8233");
  const elsewhere = loadConfig({ ...PRODUCTION, SIGNET_ALLOWED_TARGET_CIDRS: "127.0.0.0/8" });
  expect(ownTargets(elsewhere).listeners).toHaveLength(4);
});

test("no host of the deployment's own URLs is an allowed target, at any port", () => {
  const config = loadConfig({
    ...PRODUCTION,
    SIGNET_PUBLIC_URL: "https://signet.example.com",
    SIGNET_PORTAL_URL: "https://portal.example.com",
    SIGNET_MTLS_URL: "https://mtls.example.com:8443",
    SIGNET_ADMIN_URL: "https://admin.example.com:8081",
  });
  const policy = configuredPolicy(config, ownTargets(config));
  for (const host of ["signet", "portal", "mtls", "admin"]) {
    for (const rest of ["/v1/events", ":8443/", ":8081/admin/v1/tenants"]) {
      const target = `https://${host}.example.com${rest}`;
      expect(() => policy.checkUrl(target), target).toThrow("not an allowed target");
    }
  }
  expect(policy.checkUrl("https://hooks.signet.example.com/").hostname).toBe("hooks.signet.example.com");
});

test("a wildcard listener is not a target at any address of this machine, even in an allowed range", () => {
  const [address] = Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map((found) => found.address);
  const own = { ...ownTargets(loadConfig({ ...PRODUCTION, SIGNET_ADMIN_LISTEN: "0.0.0.0:8081" })) };
  // A machine without a network has no such address: use an arbitrary one.
  const local = address ?? "10.0.0.5";
  if (address === undefined) {
    Object.assign(own, { localAddresses: () => [local] });
  }
  const config = { allowedTargetCidrs: [`${local}/32`], deniedTargetCidrs: [], allowHttpTargets: false };
  const policy = configuredPolicy(config, own);
  expect(() => policy.checkUrl(`https://${local}:8081/`)).toThrow("not an allowed target");
  expect(policy.allowsConnection({ hostname: "a.example", address: local, port: 8081 })).toBe(false);
  expect(policy.checkUrl(`https://${local}:9999/`).port).toBe("9999");
});

test("production is the default, and starts with its required settings", () => {
  expect(loadConfig(PRODUCTION)).toMatchObject({
    development: false,
    allowHttpTargets: false,
    allowedTargetCidrs: [],
  });
});

test("an empty variable counts as unset", () => {
  expect(loadConfig({ ...PRODUCTION, SIGNET_AUDIENCE: "", SIGNET_OPERATOR_TOKEN: "" }).audience).toBe(
    "signet",
  );
});

test("all problems are reported at once", () => {
  expect(
    problemsOf({
      SIGNET_ENV: "staging",
      SIGNET_API_LISTEN: "nowhere",
      SIGNET_PEPPER: "c2hvcnQ=",
      SIGNET_OPERATOR_TOKEN: "short",
    }),
  ).toEqual([
    "SIGNET_ENV must be one of development, production",
    "SIGNET_API_LISTEN must be host:port",
    "SIGNET_PEPPER must be at least 32 bytes in base64",
    "SIGNET_OPERATOR_TOKEN must have 32 characters or more",
  ]);
});

test("an invalid value does not hide production's other problems, and is reported once", () => {
  expect(
    problemsOf({
      ...PRODUCTION,
      SIGNET_PEPPER: "c2hvcnQ=",
      SIGNET_PUBLIC_URL: "",
      SIGNET_MTLS_MODE: "off",
      SIGNET_RETRY_WINDOW_MS: "soon",
      SIGNET_REVOCATION_MODE: "loose",
    }).map((problem) => problem.split(" ", 1)[0]),
  ).toEqual([
    "SIGNET_PEPPER",
    "SIGNET_RETRY_WINDOW_MS",
    "SIGNET_REVOCATION_MODE",
    "SIGNET_PUBLIC_URL",
    "SIGNET_MTLS_MODE",
  ]);
});

test.each(["ledger", "https://ledger.example/#x", "https://ledger.example,two words"])(
  "a resource is an absolute URI without a fragment: %s",
  (resources) => {
    expect(problemsOf({ ...PRODUCTION, SIGNET_RESOURCES: resources })).toEqual([
      "SIGNET_RESOURCES must be absolute URIs without a fragment",
    ]);
  },
);

test("only audiences of tokens can have status lists", () => {
  const lists = {
    ...PRODUCTION,
    SIGNET_RESOURCES: "urn:a,urn:b",
    SIGNET_STATUS_LIST_AUDIENCES: "signet,urn:b",
  };
  expect(loadConfig(lists)).toMatchObject({
    statusListAudiences: ["signet", "urn:b"],
    statusListTtlSeconds: 15,
  });
  expect(
    problemsOf({ ...lists, SIGNET_STATUS_LIST_AUDIENCES: "urn:c", SIGNET_STATUS_LIST_TTL_SECONDS: "0" }),
  ).toEqual([
    "SIGNET_STATUS_LIST_TTL_SECONDS must be a whole number from 1 to 300",
    "SIGNET_STATUS_LIST_AUDIENCES: urn:c is neither SIGNET_AUDIENCE nor in SIGNET_RESOURCES",
  ]);
});

test("an edge that answers checks forwards nothing, and needs its proxy's word for certificates", () => {
  const edge = { ...PRODUCTION, SIGNET_EDGE_CHECKS: "envoy", SIGNET_EDGE_ROUTES: "routes.json" };
  expect(problemsOf({ ...edge, SIGNET_MTLS_MODE: "proxy" }, "edge")).toEqual([]);
  expect(problemsOf({ ...edge, SIGNET_MTLS_MODE: "native" }, "edge")).toEqual([
    "SIGNET_MTLS_MODE must be proxy with SIGNET_EDGE_CHECKS: the proxy forwards its client's certificate",
  ]);
  const forwarding = {
    SIGNET_MTLS_MODE: "proxy",
    SIGNET_ENV: "development",
    SIGNET_EDGE_API_URL: "http://api",
  };
  expect(problemsOf({ ...edge, ...forwarding }, "edge")).toEqual([
    "SIGNET_EDGE_API_URL must not be set with SIGNET_EDGE_CHECKS: such an edge forwards nothing",
  ]);
});

test.each(Object.keys(PRODUCTION))("production does not start without %s", (name) => {
  const [problem] = problemsOf({ ...PRODUCTION, [name]: "" });
  expect(problem?.startsWith(name)).toBe(true);
  expect(problem).toMatch(/must be set in production$/);
});

test("a file can hold the key-encryption keys, but not together with the variable", () => {
  const withFile = { ...PRODUCTION, SIGNET_KEK: "", SIGNET_KEK_FILE: "/run/secrets/keks" };
  expect(loadConfig(withFile).kekFile).toBe("/run/secrets/keks");
  for (const name of ["SIGNET_KEK", "SIGNET_KEK_PREVIOUS"]) {
    expect(problemsOf({ ...withFile, [name]: KEY })).toHaveLength(1);
  }
});

test("previous keys are a list, and each must be long enough", () => {
  const { previousKeks, previousPeppers } = loadConfig({
    ...PRODUCTION,
    SIGNET_KEK_PREVIOUS: `${KEY}, ${KEY}`,
  });
  expect([previousKeks.length, previousPeppers.length]).toEqual([2, 0]);
  expect(problemsOf({ ...PRODUCTION, SIGNET_PEPPER_PREVIOUS: `${KEY},c2hvcnQ=` })).toEqual([
    "SIGNET_PEPPER_PREVIOUS must be at least 32 bytes in base64",
  ]);
});

test.each([
  ["SIGNET_PUBLIC_URL", "http://api.example.com"],
  ["SIGNET_ALLOW_HTTP_TARGETS", "true"],
  ["SIGNET_RETRY_WINDOW_MS", "2000"],
  ["SIGNET_DEAD_LETTER_MS", "2000"],
  ["SIGNET_MTLS_MODE", "off"],
])("production does not start with %s=%s", (name, value) => {
  expect(problemsOf({ ...PRODUCTION, [name]: value })).toHaveLength(1);
});

test.each(["8080", "host", "host:", "host:99999", "host:-1", "[::1]", "a b:1", "http://host:1"])(
  "%s is not a listen address",
  (address) => {
    expect(problemsOf({ ...PRODUCTION, SIGNET_API_LISTEN: address })).toEqual([
      "SIGNET_API_LISTEN must be host:port",
    ]);
  },
);

test("IPv6 addresses keep their brackets", () => {
  const { apiListen } = loadConfig({ ...PRODUCTION, SIGNET_API_LISTEN: "[::1]:8080" });
  expect(apiListen).toEqual({ host: "::1", port: 8080 });
  expect(formatListen(apiListen)).toBe("[::1]:8080");
});

test("a password does not appear in a problem", () => {
  const text = problemsOf({ SIGNET_DATABASE_URL: "mysql://signet:canary@db/signet" }).join();
  expect(text).toContain("SIGNET_DATABASE_URL");
  expect(text).not.toContain("canary");
});

test("every number among the settings has a largest value, with which one test runs the service", () => {
  // test/integration/delivery/maxima.test.ts takes them from the parsers.
  const numbers = Object.values(SETTINGS).filter(({ parse, fallback }) => {
    const samples = [fallback ?? "100", "20d"];
    return samples.some((sample) => typeof attempt(() => parse(sample)) === "number");
  });
  expect(numbers.length).toBeGreaterThan(30);
  expect(numbers.filter(({ parse }) => !("maximum" in parse)).map(({ variable }) => variable)).toEqual([]);
  for (const { parse } of numbers) {
    expect(parse("maximum" in parse ? (parse.maximum ?? "") : "")).toBeGreaterThan(0);
  }
});

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

test("settings are immutable", () => {
  expect(Object.isFrozen(loadConfig(PRODUCTION))).toBe(true);
});

test("the command line ignores the server's settings", () => {
  expect(loadOperatorSettings({ SIGNET_ADMIN_LISTEN: "10.0.0.1:81", SIGNET_PEPPER: "bad" })).toMatchObject({
    adminListen: { host: "10.0.0.1", port: 81 },
    production: false,
  });
  expect(() => loadOperatorSettings({ SIGNET_ADMIN_LISTEN: "bad" })).toThrow(ConfigError);
});

test("revocation is strict unless a bound is given", () => {
  expect(loadConfig(PRODUCTION).revocationMode).toEqual({ name: "strict", boundMs: 250 });
  expect(
    loadConfig({ SIGNET_ENV: "development", SIGNET_REVOCATION_MODE: "bounded:5000" }).revocationMode,
  ).toEqual({ name: "bounded", boundMs: 5_000 });
});

test.each(["", "loose", "bounded", "bounded:", "bounded:249", "bounded:900001", "bounded:1e4", "bounded:-1"])(
  "the revocation mode %j is rejected unless empty",
  (mode) => {
    const problems = problemsOf({ SIGNET_ENV: "development", SIGNET_REVOCATION_MODE: mode });
    expect(problems).toHaveLength(mode === "" ? 0 : 1);
  },
);

test.each(["eu", "eu-west-1", undefined])("the region of a process may be %s", (region) => {
  const config = loadConfig({ ...PRODUCTION, ...(region === undefined ? {} : { SIGNET_REGION: region }) });
  expect(config.region).toBe(region);
});

test.each(["EU", "global", "eu west"])("the region of a process cannot be %s", (region) => {
  expect(problemsOf({ ...PRODUCTION, SIGNET_REGION: region })).toEqual([
    "SIGNET_REGION must be a region such as eu or eu-west-1",
  ]);
});

test("production rejects the test setting for admission times", () => {
  expect(loadConfig(PRODUCTION).testAdmissionHeader).toBe("off");
  expect(problemsOf({ ...PRODUCTION, SIGNET_TEST_ADMISSION_HEADER: "on" })).toEqual([
    "SIGNET_TEST_ADMISSION_HEADER must not be on in production",
  ]);
});

test("production accepts a bound above 250 ms only with an explicit setting", () => {
  const slow = { ...PRODUCTION, SIGNET_REVOCATION_MODE: "bounded:5000" };
  expect(problemsOf(slow)).toEqual([expect.stringContaining("SIGNET_ACCEPT_SLOW_REVOCATION=true")]);
  expect(problemsOf({ ...slow, SIGNET_ACCEPT_SLOW_REVOCATION: "true" })).toEqual([]);
  expect(problemsOf({ ...PRODUCTION, SIGNET_REVOCATION_MODE: "bounded:250" })).toEqual([]);
});

test("outbound ranges and the proxy are read, and problems show no password", () => {
  const config = loadConfig({
    ...PRODUCTION,
    SIGNET_ALLOWED_TARGET_CIDRS: "10.0.0.0/8, fd00::/8",
    SIGNET_DENIED_TARGET_CIDRS: "10.1.0.0/16",
    SIGNET_OUTBOUND_PROXY: "https://carol:p%40ss@proxy.internal:4750",
  });
  expect(config).toMatchObject({
    allowedTargetCidrs: ["10.0.0.0/8", "fd00::/8"],
    deniedTargetCidrs: ["10.1.0.0/16"],
    outboundProxy: {
      hostname: "proxy.internal",
      port: 4750,
      secure: true,
      authorization: `Basic ${Buffer.from("carol:p@ss").toString("base64")}`,
    },
  });
  for (const proxy of [
    "canary",
    "socks5://carol:canary@proxy:1",
    "http://carol:canary@proxy/path",
    "http://carol:canary@proxy:99999",
    "http://carol:canary%ff@proxy",
  ]) {
    const problems = problemsOf({ ...PRODUCTION, SIGNET_OUTBOUND_PROXY: proxy });
    expect(problems).toHaveLength(1);
    expect(problems.join()).toMatch(/^SIGNET_OUTBOUND_PROXY /);
    expect(problems.join()).not.toContain("canary");
  }
  expect(problemsOf({ ...PRODUCTION, SIGNET_DENIED_TARGET_CIDRS: "10.0.0.0/33" })).toHaveLength(1);
});

test.each([
  ["SIGNET_DATABSE_URL", "is not a setting: did you mean SIGNET_DATABASE_URL?"],
  ["SIGNET_DATABASEURL", "is not a setting: did you mean SIGNET_DATABASE_URL?"],
  ["SIGNET_OPERATOR_TOKNE", "is not a setting: did you mean SIGNET_OPERATOR_TOKEN?"],
  ["SIGNET_PEPER_FILE", "is not a setting: did you mean SIGNET_PEPPER_FILE?"],
  ["SIGNET_KEKS", "is not a setting: did you mean SIGNET_KEK?"],
  ["SIGNET_SHOE_SIZE", "is not a setting"],
  ["SIGNET_DELIVERY_STARTS_PER_SECOND", "was replaced by SIGNET_DELIVERY_CLAIMS_PER_SECOND"],
])("the unknown variable %s is a warning and never a refusal: %s", (variable, problem) => {
  const given = { ...PRODUCTION, [variable]: "x" };
  expect(problemsOf(given)).toEqual([]);
  expect(settingWarnings(given)).toEqual([`${variable} ${problem}`]);
});

test("variables of other programs, of Kubernetes, and empty ones are no mistake", () => {
  const others = {
    SIGNET_API_PORT: "tcp://10.0.0.7:8080",
    SIGNET_API_PORT_8080_TCP_ADDR: "10.0.0.7",
    SIGNET_API_SERVICE_HOST: "10.0.0.7",
    SIGNET_API_SERVICE_PORT_HTTP: "8080",
    SIGNET_URL: "http://127.0.0.1:8080",
    SIGNET_TEST_PROPERTIES: "10",
    SIGNET_INIT_KEYS: "/run/signet/keys",
    SIGNET_DATABASE_PASSWORD: "x",
    SIGNET_DATABSE_URL: "",
    TEMPORAL_ADRESS: "not ours to judge",
  };
  expect(settingWarnings({ ...PRODUCTION, ...others })).toEqual([]);
  // The same name with a number is a mistyped setting, not a service of Kubernetes.
  expect(settingWarnings({ ...PRODUCTION, SIGNET_EMBEDED_TEMPORAL_PORT: "7233" })).toEqual([
    "SIGNET_EMBEDED_TEMPORAL_PORT is not a setting: did you mean SIGNET_EMBEDDED_TEMPORAL_PORT?",
  ]);
});

test("the command line warns of likely mistakes only, since other programs have variables beside it", () => {
  const given = { SIGNET_WEBHOOK_SECRET: "whsec_x", SIGNET_CLIENT_SECERT: "x" };
  for (const load of [loadOperatorSettings, loadClientSettings]) {
    expect(() => load(given)).not.toThrow();
  }
  expect(settingWarnings(given, true)).toEqual([
    "SIGNET_CLIENT_SECERT is not a setting: did you mean SIGNET_CLIENT_SECRET?",
  ]);
});

test.each([
  ["arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab", "eu-west-1"],
  ["arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab", "us-gov-west-1"],
  ["projects/my-project/locations/europe-west3/keyRings/signet/cryptoKeys/kek", undefined],
  ["projects/example.com:my-project/locations/global/keyRings/a_b/cryptoKeys/k-1", undefined],
])("%s is a key of a key management service, and enough for production", (name, awsRegion) => {
  const config = loadConfig({
    ...PRODUCTION,
    SIGNET_KEK: "",
    SIGNET_KEK_KMS: name,
    SIGNET_KEK_KMS_PREVIOUS: name,
  });
  expect(config.kmsKek).toEqual({ name, awsRegion });
  expect(config.previousKmsKeks).toEqual([{ name, awsRegion }]);
});

test.each([
  "arn:aws:kms:eu-west-1:111122223333:alias/signet",
  "1234abcd-12ab-34cd-56ef-1234567890ab",
  "projects/p/locations/global/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
])("%s names no key, or not forever", (name) => {
  expect(problemsOf({ ...PRODUCTION, SIGNET_KEK_KMS: name })).toEqual([
    expect.stringContaining("SIGNET_KEK_KMS must be the ARN of a key in AWS KMS") as string,
  ]);
});

test.each([
  ["s3://my-bucket", { bucket: "my-bucket", prefix: "", region: undefined, endpoint: undefined }],
  [
    "s3://my.bucket/a/b/?region=eu-west-1",
    { bucket: "my.bucket", prefix: "a/b/", region: "eu-west-1", endpoint: undefined },
  ],
  [
    "s3://bucket/log?endpoint=https://s3.example.com:9000",
    { bucket: "bucket", prefix: "log/", region: undefined, endpoint: "https://s3.example.com:9000" },
  ],
])("%s is a bucket", (url, place) => {
  expect(loadConfig({ ...PRODUCTION, SIGNET_CHECKPOINT_S3_URL: url }).checkpointBucket).toEqual(place);
});

test.each([
  [{ SIGNET_CHECKPOINT_S3_URL: "https://bucket" }, "must be s3://bucket/prefix"],
  [{ SIGNET_CHECKPOINT_S3_URL: "s3://Bucket_1/log" }, "must be s3://bucket/prefix"],
  [{ SIGNET_CHECKPOINT_S3_URL: "s3://bucket?zone=1" }, "has the unknown parameters zone"],
  [
    { SIGNET_CHECKPOINT_S3_URL: "s3://bucket?endpoint=http://s3.example.com" },
    "must have an https endpoint, or one on this machine",
  ],
  [
    { SIGNET_CHECKPOINT_S3_URL: "s3://bucket", SIGNET_CHECKPOINT_DIR: "/checkpoints" },
    "and SIGNET_CHECKPOINT_DIR must not both be set",
  ],
] as const)("%j is no place for checkpoints", (settings, problem) => {
  expect(problemsOf({ ...PRODUCTION, ...settings })).toEqual([
    expect.stringContaining(`SIGNET_CHECKPOINT_S3_URL ${problem}`) as string,
  ]);
});
