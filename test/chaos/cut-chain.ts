/**
 * A home cell and what learns of its revocations, each behind a network that can be cut: another cell's api, a hub, a hub
 * behind it, and an edge behind PostgreSQL and behind each hub.
 */
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { migrateDatabase } from "#database/migrate.ts";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import { withClient } from "../bench/environment/postgres.ts";
import type { Restartable } from "../bench/environment/restartable.ts";
import type { Beside, Settings } from "../bench/environment/signet.ts";
import { World } from "../bench/environment/world.ts";
import type { Authority } from "#http/mutual-tls/authority.ts";
import { newRoot, writeHubCertificates } from "../support/certificates.ts";
import { startCutProxy } from "../support/cut-proxy.ts";
import type { CutProxy } from "../support/cut-proxy.ts";
import { seededRandom } from "../support/seeded-random.ts";
import type { Verifier } from "./admissions.ts";
import type { Scene } from "./trial.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const ISSUER = "http://home.test";
const REGION = "us";

/** Settings of every cell. */
export const CELL_SETTINGS = {
  SIGNET_CELLS: `eu=${ISSUER},${REGION}=http://${REGION}.test`,
  SIGNET_PUBLIC_URL: ISSUER,
  SIGNET_CELL: "eu",
} as const;

export const LINKS = ["cell-postgres", "hub-postgres", "hub-hub", "edge-hub", "edge-postgres"] as const;
export type LinkName = (typeof LINKS)[number];

export const VERIFIERS = ["cell", "direct", "near", "far"] as const;
/** `near` is behind one hub, `far` behind two. */
export type VerifierName = (typeof VERIFIERS)[number];

/** A process that can be ended and started again. */
export interface Member {
  readonly name: string;
  readonly server: Restartable;
  readonly metricsUrl: string;
}

export interface Chain {
  /** By link, the networks that it consists of. */
  readonly links: Readonly<Record<LinkName, readonly CutProxy[]>>;
  readonly verifiers: Readonly<Record<VerifierName, Verifier>>;
  /** Hubs, edges and the other cell. */
  readonly members: readonly Member[];
  /** Directory of the certificates of hubs and edges, and their authority. */
  readonly certificates: string;
  readonly authority: Authority;
  /** Starts a hub of PostgreSQL beside the first, with the same certificate. */
  startTwin(): Promise<Beside>;
  /** Starts an edge that knows one name, which leads to these hubs in turns. */
  startEdge(hubs: readonly Beside[]): Promise<Verifier>;
  close(): Promise<void>;
}

/** The region of a client whose tokens every verifier takes. */
export const CHAIN_REGION = REGION;

function through(url: string, { port }: CutProxy): string {
  const proxied = new URL(url);
  proxied.port = String(port);
  return proxied.href;
}

async function writeRoutes(directory: string, upstream: number): Promise<string> {
  const path = join(directory, "routes.json");
  const url = `http://127.0.0.1:${upstream}`;
  const upstreams = { data: { url, identity_key: randomBytes(32).toString("base64") } };
  const routes = [{ method: "GET", path: "/v1/sample", scope: "webhooks:read", upstream: "data" }];
  await writeFile(path, JSON.stringify({ upstreams, routes }));
  return path;
}

/** Starts the other cell, whose way to the home cell's PostgreSQL is a proxy. */
async function startCell({ stack, world, load }: Scene, home: CutProxy): Promise<World> {
  const login = new URL(world.adminDatabaseUrl);
  login.username = `cell_${REGION}_${world.database}`;
  login.password = "of-the-cell";
  await migrateDatabase({
    timers: machineTimers,
    adminUrl: world.adminDatabaseUrl,
    cell: { url: login.href, name: REGION },
    nowMs: Date.now(),
  });
  const name = `${world.database.replaceAll("_", "-").slice("signet-bench-".length)}-${REGION}`;
  const cell = await World.create({ ...world.build, name, stack, load });
  await cell.run({
    ...CELL_SETTINGS,
    SIGNET_CELL: REGION,
    SIGNET_HOME_DATABASE_URL: through(login.href, home),
  });
  return cell;
}

