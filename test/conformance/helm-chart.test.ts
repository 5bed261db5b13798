/**
 * The Helm chart: helm lint accepts it with each file of values, its schema rejects mistakes, and the plain manifests are what it
 * renders. A real API server checks what it renders (kubernetes.test.ts).
 */
import { mkdtemp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { run } from "#tools/go-program.ts";
import {
  chartWithVersion,
  helmTemplate,
  plainManifests,
  SHARED_FILES,
  sharedFile,
} from "#tools/kubernetes-manifests.ts";
import { loadConfig, SETTINGS } from "#config/config.ts";
import { PUBLIC_BLOCKS } from "#webhooks/sending/address-policy.ts";
import {
  ALL_INSIDE,
  ALL_INSIDE_APART,
  CELL,
  containersOf,
  EDGES,
  helm,
  HOME,
  manifestsOf,
  MINIMAL,
  NAMES,
  ONE_PROCESS,
  ownPodsOf,
  podsOf,
  POOLER,
  renderVariants,
  VARIANTS,
} from "../support/helm-chart.ts";
import { TOGETHER_NODE_OPTIONS } from "../bench/environment/shipped.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Manifest, sampleEnvironment } from "../support/manifests.ts";

// The first run builds Helm.
allowMinutes(15);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const CHART = "deploy/helm/signet";
async function failure(...args: readonly string[]): Promise<string> {
  return await helmTemplate(...args).then(
    () => "",
    (error: unknown) => String((error as { readonly stderr?: string }).stderr),
  );
}

describe.skipIf(helm === undefined)("the chart", () => {
  beforeAll(async () => await renderVariants(NAMES));

  test("has the version of package.json, and the files that it shares", async () => {
    const read = async (path: string): Promise<string> => await readFile(join(REPOSITORY, path), "utf8");
    const chart = await read(`${CHART}/Chart.yaml`);
    expect(chart).toBe(await chartWithVersion(chart));
    for (const copy of Object.keys(SHARED_FILES)) {
      expect(await read(copy), copy).toBe(await sharedFile(copy));
    }
  });

  test("renders the plain manifests (npm run docs)", async () => {
    const manifests = await plainManifests();
    expect(manifests.size).toBeGreaterThan(7);
    for (const [path, text] of manifests) {
      expect(await readFile(join(REPOSITORY, path), "utf8"), path).toBe(text);
    }
  });

  test.for(NAMES)("passes helm lint with %s", async (name) => {
    const args = ["lint", "--strict", CHART, ...(VARIANTS[name] ?? [])];
    const { stdout } = await run(helm ?? "", args, { cwd: REPOSITORY });
    expect(stdout).toContain("0 chart(s) failed");
  });

  test.for(NAMES)("gives every pod only the privileges it needs with %s", (name) => {
    const pods = podsOf(name);
    expect(pods.length).toBeGreaterThan(1);
    for (const { name: of, spec } of pods) {
      expect(spec.securityContext, of).toMatchObject({
        runAsNonRoot: true,
        runAsUser: expect.any(Number) as number,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(spec.automountServiceAccountToken, of).toBe(false);
      for (const container of containersOf(spec).filter(({ image }) => image !== "proxy:1")) {
        expect(container.securityContext, `${of} ${container.name}`).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        expect(container.resources.limits["memory"], `${of} ${container.name}`).toMatch(/^\d+[MG]i$/);
      }
    }
  });

  test.for(NAMES)("mounts nothing over what an image has, with %s", (name) => {
    const empty =
      /^\/((run|etc)\/signet|tmp|backups|dev\/shm|var\/(run\/postgresql|lib\/postgresql|lib\/signet\/checkpoints))(\/|$)/;
    for (const { name: of, spec } of podsOf(name)) {
      const mounts = containersOf(spec)
        .flatMap(({ volumeMounts }) => volumeMounts ?? [])
        .filter(({ subPath }) => subPath === undefined);
      expect(
        mounts.filter(({ mountPath }) => !empty.test(mountPath)),
        of,
      ).toEqual([]);
    }
  });

  test.for(NAMES)("gives every probe time on a busy node with %s", (name) => {
    const probes = podsOf(name).flatMap(({ name: of, spec }) =>
      containersOf(spec).flatMap(({ livenessProbe, readinessProbe, startupProbe }) =>
        [livenessProbe, readinessProbe, startupProbe].flatMap((probe) =>
          probe === undefined ? [] : [[of, probe.timeoutSeconds ?? 1] as const],
        ),
      ),
    );
    expect(probes.length).toBeGreaterThan(2);
    expect(probes.filter(([, seconds]) => seconds < 5)).toEqual([]);
  });

  test.for(NAMES)("sets only known settings, each once, with %s", (name) => {
    const known = new Set(Object.values(SETTINGS).map(({ variable }): string => variable));
    const maps = new Map(manifestsOf(name).map(({ metadata, data = {} }) => [metadata.name, data]));
    for (const { name: of, spec } of ownPodsOf(name)) {
      const [container] = spec.containers;
      const names = [
        ...(container?.envFrom ?? []).flatMap(({ configMapRef }) =>
          Object.keys(maps.get(configMapRef.name) ?? {}),
        ),
        ...(container?.env ?? []).map((variable) => variable.name),
      ];
      expect(
        names.filter((variable) => !known.has(variable) && variable !== "NODE_OPTIONS"),
        of,
      ).toEqual([]);
      expect(names.length, of).toBe(new Set(names).size);
    }
  });

  test.for(NAMES)(
    "gives every process settings with which it starts, and mounts their files, with %s",
    async (name) => {
      const directory = await mkdtemp(join(inject("runDirectory"), "helm-settings-"));
      for (const { name: of, spec } of ownPodsOf(name)) {
        const environment = await sampleEnvironment(spec, manifestsOf(name), directory);
        const { name: process } = spec.containers[0] ?? {};
        const asks = process === "edge" || process === "hub" ? process : "service";
        expect(loadConfig(environment, asks).development, of).toBe(false);
      }
    },
  );

  test.for([ALL_INSIDE, ONE_PROCESS])("runs one process in place of three, with %s", async (name) => {
    const deployments = ownPodsOf(name).filter(({ name: of }) => of.startsWith("Deployment "));
    expect(deployments.map(({ name: of }) => of)).toEqual(["Deployment signet-all"]);
    const options: unknown = expect.arrayContaining([{ name: "NODE_OPTIONS", value: TOGETHER_NODE_OPTIONS }]);
    expect(deployments[0]?.spec.containers).toMatchObject([
      { args: ["all"], resources: { limits: { memory: "768Mi" } }, env: options },
    ]);
    const selected = manifestsOf(name)
      .filter(({ metadata }) => /^signet-(?:edge|receivers)$/.test(metadata.name))
      .map(({ spec }) => ({ ...spec?.selector, ...spec?.podSelector?.matchLabels }));
    const all = { "app.kubernetes.io/component": "all" };
    expect(selected).toMatchObject([all, all, all]);
  });

  test("runs the doctor, then migrate, before an upgrade, and migrate alone before an installation", () => {
    const hooks = manifestsOf("values-managed.yaml")
      .filter(({ kind }) => kind === "Job")
      .map(({ metadata: { name, annotations = {} } }) => [
        name,
        annotations["helm.sh/hook"],
        Number(annotations["helm.sh/hook-weight"]),
      ]);
    expect(hooks.toSorted(([, , a], [, , b]) => Number(a) - Number(b))).toEqual([
      ["signet-doctor", "pre-upgrade", 0],
      ["signet-migrate", "pre-install,pre-upgrade", 5],
    ]);
  });

  test("gives the hooks what they mount before they run", () => {
    const manifests = manifestsOf("values-managed.yaml");
    const early = manifests
      .filter(({ metadata }) => metadata.annotations?.["helm.sh/hook-weight"] === "-10")
      .map(({ metadata }) => metadata.name);
    for (const { spec } of podsOf("values-managed.yaml").filter(({ name }) => name.startsWith("Job "))) {
      const secrets = spec.volumes.flatMap(({ secret }) => secret?.secretName ?? []);
      expect(secrets.length).toBeGreaterThan(2);
      expect(early).toEqual(expect.arrayContaining(secrets));
      expect(spec.containers[0]?.envFrom).toBeUndefined();
    }
  });

  test("brings every Secret that it mounts, with ExternalSecrets and cert-manager or all inside", () => {
    for (const name of [
      "values-managed.yaml",
      HOME,
      CELL,
      EDGES,
      ALL_INSIDE,
      ALL_INSIDE_APART,
      ONE_PROCESS,
    ]) {
      const made = manifestsOf(name)
        .filter(({ kind }) => /^(Secret|ExternalSecret|Certificate)$/.test(kind))
        .map(({ metadata }) => metadata.name);
      const mounted = podsOf(name).flatMap(({ spec }) =>
        spec.volumes
          .flatMap(({ secret }) => secret?.secretName ?? [])
          .filter((secret) => secret.startsWith("signet-")),
      );
      expect(new Set(mounted).size).toBeGreaterThan(name === EDGES ? 3 : 6);
      expect(made, name).toEqual(expect.arrayContaining([...new Set(mounted)]));
    }
  });

  test.for(["values-managed.yaml", HOME, CELL, EDGES, POOLER])(
    "fetches every key that a setting names, with %s",
    (name) => {
      const keys = new Map(
        manifestsOf(name)
          .filter(({ kind }) => kind === "ExternalSecret")
          .map(({ metadata, spec }) => [
            metadata.name,
            (spec as unknown as { readonly data: readonly { readonly secretKey: string }[] }).data.map(
              ({ secretKey }) => secretKey,
            ),
          ]),
      );
      const maps = manifestsOf(name).flatMap(({ data = {} }) => Object.values(data));
      const used = ownPodsOf(name).flatMap(({ spec: { containers, volumes } }) =>
        containers.flatMap(({ env = [], volumeMounts }) =>
          [...env.map(({ value = "" }) => value), ...maps].flatMap((path) => {
            const mount = volumeMounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
            const secret = volumes.find((volume) => volume.name === mount?.name)?.secret?.secretName ?? "";
            return keys.has(secret) ? [`${secret} ${path.slice(path.lastIndexOf("/") + 1)}`] : [];
          }),
        ),
      );
      const fetched = [...keys].flatMap(([secret, of]) => of.map((key) => `${secret} ${key}`));
      expect(new Set(used)).toEqual(
        new Set(fetched.filter((key) => !key.startsWith("signet-database-backup"))),
      );
    },
  );

  test("has the rules of deploy/prometheus, with your runbook", async () => {
    const rule = parseAllDocuments(
      await helmTemplate(
        ...MINIMAL,
        "--set=monitoring.prometheusRule.enabled=true,monitoring.runbookUrl=https://wiki.example.org/signet",
      ),
    )
      .map((document) => document.toJS() as Manifest)
      .find(({ kind }) => kind === "PrometheusRule");
    const rules = await readFile(join(REPOSITORY, "deploy/prometheus/alerts.yml"), "utf8");
    expect(rule?.spec).toEqual(
      parse(
        rules.replaceAll("https://docs.example.com/signet/runbook.md", "https://wiki.example.org/signet"),
      ),
    );
    expect(JSON.stringify(rule)).toContain("https://wiki.example.org/signet#signetdown");
  });

  test("lets workers out to exactly the addresses of the address policy", () => {
    const receivers = manifestsOf("as few values as possible").find(
      ({ metadata }) => metadata.name === "signet-receivers",
    );
    const blocks = receivers?.spec?.egress?.flatMap(({ to = [] }) =>
      to.flatMap(({ ipBlock }) => ipBlock ?? []),
    );
    expect(blocks).toEqual(PUBLIC_BLOCKS);
  });

  test.for<[what: string, args: readonly string[], said: RegExp]>([
    ["a misspelt value", ["--set=replicass=3"], /additional properties 'replicass' not allowed/],
    ["a misspelt member", ["--set=worker.autoscaling.minReplica=3"], /'minReplica' not allowed/],
    ["a misspelt setting", ["--set-string=settings.SIGNNET_LOG_LEVEL=info"], /SIGNNET_LOG_LEVEL/],
    ["plain http", ["--set=publicUrl=http://signet.example.com"], /publicUrl/],
    ["a digest that is none", ["--set=image.digest=sha256:1"], /digest/],
    ["a number as a setting", ["--set=settings.SIGNET_RETENTION_DAYS=30"], /SIGNET_RETENTION_DAYS/],
    ["a store without a name", ["--set=secrets.source=externalSecrets"], /store/],
    ["cert-manager without an issuer", ["--set=certificates.source=certManager"], /Issuer/],
    ["KEDA without Prometheus", ["--set=worker.autoscaling.lag.by=keda"], /prometheusUrl/],
    ["a hub's URL with a path", ["--set=edge.hubs={wss://hub:8446/x}"], /edge.hubs/],
    ["five hubs, of which an edge follows four", ["--set=hub.replicas=5"], /hub.replicas/],
    ["edges alone without routes", ["--set=edgesOnly=true,hub.enabled=true"], /routes/],
    ["edges alone without hubs", ["--set=edgesOnly=true,edge.routes=[]"], /hub/],
    [
      "one cell",
      ['--set-json=cells={"own":"eu","all":[{"region":"eu","url":"https://a.example"}]}'],
      /cells/,
    ],
    ["edges alone in one process", ["--set=edgesOnly=true,oneProcess=true"], /edgesOnly/],
    ["all inside with hooks", ["--set=allInside.enabled=true"], /hooks/],
  ])("rejects %s", async ([, args, said]) => {
    expect(await failure(...MINIMAL, ...args)).toMatch(said);
  });

  test("rejects missing values, all at once", async () => {
    const said = await failure();
    expect(said).toMatch(/publicUrl/);
    expect(said).toMatch(/address/);
  });
});
