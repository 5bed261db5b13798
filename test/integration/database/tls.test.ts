/** PostgreSQL over TLS: its certificate is verified by name, on every kind of connection. */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { listen } from "#database/listener.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { subscribe } from "#database/subscription.ts";
import { createLogger } from "#observability/logger.ts";
import { certificateFiles, clientPair, newRoot, serverPair, today } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { execute, SERVICE_LOGIN, withDatabase } from "#test/support/test-database.ts";
import { startTlsDatabase, type TlsDatabase } from "#test/support/tls-servers.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const log = createLogger({ level: "silent" });
/** Superusers need only a password; other users also need a certificate. */
const ACCESS = [
  "hostssl all postgres all scram-sha-256",
  "hostssl all all all scram-sha-256 clientcert=verify-ca",
].join("\n");

describe("a PostgreSQL server that requires TLS", () => {
  const files = certificateFiles();
  let server: TlsDatabase;
  let environment: Environment;
  let root: Awaited<ReturnType<typeof newRoot>>;

  beforeAll(async () => {
    root = await newRoot("PostgreSQL CA");
    files.write("other-ca.pem", (await newRoot("Another CA")).cert);
    const [listener, own] = [await serverPair(root), await clientPair(root)];
    const caFile = files.write("ca.pem", root.cert);
    mkdirSync(dirname(files.path("server/x")));
    server = await startTlsDatabase({
      certFile: files.write("server/server.crt", listener.cert),
      keyFile: files.write("server/server.key", listener.key),
      caFile,
      settings: { ssl_ca_file: files.write("server/ca.pem", root.cert) },
      access: ACCESS,
    });
    const plain = new URL(server.url);
    plain.search = "";
    environment = {
      SIGNET_ENV: "development",
      SIGNET_DATABASE_URL: withDatabase(plain.href, plain.pathname.slice(1), SERVICE_LOGIN),
      SIGNET_DATABASE_ADMIN_URL: plain.href,
      SIGNET_DATABASE_CA_FILE: caFile,
      SIGNET_DATABASE_CERT_FILE: files.write("own.pem", own.cert),
      SIGNET_DATABASE_KEY_FILE: files.write("own.key", own.key),
    };
    const { databaseUrl: serviceUrl = "", databaseAdminUrl: adminUrl = "" } = loadConfig(environment);
    await migrateDatabase({ timers: machineTimers, adminUrl, serviceUrl, nowMs: Date.now() });
  });

  afterAll(async () => {
    await server.close();
    files.remove();
  });

  const urlOf = (changed: Environment): string =>
    loadConfig({ ...environment, ...changed }).databaseUrl ?? "";
  const poolOf = (changed: Environment = {}): Pool =>
    createPool({ url: urlOf(changed), role: "signet_api", max: 4, log });
  const elsewhere = (host: string): Environment => ({
    SIGNET_DATABASE_URL: environment["SIGNET_DATABASE_URL"]?.replace("127.0.0.1", host),
  });

  async function ask(changed: Environment): Promise<void> {
    const pool = poolOf(changed);
    try {
      await pool.query("SELECT 1");
    } finally {
      await pool.end();
    }
  }

  test("serves pools, subscriptions and listeners, all encrypted", async () => {
    const pool = poolOf();
    await pool.query("SELECT 1");
    const received: (string | undefined)[] = [];
    const stopListening = listen({
      timers: machineTimers,
      url: urlOf({}),
      channels: { tls: (text) => received.push(text) },
      log,
    });
    const subscription = await subscribe({
      timers: machineTimers,
      url: urlOf({}),
      role: "signet_edge",
      channel: "tls",
      idleMs: 60_000,
      onNotification: (text) => received.push(text),
      onLost: () => undefined,
    });
    try {
      await eventually(() => received.length > 0, "the listener to connect");
      await execute(server.url, "NOTIFY tls, 'x'");
      await eventually(() => received.filter((text) => text === "x").length === 2, "both notifications");
      const superuser = new Client({ connectionString: server.url });
      await superuser.connect();
      const { rows } = await superuser.query<{ application: string }>(
        `SELECT application_name AS application, ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE usename = $1 ORDER BY 1`,
        [SERVICE_LOGIN.user],
      );
      await superuser.end();
      const all = ["signet_api", "signet_edge", "signet_listener"];
      expect(rows).toEqual(all.map((application) => ({ application, ssl: true })));
    } finally {
      await pool.end();
      await subscription.close();
      await stopListening();
    }
  });

  test.for<[what: string, changed: () => Environment, because: RegExp]>([
    [
      "a certificate of an untrusted CA",
      () => ({ SIGNET_DATABASE_CA_FILE: files.path("other-ca.pem") }),
      /unable to (verify the first certificate|get local issuer certificate)|self.signed/,
    ],
    ["a certificate for another name", () => elsewhere("localhost"), /Hostname\/IP does not match/],
    [
      "no TLS on the client",
      () => ({
        SIGNET_DATABASE_CA_FILE: "",
        SIGNET_DATABASE_CERT_FILE: "",
        SIGNET_DATABASE_KEY_FILE: "",
      }),
      /no encryption/,
    ],
    [
      "no client certificate although the server requires one",
      () => ({ SIGNET_DATABASE_CERT_FILE: "", SIGNET_DATABASE_KEY_FILE: "" }),
      /connection requires a valid client certificate/,
    ],
  ])("is not connected to with %s", async ([, changed, because]) => {
    await expect(ask(changed())).rejects.toThrow(because);
  });

  test("may replace its certificate, and the client its CAs, while connections are open", async () => {
    const pool = poolOf();
    const [held, url] = [await pool.connect(), elsewhere("localhost")];
    try {
      const renewed = await root.issue({
        subject: "CN=renewed",
        names: [{ type: "dns", value: "localhost" }],
        purposes: ["serverAuth"],
        ...today(),
      });
      files.write("server/server.key", renewed.key);
      files.write("server/server.crt", renewed.cert);
      await execute(server.url, "SELECT pg_reload_conf()");
      // The new certificate has this name and no longer the address.
      await eventually(
        async () =>
          await ask(url).then(
            () => true,
            () => false,
          ),
        "the new certificate",
      );
      await expect(pool.query("SELECT 1")).rejects.toThrow(/IP.* is not in the cert's list/);
      await held.query("SELECT 1");

      // A pool's next connection reads the current file.
      const pooled = poolOf(url);
      await pooled.query("SELECT 1");
      const one = await pooled.connect();
      files.write("ca.pem", await newRoot("Another CA").then(({ cert }) => cert));
      await expect(pooled.query("SELECT 1")).rejects.toThrow(/certificate/);
      files.write("ca.pem", root.cert);
      await pooled.query("SELECT 1");
      one.release();
      await pooled.end();
    } finally {
      held.release();
      await pool.end();
    }
  });
});
