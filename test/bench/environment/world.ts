/** A Signet with its own database and Temporal namespace; its tenants and endpoints are created over its APIs. */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { NO_LIMITS } from "#test/support/no-limits.ts";
import type { LoadGenerator, SinkEndpoint } from "../load/load-generator.ts";
import type { Roots } from "../measure/meter.ts";
import { withClient } from "./postgres.ts";
import {
  insertEndpoints,
  provisionTenant,
  registerEndpoints,
  type Tenant,
  untilActive,
} from "./provision.ts";
import {
  type Beside,
  DIST,
  migrate,
  type Settings,
  type Shape,
  type Signet,
  startBeside,
  startSignet,
} from "./signet.ts";
import type { Stack } from "./stack.ts";

export interface WorldOptions {
  /** Part of the database and namespace names. */
  readonly name: string;
  readonly stack: Stack;
  readonly load: LoadGenerator;
  /** Another build of Signet to run instead of this repository's, and its Dockerfile. */
  readonly dist?: string;
  readonly dockerfile?: string;
  /** Settings for every scenario that raise limits above the defaults. */
  readonly raised: Settings;
  readonly profiles: string | undefined;
  readonly shape?: Shape;
  /** Port of a proxy to PostgreSQL for api and worker. */
  readonly databasePort?: number;
}

/** Tenants of the same shape. */
export interface TenantGroup {
  readonly tenants: readonly Tenant[];
  /** Event types. An event goes to its tenant's endpoints that are registered for its type. */
  readonly types: readonly string[];
  readonly endpoints: readonly SinkEndpoint[];
}

export interface GroupShape {
  readonly name: string;
  readonly tenants: number;
  readonly endpointsPerTenant: number;
  /** `one`: each endpoint has its own event type. `all`: every event goes to each endpoint of its tenant. */
  readonly fanOut: "one" | "all";
  /**
   * Whether the endpoints are inserted as rows, each at an address of its own. Registration and ping take 0.1 s of CPU
   * each. The world needs a verified endpoint already, which is copied.
   */
  readonly inserted?: boolean;
}

const PARALLEL_TENANTS = 4;
/** `SIGNET_RETENTION_DAYS` by default, without today. */
const KEPT_DAYS = 29;

function eventTypes({ endpointsPerTenant, fanOut }: GroupShape): string[] {
  const count = fanOut === "one" ? endpointsPerTenant : 1;
  return Array.from({ length: count }, (_, index) => `bench.type_${String(index).padStart(2, "0")}`);
}

export class World {
  readonly #options: WorldOptions;
  readonly #base: Settings;
  readonly #directory: string;
  readonly #groups = new Map<string, TenantGroup>();
  readonly database: string;
  readonly namespace: string;
  #signet: Signet | undefined;
  #settings: Settings = {};
  #beside = 0;

