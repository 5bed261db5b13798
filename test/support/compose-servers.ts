/** PostgreSQL and Temporal as in docker-compose.yml, with the certificates that the file's init job creates. */
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ComposeFile, ComposeService } from "./compose-file.ts";
import { IMAGE_ENVIRONMENT, runProcess } from "./processes.ts";
import { startTemporalTls, startTlsDatabase, type TlsDatabase, type TlsFront } from "./tls-servers.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
/** Directory of the key and certificate volumes in containers. */
export const VOLUMES = "/run/signet";

type Init = (...words: readonly string[]) => Promise<string>;

/** The file's other servers, with the certificates that its init job has created. */
export interface ComposeServers {
  /** Directory of the key and certificate volumes, filled by the file's init job. */
  readonly volumes: string;
  /** Returns the output of `docker compose run --rm init <words>`. */
  readonly init: Init;
  /** What the commands at the top of the file create: the CA's certificate, and a client's key and certificate. */
  readonly client: { readonly ca: string; readonly pair: string };
  /** URL of the superuser. */
  readonly databaseUrl: string;
  readonly temporalAddress: string;
  close(): Promise<void>;
}

/** Runs the file's job for keys and certificates, with the volumes in a local directory. */
async function runInit(
  { services, configs }: ComposeFile,
  volumes: string,
  words: readonly string[],
): Promise<string> {
  const { entrypoint = [], environment = {}, configs: mounted = [] } = services["init"] ?? {};
  const scripts = new Map(mounted.map(({ source, target }) => [target, configs[source]?.file ?? ""]));
  return await runProcess({
    command: [...entrypoint.map((word) => scripts.get(word) ?? word), ...words],
    cwd: REPOSITORY,
    environment: {
      ...Object.fromEntries(
        Object.entries(environment).map(([name, value]) => [name, value.replace(VOLUMES, volumes)]),
      ),
      ...IMAGE_ENVIRONMENT,
    },
  });
}

type Volumes = (path: string | undefined) => string;

/** Starts PostgreSQL with the file's settings, except for paths that differ here. */
async function startPostgres({ services, configs }: ComposeFile, inVolumes: Volumes): Promise<TlsDatabase> {
  const { command = [], configs: mounted = [] } = services["postgres"] ?? {};
  const words = command.flatMap((word) => [...word.matchAll(/^--(\w+)=(.*)$/g)]);
  const given = Object.fromEntries(words.map(([, name = "", value = ""]) => [name, value]));
  const { ssl_cert_file, ssl_key_file, hba_file, ...settings } = given;
  const access = mounted.find(({ target }) => target === hba_file)?.source ?? "";
  return await startTlsDatabase({
    certFile: inVolumes(ssl_cert_file),
    keyFile: inVolumes(ssl_key_file),
    caFile: inVolumes(services["migrate"]?.environment?.["SIGNET_DATABASE_CA_FILE"]),
    settings,
    access: configs[access]?.content ?? "",
  });
}

/** Starts a listener with the certificate of the file's Temporal, in front of the run's Temporal. */
async function startTemporal({ environment = {} }: ComposeService, inVolumes: Volumes): Promise<TlsFront> {
  const read = async (name: string): Promise<string> => await readFile(inVolumes(environment[name]), "utf8");
  return await startTemporalTls(
    { cert: await read("TEMPORAL_TLS_FRONTEND_CERT"), key: await read("TEMPORAL_TLS_FRONTEND_KEY") },
    await read("TEMPORAL_TLS_CLIENT1_CA_CERT"),
  );
}

/** Runs the file's init job, and starts the servers that use its certificates. */
export async function startServers(file: ComposeFile): Promise<ComposeServers> {
  const { init: job, temporal: service } = file.services;
  const volumes = await mkdtemp(join(tmpdir(), "signet-volumes-"));
  for (const mount of job?.volumes ?? []) {
    await mkdir((mount.split(":")[1] ?? "").replace(VOLUMES, volumes));
  }
  const init: Init = async (...words) => await runInit(file, volumes, words);
  await init();
  const inVolumes: Volumes = (path = "") => path.replace(VOLUMES, volumes);
  const postgres = await startPostgres(file, inVolumes);
  const temporal = await startTemporal(service ?? {}, inVolumes);
  const client = { ca: await init("ca"), pair: await init("client", "example") };
  return {
    volumes,
    init,
    client,
    databaseUrl: postgres.url,
    temporalAddress: temporal.address,
    close: async () => {
      temporal.close();
      await postgres.close();
      await rm(volumes, { recursive: true });
    },
  };
}
