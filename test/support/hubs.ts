/** Hubs: processes of the production build with mutual TLS to the edges behind them, or in this process. */
import { randomBytes, randomInt } from "node:crypto";
import { Client } from "pg";
import type { Environment } from "#config/config.ts";
import { DatabaseClock } from "#database/database-clock.ts";
import { setLeaseKeys } from "#database/repositories/tokens/lease-keys.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import { hubSubscription } from "#processes/hub.ts";
import { HubFollower } from "#revocation/hub-follower.ts";
import type { OpenHubConnection } from "#revocation/hub-messages.ts";
import { Hub } from "#revocation/hub.ts";
import { Primary } from "#revocation/primary.ts";
import { createCodeCheck } from "#revocation/proof.ts";
import { eventually } from "./eventually.ts";
import type { Provisioned } from "./factories.ts";
import { freePorts } from "./free-port.ts";
import { type SpawnedProcess, spawnSignet } from "./processes.ts";

const START_MS = 60_000;
const HUB_LEASE_MS = 240;

/** A hub in a process of its own. */
export interface HubChild {
  readonly url: string;
  readonly port: number;
  /** The current process. */
  readonly process: SpawnedProcess;
  /** Returns how many processes are connected, as of the last second. */
  connections(): Promise<number>;
  /** Starts it, again after it was killed. Resolves when it is ready. */
  start(): Promise<void>;
}

/** Prepares a hub process that `start` starts. */
export async function createHubProcess(environment: Environment): Promise<HubChild> {
  const [port = 0, metricsPort = 0] = await freePorts(2);
  let child: SpawnedProcess | undefined;
  return {
    url: `wss://127.0.0.1:${port}`,
    port,
    get process() {
      if (child === undefined) {
        throw new Error("the hub was not started");
      }
      return child;
    },
    connections: async () => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      return Number(/^signet_hub_connections (\d+)$/m.exec(text)?.[1]);
    },
    start: async () => {
      const started = spawnSignet(["hub"], {
        SIGNET_ENV: "development",
        SIGNET_LOG_LEVEL: "warn",
        SIGNET_HUB_LISTEN: `127.0.0.1:${port}`,
        SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
        ...environment,
      });
      child = started;
      await eventually(
        async () =>
          started.state() !== undefined || (await fetch(`http://127.0.0.1:${metricsPort}/readyz`)).ok,
        "a hub to be ready",
        START_MS,
      );
      if (started.state() !== undefined) {
        throw new Error(`a hub exited:\n${started.output()}`);
      }
    },
  };
}

/** Makes these keys the lease keys of a database. */
export async function storeLeaseKeys(
  { adminUrl }: { readonly adminUrl: string },
  keys: readonly Buffer[],
): Promise<void> {
  const owner = new Client({ connectionString: adminUrl });
  await owner.connect();
  await setLeaseKeys(owner, keys);
  await owner.end();
}

export interface OpenHub {
  readonly hub: Hub;
  readonly close: () => Promise<void>;
}

/** Starts a hub of a database in this process, without a listener. */
export async function openHub({ url }: { readonly url: string }, log: Logger): Promise<OpenHub> {
  let hub: Hub | undefined;
  const primary = new Primary({
    subscribe: hubSubscription(url),
    identity: {
      lockKey: randomInt(2 ** 31),
      process: "hub",
      region: "eu",
      version: "1",
      leaseMs: HUB_LEASE_MS,
    },
    onLine: (line, state) => hub?.relay(line, state),
    timers: machineTimers,
    log,
  });
  const opened = new Hub({ upstream: primary, leaseMs: HUB_LEASE_MS, timers: machineTimers, log });
  hub = opened;
  await primary.start();
  opened.start();
  return {
    hub: opened,
    close: async () => {
      opened.stop();
      await primary.stop();
    },
  };
}

interface FollowerOptions {
  readonly keys: readonly Buffer[];
  readonly hub: string;
  readonly open: OpenHubConnection;
  readonly clock?: Clock;
  readonly log: Logger;
}

/** Creates what an edge follows hubs with. */
export function createFollower({ keys, hub, open, clock = systemClock, log }: FollowerOptions): HubFollower {
  return new HubFollower({
    hubs: [hub],
    open,
    checkCode: createCodeCheck(keys),
    identity: { lockKey: randomInt(2 ** 31), process: "edge", region: "eu", version: "1" },
    leaseMs: HUB_LEASE_MS,
    onKeys: () => undefined,
    clock,
    time: new DatabaseClock(machineTimers),
    timers: machineTimers,
    randomBytes,
    log,
  });
}

/** Returns the claims of a token of a client. */
export function claimsOf({
  credentialId,
  tenantId,
}: Pick<Provisioned, "credentialId" | "tenantId">): RevocableToken {
  return {
    credentialId,
    principalId: "prn_x",
    tenantId,
    jti: "x",
    kid: "x",
    issuedAt: 0,
    certificateThumbprint: undefined,
  };
}
