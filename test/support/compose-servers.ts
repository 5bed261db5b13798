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

/** Returns a path in a service's container as the path in the directory of all volumes; other texts as they are. */
export function inVolumes({ volumes: mounts = [] }: ComposeService, directory: string, path: string): string {
  const [source, target] =
    mounts
      .map((mount) => mount.split(":"))
      .find(([, mounted = ""]) => `${path}/`.startsWith(`${mounted}/`) && mounted.startsWith(VOLUMES)) ?? [];
  return source === undefined || target === undefined
    ? path.replace(VOLUMES, directory)
    : join(directory, source, path.slice(target.length));
}

/** Runs the file's job for keys and certificates, with the volumes in a local directory. */
async function runInit(
  job: ComposeService,
  { configs }: ComposeFile,
  volumes: string,
  words: readonly string[],
): Promise<string> {
  const { entrypoint = [], environment = {}, configs: mounted = [] } = job;
  const scripts = new Map(mounted.map(({ source, target }) => [target, configs[source]?.file ?? ""]));
  return await runProcess({
    command: [...entrypoint.map((word) => scripts.get(word) ?? word), ...words],
    cwd: REPOSITORY,
    environment: {
      ...Object.fromEntries(
        Object.entries(environment).map(([name, value]) => [name, inVolumes(job, volumes, value)]),
      ),
      ...IMAGE_ENVIRONMENT,
    },
  });
}

/** Starts PostgreSQL with the file's settings, except for paths that differ here. */
async function startPostgres(
  service: ComposeService,
  { services, configs }: ComposeFile,
  volumes: string,
): Promise<TlsDatabase> {
  const { command = [], configs: mounted = [] } = service;
  const words = command.flatMap((word) => [...word.matchAll(/^--(\w+)=(.*)$/g)]);
  const given = Object.fromEntries(words.map(([, name = "", value = ""]) => [name, value]));
  const { ssl_cert_file, ssl_key_file, hba_file, ...settings } = given;
  const access = mounted.find(({ target }) => target === hba_file)?.source ?? "";
  return await startTlsDatabase({
    certFile: inVolumes(service, volumes, ssl_cert_file ?? ""),
    keyFile: inVolumes(service, volumes, ssl_key_file ?? ""),
    caFile: inVolumes(service, volumes, services["migrate"]?.environment?.["SIGNET_DATABASE_CA_FILE"] ?? ""),
    settings,
    access: configs[access]?.content ?? "",
  });
}

/** Starts a listener with the certificate of the file's Temporal, in front of the run's Temporal. */
async function startTemporal(service: ComposeService, volumes: string): Promise<TlsFront> {
  const read = async (name: string): Promise<string> =>
    await readFile(inVolumes(service, volumes, service.environment?.[name] ?? ""), "utf8");
  return await startTemporalTls(
    { cert: await read("TEMPORAL_TLS_FRONTEND_CERT"), key: await read("TEMPORAL_TLS_FRONTEND_KEY") },
    await read("TEMPORAL_TLS_CLIENT1_CA_CERT"),
  );
}

/**
 * Runs the file's init job, and starts the servers that use its certificates.
 *
 * @param beside for the second cell: the servers of the home cell, with whose authorities the job continues
 */
export async function startServers(file: ComposeFile, beside?: ComposeServers): Promise<ComposeServers> {
  const service = (name: string): ComposeService =>
    file.services[beside === undefined ? name : `${name}-us`] ?? {};
  const volumes = beside?.volumes ?? (await mkdtemp(join(tmpdir(), "signet-volumes-")));
  const job = service("init");
  for (const mount of job.volumes ?? []) {
    await mkdir(inVolumes(job, volumes, mount.split(":")[1] ?? ""), { recursive: true });
  }
  const init: Init = async (...words) => await runInit(job, file, volumes, words);
  await init();
  const postgres = await startPostgres(service("postgres"), file, volumes);
  const temporal = await startTemporal(service("temporal"), volumes);
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
      await rm(volumes, { recursive: true, force: true });
    },
  };
}
