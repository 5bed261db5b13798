/**
 * A start that fails for what an operator can correct says so in one line: the setting, the host, and what PostgreSQL or
 * Temporal answered. Each fault meets two processes, and each process two faults or more, on real servers.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { certificateFiles, clientPair, newRoot, serverPair, today } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { testNamespace, useTestDatabase } from "../support/services.ts";
import { type Run, type RunningCommand, startSignet } from "../support/signet-command.ts";
import {
  startTemporalTls,
  startTlsDatabase,
  type TlsDatabase,
  type TlsFront,
} from "../support/tls-servers.ts";

allowMinutes(5);

const PASSWORD = "pass-word-7";
const database = useTestDatabase();
const running: RunningCommand[] = [];
const files = certificateFiles();
let tls: TlsDatabase;
let front: TlsFront;
let client: Environment;
let base: Environment;

beforeAll(async () => {
  const [root, other] = await Promise.all([newRoot(), newRoot("Another CA")]);
  const named = { subject: "CN=temporal", purposes: ["serverAuth"] as const, ...today() };
  const [pair, own, temporal] = await Promise.all([
    serverPair(root),
    clientPair(root),
    root.issue({ ...named, names: [{ type: "dns", value: "localhost" }] }),
  ]);
  files.write("other.pem", other.cert);
  const caFile = files.write("ca.pem", root.cert);
  mkdirSync(dirname(files.path("server/x")));
  tls = await startTlsDatabase({
    certFile: files.write("server/server.crt", pair.cert),
    keyFile: files.write("server/server.key", pair.key),
    caFile,
  });
  front = await startTemporalTls(temporal, root.cert);
  client = {
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: caFile,
    TEMPORAL_TLS_CLIENT_CERT_PATH: files.write("own.pem", own.cert),
    TEMPORAL_TLS_CLIENT_KEY_PATH: files.write("own.key", own.key),
  };
  base = {
    SIGNET_ENV: "development",
    SIGNET_MTLS_MODE: "off",
    SIGNET_HOME: dirname(caFile),
    SIGNET_API_LISTEN: "127.0.0.1:0",
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_EDGE_LISTEN: "127.0.0.1:0",
    SIGNET_HUB_LISTEN: "127.0.0.1:0",
    SIGNET_METRICS_LISTEN: "127.0.0.1:0",
    SIGNET_EDGE_API_URL: "http://127.0.0.1:1",
    SIGNET_KEK: randomBytes(32).toString("base64"),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: inject("temporalAddress"),
    TEMPORAL_NAMESPACE: await testNamespace(),
  };
});

afterAll(async () => {
  running.forEach(({ kill }) => kill());
  front.close();
  await tls.close();
  files.remove();
});

/** Each process with the variable that has its database's URL. */
const PROCESSES = [
  ["migrate", "SIGNET_DATABASE_ADMIN_URL"],
  ["api", "SIGNET_DATABASE_URL"],
  ["worker", "SIGNET_DATABASE_DIRECT_URL"],
  ["edge", "SIGNET_EDGE_DATABASE_URL"],
  ["hub", "SIGNET_EDGE_DATABASE_URL"],
] as const;

function start(command: string, changed: Environment): RunningCommand {
  const started = startSignet([command], { ...base, ...changed });
  running.push(started);
  return started;
}

/** Returns the only line of standard error, after checking how the process has ended. */
function sentenceOf({ code, stdout, stderr }: Run): string {
  expect(stderr.split("\n")).toEqual([expect.stringMatching(/^signet: \S/), ""]);
  expect(code).toBe(1);
  expect(stdout + stderr).not.toMatch(/^ +at |"stack"/m);
  expect(stdout + stderr).not.toContain(PASSWORD);
  return stderr;
}

/** Changes the URL of the run's database, or of the one that requires TLS. */
type Change = (url: URL) => Promise<void> | void;

interface Fault {
  readonly change: Change;
  readonly environment?: () => Environment;
  readonly says: RegExp;
}

