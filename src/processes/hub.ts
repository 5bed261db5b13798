/** The hub process: relays proofs of the revocations to the edges of a region (decision 33). */
import { type Config, ConfigError, formatListen, type ListenAddress } from "#config/config.ts";
import { directUrl, withoutPooler } from "#config/database-settings.ts";
import { STRICT_BOUND_MS } from "#config/revocation.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { EDGE_ROLE } from "#database/edge-login.ts";
import { createPool } from "#database/pool.ts";
import { type FollowerRow, REVOCATION_LINES_CHANNEL } from "#database/repositories/tokens/revocations.ts";
import { subscribe } from "#database/subscription.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { Hub } from "#revocation/hub.ts";
import type { Upstream } from "#revocation/hub-questions.ts";
import { createHubOpener, HubListener, type HubTls } from "#revocation/hub-socket.ts";
import { ParentHubs } from "#revocation/parent-hubs.ts";
import { Primary, type PrimaryOptions } from "#revocation/primary.ts";
import type { Attestation } from "#revocation/proof.ts";
import { hubTls, openHubFiles } from "./certificate-files.ts";
import { HUB_MARGIN_MS } from "./hub-knowledge.ts";
import { followerIdentity } from "./revocation.ts";
import type { RunningProcess } from "./with-metrics.ts";

/** A connection of a hub that carries nothing for longer is ended by the server. */
const SILENT_MS = 5_000;
/** Age of the last answer from above at which the hub counts as not ready. */
const STALE_MS = 1_000;
const METRICS_EVERY_MS = 1_000;
const LEASE_MS = STRICT_BOUND_MS - HUB_MARGIN_MS;

export interface HubProcess extends RunningProcess {
  readonly address: ListenAddress;
}

type Above = Upstream & { start(): Promise<void>; stop(): Promise<void> };

interface AboveOptions {
  readonly identity: FollowerRow;
  readonly onLine: (line: string, state: Attestation) => void;
  readonly log: Logger;
}

/** Returns how a hub opens its connections to the primary. */
export function hubSubscription(url: string): PrimaryOptions["subscribe"] {
  return async (handlers) =>
    await subscribe({
      ...handlers,
      timers: machineTimers,
      url,
      role: EDGE_ROLE,
      name: "signet_hub",
      channel: REVOCATION_LINES_CHANNEL,
      idleMs: SILENT_MS,
    });
}

async function openPrimary(
  config: Config & { readonly databaseUrl: string },
  { log, ...options }: AboveOptions,
): Promise<Above> {
  const url = directUrl(config);
  const pool = createPool({ url, role: EDGE_ROLE, max: 1, log });
  await requireUsableDatabase(pool, withoutPooler(config), config);
  await pool.end();
  return new Primary({
    ...options,
    subscribe: hubSubscription(url),
    timers: machineTimers,
    log,
  });
}

/** Starts a hub. Resolves when it listens, even if nothing above answers yet. */
export async function startHub({
  config,
  log,
}: {
  readonly config: Config;
  readonly log: Logger;
}): Promise<HubProcess> {
  const { databaseUrl, hubs } = config;
  const files = await openHubFiles(config, log);
  const tls = (): HubTls | undefined => hubTls(config, files);
  let hub: Hub | undefined;
  const onLine = (line: string, state: Attestation): void => hub?.relay(line, state);
  const identity = { ...followerIdentity("hub", config), leaseMs: LEASE_MS };
  let upstream: Above;
  if (hubs !== undefined) {
    const open = createHubOpener(tls);
    const isDenied = (thumbprint: string): boolean => hub?.deniesCertificate(thumbprint) === true;
    upstream = new ParentHubs({ hubs, open, identity, onLine, isDenied, timers: machineTimers, log });
  } else if (databaseUrl !== undefined) {
    upstream = await openPrimary({ ...config, databaseUrl }, { identity, onLine, log });
  } else {
    throw new ConfigError(["SIGNET_DATABASE_URL or SIGNET_HUBS must be set"]);
  }
  const relay = new Hub({ upstream, leaseMs: LEASE_MS, timers: machineTimers, log });
  hub = relay;
  await upstream.start();
  relay.start();
  const listener = new HubListener({
    hub: relay,
    listen: config.hubListen,
    tls: tls(),
    clock: systemClock,
    timers: machineTimers,
    log,
  });
  files?.onChange(() => listener.renew(tls() as HubTls));
  const address = await listener.listen();
  const reporting = setInterval(() => {
    metrics.hubConnections.set(relay.connections);
    metrics.hubRoundTrip.set(relay.roundTripMs / 1_000);
    metrics.revocationAge.set(relay.ageMs / 1_000);
    metrics.revocationSequence.set(relay.sequence);
  }, METRICS_EVERY_MS).unref();
  const above: ReadinessCheck = {
    name: "above",
    check: async () => {
      if (relay.ageMs > STALE_MS) {
        throw new Error("nothing above this hub brings proofs");
      }
      await Promise.resolve();
    },
  };
  log.info({ hub: formatListen(address) }, "hub started");
  return {
    address,
    readiness: [above, ...(files === undefined ? [] : [files])],
    close: async () => {
      clearInterval(reporting);
      await listener.close();
      relay.stop();
      await upstream.stop();
      files?.close();
    },
  };
}