  private constructor(options: WorldOptions, directory: string) {
    const { name, stack } = options;
    this.#options = options;
    this.#directory = directory;
    this.database = `signet_bench_${name.replaceAll("-", "_")}`;
    this.namespace = `${stack.namespace}-bench-${name}`;
    this.#base = {
      PATH: "/usr/bin:/bin",
      ...NO_LIMITS,
      SIGNET_ENV: "development",
      SIGNET_HOME: directory,
      SIGNET_DATABASE_URL: stack.postgres.serviceUrl(this.database),
      SIGNET_DATABASE_ADMIN_URL: stack.postgres.url(this.database),
      TEMPORAL_ADDRESS: stack.temporal.address,
      TEMPORAL_NAMESPACE: this.namespace,
      SIGNET_KEK: randomBytes(32).toString("base64"),
      SIGNET_PEPPER: randomBytes(32).toString("base64"),
      SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
    };
  }

  /** Creates the database and the namespace. {@link World.run} starts Signet. */
  static async create(options: WorldOptions): Promise<World> {
    const directory = join(options.stack.directory, options.name);
    await mkdir(directory, { recursive: true });
    const world = new World(options, directory);
    await withClient(options.stack.postgres.adminUrl, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${world.database} WITH (FORCE)`);
      await client.query(`CREATE DATABASE ${world.database}`);
    });
    await migrate(world.#signetOptions({}));
    await withClient(world.adminDatabaseUrl, async (client) => {
      // An installation in use has partitions of all days that it keeps.
      await client.query(
        "SELECT ensure_day_partitions((now() AT TIME ZONE 'UTC')::date - $1::int, $1::int)",
        [KEPT_DAYS],
      );
    });
    return world;
  }

  /** What another world needs for the same build with the same raised limits. */
  get build(): Pick<WorldOptions, "dist" | "raised" | "profiles"> {
    const { dist = DIST, raised, profiles } = this.#options;
    return { dist, raised, profiles };
  }

  get signet(): Signet {
    if (this.#signet === undefined) {
      throw new Error("Signet is not running in this world");
    }
    return this.#signet;
  }

  /** Settings of the running processes, beside the defaults. */
  get settings(): Settings {
    return { ...this.#options.raised, ...this.#settings };
  }

  get adminDatabaseUrl(): string {
    return this.#options.stack.postgres.url(this.database);
  }

  get serviceDatabaseUrl(): string {
    return this.#options.stack.postgres.serviceUrl(this.database);
  }

  get operatorToken(): string {
    return this.#base["SIGNET_OPERATOR_TOKEN"] ?? "";
  }

  get #kek(): Buffer {
    return Buffer.from(this.#base["SIGNET_KEK"] ?? "", "base64");
  }

  get temporalAddress(): string {
    return this.#options.stack.temporal.address;
  }

  get roots(): Roots {
    const { stack, load } = this.#options;
    const { publisher, sink } = load.pids;
    const { temporal, postgres } = stack;
    return {
      system: {
        ...this.#signetPids,
        ...(temporal.process === undefined ? {} : { temporal: temporal.process.pid }),
        ...(postgres.process === undefined ? {} : { postgres: postgres.process.pid }),
      },
      load: { publisher, sink },
    };
  }

  /** Root pids of all processes; the first of each kind has no number. */
  get #signetPids(): Record<string, number> {
    const { apis, workers } = this.signet;
    const named = (kind: string, all: Signet["apis"]): [string, number][] =>
      all.map(({ server }, index) => [`signet_${kind}${index === 0 ? "" : `_${index + 1}`}`, server.pid]);
    return apis === workers
      ? Object.fromEntries(named("all", apis))
      : Object.fromEntries([...named("api", apis), ...named("worker", workers)]);
  }

  /** Runs Signet with these settings. Restarts it only if they differ from the current ones. */
  async run(settings: Settings): Promise<void> {
    if (this.#signet !== undefined && JSON.stringify(settings) === JSON.stringify(this.#settings)) {
      return;
    }
    await this.stop();
    this.#settings = settings;
    this.#signet = await startSignet(this.#signetOptions(settings));
  }

  /** Runs `signet migrate` again, which creates what is missing. */
  async migrate(): Promise<void> {
    await migrate(this.#signetOptions({}));
  }

  /** Returns the group of that name. The first call creates it, with every endpoint registered and verified. */
  async group(shape: GroupShape): Promise<TenantGroup> {
    const known = this.#groups.get(shape.name);
    if (known !== undefined) {
      return known;
    }
    const { load } = this.#options;
    const types = eventTypes(shape);
    const { operatorToken } = this;
    const { inserted = false } = shape;
    const count = shape.tenants * shape.endpointsPerTenant;
    const endpoints = inserted ? await load.openAddresses(count) : await load.openEndpoints(count);
    const tenants: Tenant[] = [];
    let made = 0;
    const worker = async (): Promise<void> => {
      for (let number = made; number < shape.tenants; number = made) {
        made += 1;
        const tenant = await provisionTenant(this.signet, operatorToken, `${shape.name}-${number}`);
        const first = number * shape.endpointsPerTenant;
        const own = endpoints.slice(first, first + shape.endpointsPerTenant);
        await (inserted
          ? insertEndpoints(this.adminDatabaseUrl, this.#kek, tenant, { endpoints: own, types })
          : registerEndpoints(this.signet, tenant, own, types));
        tenants[number] = tenant;
      }
    };
    await Promise.all(Array.from({ length: PARALLEL_TENANTS }, worker));
    for (const tenant of inserted ? [] : tenants) {
      await untilActive(this.signet, tenant, shape.endpointsPerTenant);
    }
    const group = { tenants, types, endpoints };
    this.#groups.set(shape.name, group);
    return group;
  }

  /** Starts an edge of this world with additional settings; the caller stops it. */
  async startEdge(settings: Settings): Promise<Beside> {
    // The issuer of the tokens that the edge accepts.
    return await this.#startBeside("edge", { SIGNET_PUBLIC_URL: this.signet.apiUrl, ...settings });
  }

  /** Starts a hub of this world with additional settings; the caller stops it. */
  async startHub(settings: Settings): Promise<Beside> {
    return await this.#startBeside("hub", settings);
  }

  async #startBeside(command: "edge" | "hub", settings: Settings): Promise<Beside> {
    this.#beside += 1;
    const options = this.#signetOptions({ ...this.#settings, ...settings });
    return await startBeside(options, command, `${command}-${this.#beside}`);
  }

  async stop(): Promise<void> {
    await this.#signet?.stop();
    this.#signet = undefined;
  }

  /** Drops the world's databases. */
  async drop(): Promise<void> {
    await this.stop();
    await withClient(this.#options.stack.postgres.adminUrl, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${this.database} WITH (FORCE)`);
    });
  }

  #signetOptions(settings: Settings): Parameters<typeof startSignet>[0] {
    const { stack, raised, profiles, dist = DIST, dockerfile, shape, databasePort } = this.#options;
    const serviceUrl = new URL(this.serviceDatabaseUrl);
    serviceUrl.port = String(databasePort ?? serviceUrl.port);
    return {
      dist,
      ...(dockerfile === undefined ? {} : { dockerfile }),
      directory: this.#directory,
      janitor: stack.janitor,
      base: { ...this.#base, SIGNET_DATABASE_URL: serviceUrl.href },
      settings: { ...raised, ...settings },
      profiles,
      ...(shape === undefined ? {} : { shape }),
    };
  }
}
