/** The chart's hooks, run as the jobs that it renders: the image's command, the job's variables and files, real servers with TLS. */
import { randomBytes } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, test } from "vitest";
import { helmTemplate } from "#tools/kubernetes-manifests.ts";
import type { Environment } from "#config/config.ts";
import { certificateFiles, clientPair, newRoot, today } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { helm } from "../support/helm-chart.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Manifest, parseManifests, sampleEnvironment } from "../support/manifests.ts";
import { type SpawnedProcess, spawnSignet } from "../support/processes.ts";
import { useStarted } from "../support/started.ts";
import { SERVICE_LOGIN } from "../support/test-database.ts";
import { startTemporalTls, startTlsDatabase } from "../support/tls-servers.ts";

// The first run builds Helm.
allowMinutes(15);

/** Values with which the chart's jobs reach the servers, and what the Secrets and the ConfigMap hold. */
interface Cluster {
  readonly values: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

async function startCluster(): Promise<Cluster> {
  const root = await newRoot();
  const names = [{ type: "dns", value: "localhost" } as const, { type: "ip", value: "127.0.0.1" } as const];
  const pair = await root.issue({ subject: "CN=server", names, purposes: ["serverAuth"], ...today() });
  const client = await clientPair(root);
  const written = certificateFiles();
  const database = await startTlsDatabase({
    certFile: written.write("server.crt", pair.cert),
    keyFile: written.write("server.key", pair.key),
    caFile: written.write("ca.crt", root.cert),
  });
  const temporal = await startTemporalTls(pair, root.cert);
  const { username, password, pathname } = new URL(database.url);
  const url = (user: string, secret: string): string =>
    `postgres://${user}:${secret}@localhost:${database.port}${pathname}`;
  return {
    values: [
      "--values=deploy/helm/values-managed.yaml",
      // With those of PostgreSQL and Temporal, three names to resolve.
      `--set=publicUrl=https://${hostname().toLowerCase()}`,
      `--set=temporal.address=${temporal.address},temporal.authentication=mtls,temporal.privateCa=true`,
      `--set=temporal.namespace=hooks-${randomBytes(4).toString("hex")}`,
      "--set=certificates.certManager.temporalIssuer.name=temporal",
    ],
    files: {
      SIGNET_DATABASE_URL_FILE: url(SERVICE_LOGIN.user, SERVICE_LOGIN.password),
      SIGNET_EDGE_DATABASE_URL_FILE: url("signet_edge_login", "edge"),
      SIGNET_DATABASE_ADMIN_URL_FILE: url(username, password),
      SIGNET_DATABASE_CA_FILE: root.cert,
      SIGNET_TLS_CERT_FILE: pair.cert,
      SIGNET_TLS_KEY_FILE: pair.key,
      SIGNET_CLIENT_CA_FILE: root.cert,
      SIGNET_PROXY_CA_FILE: root.cert,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: root.cert,
      TEMPORAL_TLS_CLIENT_CERT_PATH: client.cert,
      TEMPORAL_TLS_CLIENT_KEY_PATH: client.key,
    },
    close: async () => {
      temporal.close();
      await database.close();
      written.remove();
    },
  };
}

describe.skipIf(helm === undefined)("the chart's hooks", () => {
  const cluster = useStarted("the servers", startCluster);

  const render = async (): Promise<readonly Manifest[]> =>
    parseManifests(await helmTemplate(...cluster.current.values, "--is-upgrade"));

  /** Starts the process of a pod with its variables, files and arguments. */
  async function runPod(
    { metadata, spec }: Manifest,
    manifests: readonly Manifest[],
    listen: Environment = {},
  ): Promise<SpawnedProcess> {
    const pod = spec?.template?.spec;
    const [container] = pod?.containers ?? [];
    if (pod === undefined || container === undefined) {
      throw new Error(`${metadata.name} has no container`);
    }
    const directory = await mkdtemp(join(inject("runDirectory"), "helm-hook-"));
    const environment = await sampleEnvironment(pod, manifests, directory);
    for (const [variable, text] of Object.entries(cluster.current.files)) {
      const { [variable]: path } = environment;
      await (path === undefined ? undefined : writeFile(path, text));
    }
    return spawnSignet(container.args, { ...environment, ...listen });
  }

  /** Runs the hooks of an event in their order. Returns what each printed. */
  async function runHooks(event: "pre-install" | "pre-upgrade"): Promise<ReadonlyMap<string, string>> {
    const manifests = await render();
    const weight = ({ metadata }: Manifest): number => Number(metadata.annotations?.["helm.sh/hook-weight"]);
    const jobs = manifests
      .filter(
        ({ kind, metadata }) =>
          kind === "Job" && metadata.annotations?.["helm.sh/hook"]?.split(",").includes(event),
      )
      .toSorted((a, b) => weight(a) - weight(b));
    const printed = new Map<string, string>();
    for (const job of jobs) {
      const process = await runPod(job, manifests);
      expect(await process.ended, process.output()).toEqual({ code: 0, signal: null });
      printed.set(job.metadata.name, process.output());
    }
    return printed;
  }

  /** Runs an api until it is ready: the first one makes the first signing key. */
  async function runApi(): Promise<void> {
    const manifests = await render();
    const api = manifests.find(
      ({ kind, metadata }) => kind === "Deployment" && metadata.name === "signet-api",
    );
    const [edge, metrics, plain, admin] = await freePorts(4);
    const process = await runPod(api as Manifest, manifests, {
      SIGNET_EDGE_LISTEN: `127.0.0.1:${edge}`,
      SIGNET_METRICS_LISTEN: `127.0.0.1:${metrics}`,
      SIGNET_API_LISTEN: `127.0.0.1:${plain}`,
      SIGNET_ADMIN_LISTEN: `127.0.0.1:${admin}`,
    });
    const { path } = api?.spec?.template?.spec.containers[0]?.readinessProbe?.httpGet ?? {};
    await eventually(
      async () =>
        process.state() !== undefined || (await fetch(`http://127.0.0.1:${metrics}${path}`)).status === 200,
      "the api to be ready",
    );
    expect(await process.stop(), process.output()).toMatchObject({ code: 0 });
  }

  test("prepare an installation, then check it and bring it up to date at an upgrade", async () => {
    const installed = await runHooks("pre-install");
    expect([...installed.keys()]).toEqual(["signet-migrate"]);
    await runApi();
    const upgraded = await runHooks("pre-upgrade");
    expect([...upgraded.keys()]).toEqual(["signet-doctor", "signet-migrate"]);
    expect(upgraded.get("signet-doctor")).toContain("3 names in the settings resolve");
    expect(upgraded.get("signet-doctor")).toContain("open workflows would continue with this build");
  });
});
