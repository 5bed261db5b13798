/** An edge that was taken over, with a valid certificate, and a hub in a process of its own: other edges notice nothing. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { hubTls, openHubFiles } from "#processes/certificate-files.ts";
import { createHubOpener, type HubTls } from "#revocation/hub-socket.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { provision } from "../support/factories.ts";
import { ATTACK_NAMES, type HostileOptions } from "../support/hostile-edge.ts";
import { writeHubCertificates } from "../support/certificates.ts";
import { createFollower, createHubProcess, type HubChild, storeLeaseKeys } from "../support/hubs.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageMemory } from "../support/production-image.ts";
import { useStarted } from "../support/started.ts";

allowMinutes(4);

/** Most of what a hub may have at a limit of 128 MiB, which counts pages of Node's own file only as long as there is room. */
const MEMORY_MAX_MIB = 96;
const CONNECTIONS = 2_000;
/** Connections that a hub takes with one certificate. */
const TAKEN = 100;
/** Renewals of the other edge's lease during an attack: more than memory that piles up would need. */
const RENEWALS = 200;
const api = useTestApi();
const log = createLogger({ level: "fatal" });

const made = useStarted("a hub and an honest edge", async () => {
  const directory = await mkdtemp(join(tmpdir(), "signet-hostile-edges-"));
  const key = randomBytes(32);
  await storeLeaseKeys(api.database, [key]);
  const { hub, edge, other } = await writeHubCertificates(directory);
  // The memory holds with the image's options.
  const memory = await imageMemory();
  const child = await createHubProcess({ ...hub, ...memory, SIGNET_DATABASE_URL: api.database.url });
  await child.start();
  const tlsOf = async (environment: Environment): Promise<HubTls> => {
    const settings = { SIGNET_ENV: "development", SIGNET_DATABASE_URL: api.database.url, ...environment };
    const config = loadConfig(settings, "hub");
    const opened = await openHubFiles(config, log);
    opened?.close();
    return hubTls(config, opened) as HubTls;
  };
  const own = await tlsOf(other);
  const honest = createFollower({ keys: [key], hub: child.url, open: createHubOpener(() => own), log });
  await honest.start();
  return {
    child,
    honest,
    stolen: await tlsOf(edge),
    close: async () => {
      await honest.stop();
      await child.process.stop("SIGKILL");
      await rm(directory, { recursive: true });
    },
  };
});

/** The hub's own memory, in MiB. */
async function memoryOf({ process }: HubChild): Promise<number> {
  const status = await readFile(`/proc/${process.pid}/status`, "utf8");
  return Number(/RssAnon:\s+(\d+)/.exec(status)?.[1]) / 1_024;
}

/** Attacks the hub from a thread. */
function attack(how: HostileOptions["attack"]): {
  readonly seen: { opened: number };
  readonly stop: () => Promise<unknown>;
} {
  const { child, stolen } = made.current;
  const tls = { key: stolen.key, cert: stolen.cert };
  const workerData: HostileOptions = { url: child.url, tls, connections: CONNECTIONS, attack: how };
  const thread = new Worker(new URL("../support/hostile-edge.ts", import.meta.url), { workerData });
  const seen = { opened: 0 };
  thread.on("message", (news: typeof seen) => Object.assign(seen, news));
  return { seen, stop: async () => await thread.terminate() };
}

test.each(ATTACK_NAMES)("another edge is served beside one that, over 2,000 connections, %s", async (how) => {
  const { child, honest } = made.current;
  await child.process.stop("SIGKILL");
  await child.start();
  await eventually(async () => await honest.renew(), "a lease");
  const { seen, stop } = attack(how);
  let renewals = 0;
  let most = 0;
  let memory = 0;
  await eventually(async () => {
    renewals += Number(await honest.renew());
    most = Math.max(most, await child.connections());
    memory = Math.max(memory, await memoryOf(child));
    return seen.opened >= CONNECTIONS && renewals >= RENEWALS;
  }, "renewals beside the attack");
  await stop();
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(TAKEN + 1);
  expect(memory).toBeLessThan(MEMORY_MAX_MIB);
});

test("a receipt names few invented processes", async () => {
  const client = await provision(api);
  const { body } = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
  const { processes } = body["edges"] as { processes: unknown[] };
  expect(processes.length).toBeLessThanOrEqual(200);
});