const at =
  (port: () => number): Change =>
  (url) => {
    url.port = String(port());
    url.search = "";
  };

const DATABASE_FAULTS: Readonly<Record<string, Fault>> = {
  "a wrong password": {
    change: (url) => void (url.password = PASSWORD),
    says: /refused the login \w+: password authentication failed .*if the password was changed here, PostgreSQL still has the old one: ALTER ROLE \w+ PASSWORD/,
  },
  "an unknown host": {
    change: (url) => void (url.hostname = "db.invalid"),
    says: /^signet: the host db\.invalid of PostgreSQL \(.*is unknown: getaddrinfo/,
  },
  "a refused port": {
    change: async (url) => void (url.port = String(await freePort())),
    says: /cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:\d+/,
  },
  "an unknown database": {
    change: (url) => void (url.pathname = "/absent"),
    says: /database "absent" does not exist/,
  },
  "TLS to a server without": {
    change: (url) => url.searchParams.set("sslmode", "verify-full"),
    says: /speaks no TLS, .*The server does not support SSL connections/,
  },
  "no TLS to a server with": {
    change: at(() => tls.port),
    says: /refused the login \w+: no pg_hba\.conf entry .*; if it wants TLS, set SIGNET_DATABASE_CA_FILE/,
  },
  "a certificate of another CA": {
    change: at(() => tls.port),
    environment: () => ({ SIGNET_DATABASE_CA_FILE: files.path("other.pem") }),
    says: /the certificate of PostgreSQL at .* is not trusted, check SIGNET_DATABASE_CA_FILE/,
  },
};

describe("PostgreSQL", () => {
  const faults = Object.entries(DATABASE_FAULTS).map(([what, fault], index) => ({ what, fault, index }));

  test.for(faults)("with $what is explained by two processes", async ({ fault, index }) => {
    const url = new URL(database.url);
    url.password = url.password === "" ? PASSWORD : url.password;
    await fault.change(url);
    // With a CA for all connections, no other URL may lead to a server without TLS.
    const others = fault.environment === undefined ? {} : { SIGNET_DATABASE_URL: url.href };
    // The explanation is written once for all processes. Each names its own variable.
    const meeting = PROCESSES.filter((_, place) => (place + index) % PROCESSES.length < 2);
    const runs = meeting.map(async ([command, variable]) => {
      const changed = { ...others, ...fault.environment?.(), [variable]: url.href };
      const line = sentenceOf(await start(command, changed).ended);
      const named = variable in others ? "SIGNET_DATABASE_URL" : variable;
      return { command, line, named };
    });
    for (const { command, line, named } of await Promise.all(runs)) {
      expect(line, command).toMatch(fault.says);
      expect(line, command).toContain(named);
      expect(line, command).toContain(url.hostname);
    }
  });

  test("that was not migrated, or lets the login do nothing, leads to `signet migrate`", async () => {
    const url = new URL(database.url);
    url.pathname = "/postgres";
    const line = sentenceOf(await start("api", { SIGNET_DATABASE_URL: url.href }).ended);
    expect(line).toMatch(/\(SIGNET_DATABASE_URL\).*run `signet migrate`/);
  });

  test("is also explained to collectors of logs, without a stack", async () => {
    const url = new URL(database.url);
    url.password = PASSWORD;
    const { stdout, stderr } = await start("api", { SIGNET_DATABASE_URL: url.href }).ended;
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.at(-1)).toEqual({
      level: "fatal",
      time: expect.any(String),
      msg: "could not start",
      reasons: [stderr.trim().replace(/^signet: /, "")],
    });
  });
});

/** gRPC warns of TLS to an address. */
const byName = (address: string): string => address.replace("127.0.0.1", "localhost");

