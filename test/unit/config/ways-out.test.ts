/** Connections to PostgreSQL and Temporal are encrypted and verified in production unless they stay on the machine. */
import { afterAll, describe, expect, test } from "vitest";
import { type ConfigError, type ConfigFor, loadConfig } from "#config/config.ts";
import { currentUrl } from "#config/url-file.ts";
import { certificateFiles } from "#test/support/certificates.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
const files = certificateFiles();
const CA = files.write("ca.crt", "a certificate");
const OWN = { cert: files.write("own.crt", "another"), key: files.write("own.key", "its key") };
const ENCRYPTED = files.write("encrypted.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
afterAll(files.remove);

const PRODUCTION = {
  SIGNET_PUBLIC_URL: "https://api.example.com",
  SIGNET_PEPPER: KEY,
  SIGNET_KEK: KEY,
  SIGNET_DATABASE_URL: "postgres://signet:secret@localhost/signet",
  TEMPORAL_ADDRESS: "127.0.0.1:7233",
};
const ELSEWHERE = "postgres://signet:secret@db.example.com/signet";

function problemsOf(changed: Record<string, string>, asks?: ConfigFor): readonly string[] {
  try {
    loadConfig({ ...PRODUCTION, ...changed }, asks);
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
}

describe("PostgreSQL", () => {
  test.for<[what: string, changed: Record<string, string>]>([
    ["this machine", {}],
    ["this machine, by its address", { SIGNET_DATABASE_URL: "postgres://signet@[::1]:5433/signet" }],
    ["a socket", { SIGNET_DATABASE_URL: "postgres://signet@%2Fvar%2Frun%2Fpostgresql/signet" }],
    ["a verified server", { SIGNET_DATABASE_URL: `${ELSEWHERE}?sslmode=verify-full` }],
    ["a server with a private CA", { SIGNET_DATABASE_URL: ELSEWHERE, SIGNET_DATABASE_CA_FILE: CA }],
    [
      "a server with both settings",
      { SIGNET_DATABASE_URL: `${ELSEWHERE}?sslmode=verify-full`, SIGNET_DATABASE_CA_FILE: CA },
    ],
    ["any server, if accepted", { SIGNET_DATABASE_URL: ELSEWHERE, SIGNET_ACCEPT_PLAIN_DATABASE: "true" }],
    ["any server, in development", { SIGNET_DATABASE_URL: ELSEWHERE, SIGNET_ENV: "development" }],
  ])("may be %s", ([, changed]) => {
    expect(
      problemsOf({ ...changed, SIGNET_MTLS_MODE: changed["SIGNET_ENV"] === undefined ? "" : "off" }),
    ).toEqual([]);
  });

  test.for([
    "",
    "?sslmode=disable",
    "?sslmode=prefer",
    "?sslmode=require",
    "?sslmode=no-verify",
    "?ssl=true",
  ])("may not be on another machine with %j", (query) => {
    expect(problemsOf({ SIGNET_DATABASE_URL: ELSEWHERE + query })).toEqual([
      expect.stringMatching(
        /^SIGNET_DATABASE_URL is on another machine: .*SIGNET_ACCEPT_PLAIN_DATABASE=true$/,
      ),
    ]);
  });

  test("may not be on another machine in any URL, nor by a parameter that overrides the host", () => {
    expect(problemsOf({ SIGNET_DATABASE_ADMIN_URL: ELSEWHERE }).join()).toMatch(
      /^SIGNET_DATABASE_ADMIN_URL is on/,
    );
    expect(problemsOf({ SIGNET_EDGE_DATABASE_URL: ELSEWHERE }).join()).toMatch(
      /^SIGNET_EDGE_DATABASE_URL is on/,
    );
    expect(problemsOf({ SIGNET_DATABASE_DIRECT_URL: ELSEWHERE }).join()).toMatch(
      /^SIGNET_DATABASE_DIRECT_URL is on/,
    );
    const hidden = "postgres://signet@localhost/signet?host=db.example.com";
    expect(problemsOf({ SIGNET_DATABASE_URL: hidden }).join()).toMatch(/^SIGNET_DATABASE_URL is on/);
  });

  test("may not be on another machine in a file either, which must exist", () => {
    const path = files.write("url", `${ELSEWHERE}\n`);
    const named = { SIGNET_DATABASE_URL: "", SIGNET_DATABASE_URL_FILE: path };
    expect(problemsOf(named).join()).toMatch(/^SIGNET_DATABASE_URL is on/);
    expect(problemsOf({ SIGNET_DATABASE_URL_FILE: path }).join()).toMatch(/must not both be set/);
    expect(problemsOf({ ...named, SIGNET_DATABASE_URL_FILE: files.path("absent") }).join()).toMatch(
      /SIGNET_DATABASE_URL_FILE cannot be read/,
    );
    const config = loadConfig({ ...PRODUCTION, ...named, SIGNET_DATABASE_CA_FILE: CA });
    files.write("url", "postgres://next:rotated@elsewhere/other?sslmode=disable");
    const { username, password, host, searchParams } = new URL(currentUrl(config.databaseUrl ?? ""));
    expect([username, password, host]).toEqual(["next", "rotated", new URL(ELSEWHERE).host]);
    expect(searchParams.get("sslmode")).toBe("verify-full");
  });

  test("must present its certificate for every URL, and gets a client certificate where one is set", () => {
    const config = loadConfig({
      ...PRODUCTION,
      SIGNET_DATABASE_URL: ELSEWHERE,
      SIGNET_DATABASE_ADMIN_URL: `${ELSEWHERE}?application_name=x`,
      SIGNET_DATABASE_DIRECT_URL: ELSEWHERE,
      SIGNET_DATABASE_CA_FILE: CA,
      SIGNET_DATABASE_CERT_FILE: OWN.cert,
      SIGNET_DATABASE_KEY_FILE: OWN.key,
    });
    for (const url of [config.databaseUrl, config.databaseAdminUrl, config.databaseDirectUrl]) {
      const { searchParams, password } = new URL(url ?? "");
      expect(password).toBe("secret");
      expect(Object.fromEntries(searchParams)).toMatchObject({
        sslmode: "verify-full",
        sslrootcert: CA,
        sslcert: OWN.cert,
        sslkey: OWN.key,
      });
    }
    expect(new URL(config.databaseAdminUrl ?? "").searchParams.get("application_name")).toBe("x");
  });

  test.for<[what: string, changed: Record<string, string>, because: RegExp]>([
    [
      "half of a key pair",
      { SIGNET_DATABASE_CA_FILE: CA, SIGNET_DATABASE_CERT_FILE: OWN.cert },
      /must be set together/,
    ],
    [
      "a client certificate for an unverified server",
      { SIGNET_DATABASE_CERT_FILE: OWN.cert, SIGNET_DATABASE_KEY_FILE: OWN.key },
      /SIGNET_DATABASE_CERT_FILE needs SIGNET_DATABASE_CA_FILE/,
    ],
    [
      "a missing file",
      { SIGNET_DATABASE_CA_FILE: files.path("absent") },
      /^SIGNET_DATABASE_CA_FILE cannot be read: ENOENT/,
    ],
    [
      "an encrypted key",
      {
        SIGNET_DATABASE_CA_FILE: CA,
        SIGNET_DATABASE_CERT_FILE: OWN.cert,
        SIGNET_DATABASE_KEY_FILE: ENCRYPTED,
      },
      /^SIGNET_DATABASE_KEY_FILE is encrypted/,
    ],
    [
      "certificates on one line",
      {
        SIGNET_DATABASE_CA_FILE: files.write(
          "glued.crt",
          "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE----------BEGIN CERTIFICATE-----",
        ),
      },
      /^SIGNET_DATABASE_CA_FILE needs a line break between its certificates/,
    ],
    [
      "a conflicting sslmode",
      { SIGNET_DATABASE_CA_FILE: CA, SIGNET_DATABASE_URL: `${ELSEWHERE}?sslmode=disable` },
      /SIGNET_DATABASE_URL must leave sslmode to the SIGNET_DATABASE_\*_FILE settings/,
    ],
  ])("is not used with %s", ([, changed, because]) => {
    expect(problemsOf(changed).join("\n")).toMatch(because);
    expect(problemsOf(changed).join("\n")).not.toContain("secret");
  });
});

describe("Temporal", () => {
  const temporal = (changed: Record<string, string>, asks?: ConfigFor): readonly string[] =>
    problemsOf({ TEMPORAL_ADDRESS: "temporal.example.com:7233", ...changed }, asks);

  test("may be on another machine with TLS, if accepted without TLS, or for a process that does not use it", () => {
    expect(temporal({ TEMPORAL_TLS: "true" })).toEqual([]);
    expect(temporal({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: CA })).toEqual([]);
    expect(temporal({ SIGNET_ACCEPT_PLAIN_TEMPORAL: "true" })).toEqual([]);
    expect(problemsOf({ TEMPORAL_ADDRESS: "[::1]:7233" })).toEqual([]);
    expect(temporal({ SIGNET_EDGE_ROUTES: CA }, "edge")).toEqual([]);
  });

  test("is not used with a file that is missing, or with an encrypted key", () => {
    const missing = { TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("absent") };
    expect(temporal(missing)).toEqual([
      expect.stringMatching(/^TEMPORAL_TLS_SERVER_CA_CERT_PATH cannot be read: /),
    ]);
    const encrypted = { TEMPORAL_TLS_CLIENT_CERT_PATH: OWN.cert, TEMPORAL_TLS_CLIENT_KEY_PATH: ENCRYPTED };
    expect(temporal(encrypted)).toEqual([
      expect.stringMatching(/^TEMPORAL_TLS_CLIENT_KEY_PATH is encrypted/),
    ]);
  });

  test("may not be on another machine without TLS", () => {
    for (const changed of [{}, { TEMPORAL_TLS: "false" }]) {
      expect(temporal(changed)).toEqual([
        expect.stringMatching(
          /^TEMPORAL_ADDRESS is on another machine: .*SIGNET_ACCEPT_PLAIN_TEMPORAL=true$/,
        ),
      ]);
    }
  });
});