/** Starts everything, the highest first. */
export async function startChain(scene: Scene, directory: string): Promise<Chain> {
  const { world, stack } = scene;
  const closers: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.toReversed()) {
      await closer();
    }
  };
  const random = seededRandom(1);
  const cut = async (...ports: readonly number[]): Promise<CutProxy> => {
    const proxy = await startCutProxy(ports, random);
    closers.push(async () => await proxy.close());
    return proxy;
  };
  try {
    await mkdir(directory, { recursive: true });
    const upstream = createServer({ keepAliveTimeout: 0 }, (_request, response) => response.end("here"));
    await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
    closers.push(async () => {
      upstream.closeAllConnections();
      await new Promise((resolve) => upstream.close(resolve));
    });
    const key = randomBytes(32);
    await withClient(world.adminDatabaseUrl, async (client) => await setLeaseKeys(client, [key]));
    const authority = await newRoot();
    const certificates = await writeHubCertificates(directory, authority);
    const port = Number(new URL(stack.postgres.adminUrl).port);
    const [cellWay, hubWay, edgeWay] = [await cut(port), await cut(port), await cut(port)];
    const cell = await startCell(scene, cellWay);
    closers.push(async () => await cell.drop());
    const started = async (starting: Promise<Beside>): Promise<Beside> => {
      const one = await starting;
      closers.push(async () => await one.server.stop());
      return one;
    };
    const hubSettings = certificates.hub as Settings;
    const url = world.serviceDatabaseUrl;
    const over = ({ port: hub }: CutProxy): Settings => ({
      SIGNET_DATABASE_URL: "",
      SIGNET_HUBS: `wss://127.0.0.1:${hub}`,
    });
    const startTwin = async (): Promise<Beside> =>
      await started(world.startHub({ ...hubSettings, SIGNET_DATABASE_URL: through(url, hubWay) }));
    const hub = await startTwin();
    const betweenHubs = await cut(hub.port);
    const nearWay = await cut(hub.port);
    const lower = await started(world.startHub({ ...hubSettings, ...over(betweenHubs) }));
    const farWay = await cut(lower.port);
    const common = {
      SIGNET_PUBLIC_URL: ISSUER,
      SIGNET_MTLS_MODE: "off",
      SIGNET_EDGE_ROUTES: await writeRoutes(directory, (upstream.address() as AddressInfo).port),
      SIGNET_TEST_ADMISSION_HEADER: "on",
    };
    const behind = (way: CutProxy): Settings => ({
      ...common,
      ...(certificates.edge as Settings),
      ...over(way),
      SIGNET_LEASE_KEY: key.toString("base64"),
    });
    const direct = await started(world.startEdge({ ...common, SIGNET_DATABASE_URL: through(url, edgeWay) }));
    const near = await started(world.startEdge(behind(nearWay)));
    const far = await started(world.startEdge(behind(farWay)));
    const edge = (name: string, { port: listens }: Beside): Verifier => ({
      name,
      url: `http://127.0.0.1:${listens}/v1/sample`,
    });
    return {
      links: {
        "cell-postgres": [cellWay],
        "hub-postgres": [hubWay],
        "hub-hub": [betweenHubs],
        "edge-hub": [nearWay, farWay],
        "edge-postgres": [edgeWay],
      },
      verifiers: {
        cell: { name: "cell", url: `${cell.signet.apiUrl}/v1/webhooks/endpoints` },
        direct: edge("edge behind PostgreSQL", direct),
        near: edge("edge behind a hub", near),
        far: edge("edge behind two hubs", far),
      },
      members: [
        ...Object.entries({ hub, "hub behind it": lower, direct, near, far }),
        ...[...cell.signet.apis, ...cell.signet.workers].map(
          (one, number) => [`cell ${number}`, one] as const,
        ),
      ].map(([name, { server, metricsUrl }]) => ({ name, server, metricsUrl })),
      certificates: directory,
      authority,
      startTwin,
      startEdge: async (hubs) => {
        const way = await cut(...hubs.map(({ port: listens }) => listens));
        return edge("edge behind two hubs of one name", await started(world.startEdge(behind(way))));
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
