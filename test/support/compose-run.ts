/**
 * Runs Signet's services of docker-compose.yml as processes, with the file's own commands, environment, health checks
 * and start order. This file replaces the container engine: it maps the names of other services to the servers of the
 * test run, and container ports to ports of 127.0.0.1.
 */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { inject } from "vitest";
import { type ListenAddress, SETTINGS } from "../../src/config/config.ts";
import type { ComposeFile, ComposeService, ImageFile, Variables } from "./compose-file.ts";
import { parseSeconds } from "./compose-file.ts";
import { type ComposeServers, inVolumes } from "./compose-servers.ts";
import { freePort } from "./free-port.ts";
import { IMAGE_ENVIRONMENT, runProcess, type SpawnedProcess, spawnProcess } from "./processes.ts";
import { execute, withDatabase } from "./test-database.ts";

const LISTENERS = [
  SETTINGS.apiListen,
  SETTINGS.adminListen,
  SETTINGS.edgeListen,
  SETTINGS.hubListen,
  SETTINGS.metricsListen,
] as const;

/** Interval between checks of a process, in milliseconds. */
const LOOK_INTERVAL_MS = 50;
/** Interval between health checks before a process reports its start. Each check is a process too. */
const EARLY_CHECK_INTERVAL_MS = 10_000;
/** How long a service may take to become healthy, on a busy machine. */
const HEALTHY_MS = 120_000;
/** How much longer than in the file a health check may take: many services start at once here, beside other tests. */
const BUSY_FACTOR = 10;

/** Replaces the containers of PostgreSQL and Temporal; both are empty. */
export interface Place extends ComposeServers {
  /** Suffix for names on servers that other tests share. */
  readonly suffix: string;
}

/** Creates what the file's `postgres` service would have: its superuser and its database. */
export async function makePlace({ services }: ComposeFile, servers: ComposeServers): Promise<Place> {
  const superuser = servers.databaseUrl;
  const suffix = `_${randomBytes(4).toString("hex")}`;
  const { POSTGRES_DB = "postgres", POSTGRES_PASSWORD = "" } = services["postgres"]?.environment ?? {};
  await execute(superuser, `CREATE ROLE "postgres${suffix}" SUPERUSER LOGIN PASSWORD '${POSTGRES_PASSWORD}'`);
  await execute(superuser, `CREATE DATABASE "${POSTGRES_DB}${suffix}"`);
  return {
    ...servers,
    suffix,
    close: async () => {
      await execute(superuser, `DROP DATABASE "${POSTGRES_DB}${suffix}" WITH (FORCE)`);
      await execute(
        superuser,
        `DROP ROLE IF EXISTS "signet${suffix}", "signet_edge_login${suffix}", "cell_us${suffix}"`,
      );
      await execute(
        superuser,
        `REASSIGN OWNED BY "postgres${suffix}" TO CURRENT_USER; DROP OWNED BY "postgres${suffix}"; DROP ROLE "postgres${suffix}"`,
      );
    },
  };
}

export interface RunOptions {
  readonly file: ComposeFile;
  readonly image: ImageFile;
  /** Directory with the image's content. */
  readonly directory: string;
  readonly place: Place;
  /** The second cell's; its services' names end with `-us`. */
  readonly cell?: Place | undefined;
  /** A run whose api serves the edge of this one. */
  readonly beside?: ComposeRun | undefined;
}

interface Running {
  readonly name: string;
  readonly service: ComposeService;
  readonly process: SpawnedProcess;
}

function rewriteDatabase(text: string, { suffix, databaseUrl }: Place): string {
  const url = new URL(text);
  url.host = new URL(databaseUrl).host;
  url.username += suffix;
  return withDatabase(url.href, `${url.pathname.slice(1)}${suffix}`);
}

/** One start of the file's services; see {@link prepareCompose}. */
export class ComposeRun {
  readonly #options: RunOptions;
  readonly #ports: ReadonlyMap<string, number>;
  #running: Running[] = [];

  constructor(options: RunOptions, ports: ReadonlyMap<string, number>) {
    this.#options = options;
    this.#ports = ports;
  }