const TEMPORAL_FAULTS: Readonly<Record<string, Omit<Fault, "change">>> = {
  "a refused port": {
    environment: () => ({ TEMPORAL_ADDRESS: "127.0.0.1:1" }),
    says: /Temporal at 127\.0\.0\.1:1 \(TEMPORAL_ADDRESS\) cannot be reached: .*ECONNREFUSED/,
  },
  "an unknown host": {
    environment: () => ({ TEMPORAL_ADDRESS: "temporal.invalid:7233" }),
    says: /the host of Temporal at temporal\.invalid:7233 \(TEMPORAL_ADDRESS\) is unknown/,
  },
  "TLS to a server without": {
    environment: () => ({ TEMPORAL_TLS: "true", TEMPORAL_ADDRESS: byName(inject("temporalAddress")) }),
    says: /Temporal at localhost:\d+ \(TEMPORAL_ADDRESS\) cannot be reached over TLS: .*if it speaks none, leave out TEMPORAL_TLS/,
  },
  "no TLS to a server with": {
    environment: () => ({ TEMPORAL_ADDRESS: front.address }),
    says: /Temporal at 127\.0\.0\.1:\d+ \(TEMPORAL_ADDRESS\) cannot be reached without TLS: .*TEMPORAL_TLS=true/,
  },
  "a certificate of another CA": {
    environment: () => ({
      ...client,
      TEMPORAL_ADDRESS: byName(front.address),
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: files.path("other.pem"),
    }),
    says: /the certificate of Temporal at localhost:\d+ \(TEMPORAL_ADDRESS\) is not trusted, check TEMPORAL_TLS_SERVER_CA_CERT_PATH/,
  },
  "no certificate for a server that wants one": {
    environment: () => ({
      TEMPORAL_ADDRESS: byName(front.address),
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: client["TEMPORAL_TLS_SERVER_CA_CERT_PATH"],
    }),
    says: /Temporal at localhost:\d+ \(TEMPORAL_ADDRESS\) refused the client certificate \(TEMPORAL_TLS_CLIENT_CERT_PATH\)/,
  },
};

/** Waits for the line of a process that goes on without Temporal. Ends it, and returns its reason. */
async function reasonOf(started: RunningCommand, message: string): Promise<string> {
  const line = await eventually(
    () =>
      started
        .stdout()
        .split("\n")
        .find((text) => text.includes(message)),
    `"${message}" after ${started.stdout()}${started.stderr()}`,
  );
  started.kill();
  expect(line).not.toMatch(/"stack"|\\n +at /);
  const { reasons } = JSON.parse(line) as { readonly reasons: readonly string[] };
  return reasons.join("\n");
}

describe("Temporal", () => {
  test("with any fault ends `migrate`, after ten seconds", async () => {
    const runs = Object.entries(TEMPORAL_FAULTS).map(async ([what, { environment = () => ({}), says }]) => {
      const changed = { ...environment(), SIGNET_DATABASE_ADMIN_URL: database.adminUrl };
      return { what, says, line: sentenceOf(await start("migrate", changed).ended) };
    });
    for (const { what, says, line } of await Promise.all(runs)) {
      expect(line, what).toMatch(says);
    }
  });

  const faults = Object.entries(TEMPORAL_FAULTS).map(([what, fault], index) => ({ what, ...fault, index }));

  test.for(faults)(
    "with $what is explained by api or worker, which wait for it",
    async ({ environment = () => ({}), says, index }) => {
      const [command, message] =
        index % 2 === 0
          ? (["api", "Temporal cannot be used yet"] as const)
          : (["worker", "Temporal cannot be reached yet"] as const);
      expect(await reasonOf(start(command, environment()), message)).toMatch(says);
    },
  );

  test("without the namespace ends the worker, and is explained by the api", async () => {
    const changed = { TEMPORAL_NAMESPACE: "absent" };
    const says = /has no namespace absent \(TEMPORAL_NAMESPACE\): run `signet migrate`/;
    expect(await reasonOf(start("api", changed), "Temporal cannot be used yet")).toMatch(says);
    expect(sentenceOf(await start("worker", changed).ended)).toMatch(says);
  });
});
