/** TLS-only servers: PostgreSQL for one test file, and a listener in front of the run's Temporal. */
import { chmod, chown, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect } from "node:net";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream";
import { createServer } from "node:tls";
import { inject } from "vitest";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { isRoot, unprivilegedUser } from "#processes/embedded/service-user.ts";
import { formatListen } from "#config/setting.ts";
import { freePort } from "./free-port.ts";
import { interruptOnExit } from "./interrupt-on-exit.ts";
import { execute, THROWN_AWAY } from "./test-database.ts";

/** All network connections must use TLS. */
const TLS_ONLY = "hostssl all all all scram-sha-256\n";

export interface TlsDatabaseOptions {
  readonly certFile: string;
  /** Key file; its directory is given to the server's user. */
  readonly keyFile: string;
  /** CA file that verifies the certificate. */
  readonly caFile: string;
  /** PostgreSQL settings in addition to those of TLS. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Lines of pg_hba.conf (default: TLS only). */
  readonly access?: string;
}

export interface TlsDatabase {
  /** URL of the superuser, with verified TLS. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

/** Makes PostgreSQL's user the owner of the key and its directory. */
async function giveToServer(directory: string): Promise<void> {
  if (isRoot()) {
    const { uid, gid } = unprivilegedUser();
    for (const name of [".", ...(await readdir(directory))]) {
      await chown(join(directory, name), uid, gid);
    }
    await chmod(dirname(directory), 0o711);
  }
}

/** Starts PostgreSQL with a certificate on 127.0.0.1. */
export async function startTlsDatabase(options: TlsDatabaseOptions): Promise<TlsDatabase> {
  const { certFile, keyFile, caFile, settings = {}, access = TLS_ONLY } = options;
  await giveToServer(dirname(keyFile));
  const home = await mkdtemp(join(inject("runDirectory"), "tls-"));
  await chmod(home, 0o755);
  const port = await freePort();
  const server = await startEmbeddedPostgres({
    home,
    port,
    log: () => undefined,
    settings: { ...THROWN_AWAY, ...settings, ssl: "on", ssl_cert_file: certFile, ssl_key_file: keyFile },
  });
  const leave = interruptOnExit(() => server.pid);
  const url = new URL(server.url);
  url.searchParams.set("sslmode", "verify-full");
  url.searchParams.set("sslrootcert", caFile);
  await writeFile(join(server.data, "pg_hba.conf"), access);
  await execute(url.href, "SELECT pg_reload_conf()");
  return {
    url: url.href,
    port,
    close: async () => {
      leave();
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}

export interface TlsFront {
  /** Address as `host:port`. */
  readonly address: string;
  close(): void;
}

/** Starts a listener that requires a client certificate of `ca` and forwards to the run's Temporal. */
export async function startTemporalTls(
  pair: { readonly cert: string; readonly key: string },
  ca: string,
): Promise<TlsFront> {
  const upstream = new URL(`tcp://${inject("temporalAddress")}`);
  const server = createServer(
    { ...pair, ca, requestCert: true, rejectUnauthorized: true, ALPNProtocols: ["h2"] },
    (socket) => {
      const through = connect(Number(upstream.port), upstream.hostname);
      pipeline(socket, through, () => undefined);
      pipeline(through, socket, () => undefined);
    },
  );
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { address: host, port } = server.address() as AddressInfo;
  return { address: formatListen({ host, port }), close: () => void server.close() };
}