  #service(name: string): ComposeService {
    const service = this.#options.file.services[name];
    if (service === undefined) {
      throw new Error(`there is no service ${name}`);
    }
    return service;
  }

  #port(name: string, port: number | string): number {
    const { beside } = this.#options;
    return beside !== undefined && name === "api"
      ? beside.#port(name, port)
      : (this.#ports.get(`${name}:${port}`) ?? Number(port));
  }

  /** Returns where a service, or the server of this name, is. */
  #placeOf(name: string): Place {
    const { place, cell = place } = this.#options;
    return name.endsWith("-us") ? cell : place;
  }

  #listen(name: string, { variable, fallback, parse }: (typeof LISTENERS)[number]): ListenAddress {
    return parse(this.#service(name).environment?.[variable] ?? fallback);
  }

  /** Returns a container port as seen from outside. @throws Error if its listener is internal */
  reach(name: string, port: number): string {
    const reachable = LISTENERS.some((listener) => {
      const address = this.#listen(name, listener);
      return address.host === "0.0.0.0" && address.port === port;
    });
    if (!reachable) {
      throw new Error(`${name}:${port} cannot be reached from outside its container`);
    }
    const scheme = this.#listen(name, SETTINGS.edgeListen).port === port ? "https" : "http";
    return `${scheme}://127.0.0.1:${this.#port(name, port)}`;
  }

  /** Returns the address published on this port of the machine. */
  published(hostPort: number): string {
    for (const [name, { ports = [] }] of Object.entries(this.#options.file.services)) {
      for (const [, host, container] of ports.map((text) => text.split(":"))) {
        if (Number(host) === hostPort) {
          return this.reach(name, Number(container));
        }
      }
    }
    throw new Error(`nothing is published on port ${hostPort}`);
  }

  /** Returns the URL of a service's metrics, also if they cannot be reached from outside. */
  metrics(name: string): string {
    return `http://127.0.0.1:${this.#port(name, this.#listen(name, SETTINGS.metricsListen).port)}`;
  }

  /** Returns the address that clients of the api use. */
  get origin(): string {
    return this.#options.beside?.origin ?? this.published(8443);
  }

  /** Returns the value of a service's variable, with addresses and paths of this run. */
  #here(name: string, value: string): string {
    const { services } = this.#options.file;
    const [, database, temporal] =
      /^postgres:.*@(postgres|postgres-us):5432\/|^(temporal|temporal-us):7233$/.exec(value) ?? [];
    if (database !== undefined) {
      return rewriteDatabase(value, this.#placeOf(database));
    }
    if (temporal !== undefined) {
      return this.#placeOf(temporal).temporalAddress;
    }
    return inVolumes(this.#service(name), this.#placeOf(name).volumes, value)
      .replace("//localhost:8443", "//edge:8443")
      .replace("//localhost:8445", "//api-us:8443")
      .replaceAll(/\/\/([a-z-]+):(\d+)/g, (all, host: string, port: string) =>
        host in services ? `//127.0.0.1:${this.#port(host, port)}` : all,
      );
  }

  /** Returns the complete environment of a service's container. */
  environment(name: string): Variables {
    const { image } = this.#options;
    const { suffix } = this.#placeOf(name);
    const given = Object.entries({ ...image.environment, ...this.#service(name).environment });
    const environment = Object.fromEntries(
      given.map(([variable, value]) => [variable, this.#here(name, value)]),
    );
    for (const listener of LISTENERS) {
      environment[listener.variable] = `127.0.0.1:${this.#port(name, this.#listen(name, listener).port)}`;
    }
    if (environment["SIGNET_CHECKPOINT_DIR"] !== undefined) {
      // A separate volume for each service.
      environment["SIGNET_CHECKPOINT_DIR"] = join(inject("runDirectory"), `${name}${suffix}`);
    }
    if (environment["SIGNET_TRUSTED_PROXIES"] !== undefined) {
      // A container's address is in a private network; here it is loopback.
      environment["SIGNET_TRUSTED_PROXIES"] += ",127.0.0.0/8";
    }
    const { variable, fallback } = SETTINGS.temporalNamespace;
    return {
      ...environment,
      [variable]: `${environment[variable] ?? fallback}${suffix}`,
      ...IMAGE_ENVIRONMENT,
    };
  }

  /** Runs a command like `docker compose exec`: the service's environment, the image's programs. */
  async exec(name: string, command: readonly string[]): Promise<string> {
    const [program = "", ...args] = command;
    return await runProcess({
      // The image's only program; its Dockerfile links it.
      command: program === "signet" ? ["node", "src/bootstrap.mjs", ...args] : command,
      cwd: this.#options.directory,
      environment: this.environment(name),
    });
  }

  /** Runs a service's health check like Docker: a service is unhealthy after as many failures as it has retries. */
  async isHealthy(name: string): Promise<boolean> {
    const { retries = 1 } = this.#service(name).healthcheck ?? {};
    for (let tried = 0; tried < retries; tried += 1) {
      if (await this.#passesCheck(name)) {
        return true;
      }
    }
    return false;
  }

  async #passesCheck(name: string): Promise<boolean> {
    const { healthcheck } = this.#service(name);
    if (healthcheck === undefined) {
      throw new Error(`${name} has no health check`);
    }
    const { test, timeout } = healthcheck;
    const [kind, ...command] = test;
    if (kind !== "CMD") {
      throw new Error(`${name} has a health check of an unknown kind: ${kind}`);
    }
    const check = spawnProcess({
      command: command.map((word) =>
        word.replace(/(127\.0\.0\.1:)(\d+)/g, (_all, host: string, port: string) => {
          return `${host}${this.#port(name, port)}`;
        }),
      ),
      cwd: this.#options.directory,
      environment: this.environment(name),
    });
    const timer = setTimeout(() => void check.stop("SIGKILL"), BUSY_FACTOR * parseSeconds(timeout));
    const { code } = await check.ended;
    clearTimeout(timer);
    return code === 0;
  }

  async #untilHealthy({ name, service, process }: Running): Promise<void> {
    const began = performance.now();
    let nextCheck = began + EARLY_CHECK_INTERVAL_MS;
    for (;;) {
      if (process.state() !== undefined) {
        throw new Error(`${name} ended with code ${process.state()?.code}:\n${process.output()}`);
      }
      if (process.output().includes(`"${service.command?.[0]} started"`) || performance.now() > nextCheck) {
        if (await this.isHealthy(name)) {
          break;
        }
        nextCheck = performance.now() + EARLY_CHECK_INTERVAL_MS;
        if (performance.now() > began + HEALTHY_MS) {
          throw new Error(`${name} is not healthy:\n${process.output()}`);
        }
      }
      await delay(LOOK_INTERVAL_MS);
    }
  }

  #spawn(name: string): Running {
    const { image, directory } = this.#options;
    const service = this.#service(name);
    const process = spawnProcess({
      command: [...image.entrypoint, ...(service.command ?? [])],
      cwd: directory,
      environment: this.environment(name),
    });
    const running = { name, service, process };
    this.#running.push(running);
    return running;
  }

  #isJob(name: string): boolean {
    const conditions = Object.values(this.#options.file.services).map(
      ({ depends_on: needs }) => needs?.[name]?.condition,
    );
    return conditions.includes("service_completed_successfully");
  }

  /** Runs a service that ends by itself. Resolves with its code and output. */
  async end(name: string): Promise<string> {
    const { process } = this.#spawn(name);
    const { code } = await process.ended;
    return `${name} ended with code ${code}:\n${process.output()}`;
  }

  async #start(name: string): Promise<void> {
    if (!this.#isJob(name)) {
      await this.#untilHealthy(this.#spawn(name));
      return;
    }
    const ended = await this.end(name);
    if (!ended.startsWith(`${name} ended with code 0:`)) {
      throw new Error(ended);
    }
  }

  /**
   * Starts the services, each as soon as its dependencies allow. Jobs come last, so that a service that does not wait
   * for them is detected.
   */
  async up(names: readonly string[]): Promise<void> {
    const waiting = new Set(names);
    while (waiting.size > 0) {
      const ready = [...waiting].filter((name) => {
        const needs = Object.keys(this.#service(name).depends_on ?? {});
        return needs.every((need) => !waiting.has(need));
      });
      const services = ready.filter((name) => !this.#isJob(name));
      const next = services.length > 0 ? services : ready;
      if (next.length === 0) {
        throw new Error(`circular dependencies: ${[...waiting].join(", ")}`);
      }
      await Promise.all(next.map(async (name) => await this.#start(name)));
      next.forEach((name) => waiting.delete(name));
    }
  }

  /** Stops services, or all, in reverse order, like the engine: SIGTERM, then SIGKILL after the grace period. */
  async down(
    names?: readonly string[],
  ): Promise<ReadonlyMap<string, { readonly code: number | null; readonly tookMs: number }>> {
    const ends = new Map<string, { code: number | null; tookMs: number }>();
    const ending = this.#running.filter(({ name }) => names?.includes(name) !== false);
    this.#running = this.#running.filter((running) => !ending.includes(running));
    for (const { name, service, process } of ending.toReversed()) {
      if (process.state() !== undefined) {
        continue;
      }
      const grace = setTimeout(
        () => void process.stop("SIGKILL"),
        parseSeconds(service.stop_grace_period ?? "10s"),
      );
      const { code, tookMs } = await process.stop();
      clearTimeout(grace);
      ends.set(name, { code, tookMs });
    }
    return ends;
  }
}

/** Prepares a run of the file, with a port of 127.0.0.1 for each container port. Starts nothing. */
export async function prepareCompose(options: RunOptions): Promise<ComposeRun> {
  const ports = new Map<string, number>();
  const defaults = LISTENERS.map(({ fallback }) => fallback);
  for (const [name, service] of Object.entries(options.file.services)) {
    if (service.build === undefined) {
      continue;
    }
    const texts = [...defaults, ...Object.values(service.environment ?? {}), ...(service.ports ?? [])];
    for (const text of [...texts, ...(service.healthcheck?.test ?? [])]) {
      for (const [, port = ""] of text.matchAll(/:(\d{2,5})\b/g)) {
        ports.set(`${name}:${port}`, ports.get(`${name}:${port}`) ?? (await freePort()));
      }
    }
  }
  return new ComposeRun(options, ports);
}
