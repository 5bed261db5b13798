/** The manifests under deploy/kubernetes match the intended set-up. A real API server checks their members (test/conformance). */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConfigError, loadConfig, SETTINGS } from "#config/config.ts";
import { PUBLIC_BLOCKS } from "#webhooks/sending/address-policy.ts";
import {
  type Container,
  type Manifest,
  type PodSpec,
  readManifests,
  sampleEnvironment,
  selects,
} from "#test/support/manifests.ts";
import { readCompose } from "#test/support/compose-file.ts";

const base = await readManifests("base");
const doctor = await readManifests("doctor");
const all = [...base, ...doctor];
const titled = (manifest: Manifest): string => `${manifest.kind} ${manifest.metadata.name}`;

interface Pods {
  readonly name: string;
  readonly manifest: Manifest;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
  readonly container: Container;
}

const pods = all.flatMap((manifest): Pods[] => {
  const { template } = manifest.spec ?? {};
  const [container] = template?.spec.containers ?? [];
  return template === undefined || container === undefined
    ? []
    : [{ name: container.name, manifest, labels: template.metadata.labels, spec: template.spec, container }];
});
const served = pods.filter(({ manifest: { kind } }) => kind === "Deployment");

describe("settings", () => {
  let files: string;

  beforeAll(async () => {
    files = await mkdtemp(join(tmpdir(), "signet-manifests-"));
  });

  afterAll(async () => {
    await rm(files, { recursive: true });
  });

  const environmentOf = async (pod: Pods): Promise<Record<string, string>> =>
    await sampleEnvironment(pod.spec, base, files);

  test("are all known to the service, and none is set twice", async () => {
    const known = new Set(Object.values(SETTINGS).map(({ variable }): string => variable));
    for (const { container, manifest } of pods) {
      const fromMaps = (container.envFrom ?? []).flatMap(({ configMapRef }) =>
        Object.keys(base.find(({ metadata }) => metadata.name === configMapRef.name)?.data ?? {}),
      );
      const names = [...(container.env ?? []).map(({ name }) => name), ...fromMaps];
      expect(
        names.filter((name) => !known.has(name)),
        titled(manifest),
      ).toEqual([]);
      expect(names.length).toBe(new Set(names).size);
    }
  });

  const OPTIONAL =
    /^(TEMPORAL_NAMESPACE|SIGNET_(LOG_LEVEL|CHECKPOINT_NAME|LEASE_KEY_FILE|OUTBOUND_PROXY|TARGET_CA_FILE|EDGE_LISTEN_SHARED|(ALLOWED|DENIED)_TARGET_CIDRS|CELLS?|HOME_DATABASE_URL))$/;
  /** Checked by the process, not by its settings. */
  const MISSED_LATER =
    /^(SIGNET_ENV|SIGNET_METRICS_LISTEN|SIGNET_EDGE_LISTEN|SIGNET_OPERATOR_TOKEN_FILE|SIGNET_(TLS|CLIENT_CA|MTLS|PROXY|CHECKPOINT)_\w+|SIGNET_TRUSTED_PROXIES|SIGNET_DATABASE_ADMIN_URL_FILE|TEMPORAL_TLS_SERVER_CA_CERT_PATH)$/;

  test("match those of the compose file, which test/containers runs", async () => {
    const { services } = readCompose(join(import.meta.dirname, "..", "..", ".."));
    // The compose file has the URLs of databases in variables, and Kubernetes in files.
    const needed = (names: readonly string[]): readonly string[] =>
      names
        .map((name) => name.replace("_URL_FILE", "_URL"))
        .filter((name) => !OPTIONAL.test(name) && name !== "SIGNET_ENV")
        .toSorted();
    for (const pod of pods.filter(({ name }) => name !== "doctor")) {
      const composed = Object.keys(services[pod.name]?.environment ?? {});
      expect(needed(Object.keys(await environmentOf(pod))), pod.name).toEqual(needed(composed));
    }
  });

  const SHARED_ONLY = ["TEMPORAL_ADDRESS", "SIGNET_PEPPER_FILE", "SIGNET_KEK_FILE", "SIGNET_PUBLIC_URL"];

  test.for(pods.map((pod) => [pod.name, pod] as const))(
    "of %s are sufficient, and none can be left out",
    async ([name, pod]) => {
      const environment = await environmentOf(pod);
      const asks = name === "edge" ? "edge" : "service";
      expect(loadConfig(environment, asks).development).toBe(false);
      const later = (variable: string): boolean =>
        MISSED_LATER.test(variable) || (name === "migrate" && variable === "SIGNET_EDGE_DATABASE_URL_FILE");
      const needed = Object.keys(environment).filter(
        (variable) => !OPTIONAL.test(variable) && !later(variable),
      );
      expect(needed.length).toBeGreaterThan(1);
      for (const variable of needed) {
        const { [variable]: _removed, ...without } = environment;
        expect(() => loadConfig(without, asks), variable).toThrow(ConfigError);
      }
      const forbidden =
        name === "edge" ? SHARED_ONLY.filter((variable) => variable !== "SIGNET_PUBLIC_URL") : [];
      expect(Object.keys(environment).filter((variable) => forbidden.includes(variable))).toEqual([]);
    },
  );

  test("reference secrets and contain none", () => {
    expect(all.map(({ kind }) => kind)).not.toContain("Secret");
    const values = [
      ...base.flatMap(({ kind, data = {} }) => (kind === "ConfigMap" ? Object.entries(data) : [])),
      ...pods.flatMap(({ container: { env = [] } }) =>
        env.map(({ name, value = "" }) => [name, value] as const),
      ),
    ];
    for (const [name, value] of values) {
      expect(value, name).not.toMatch(/:\/\/[^/]*:[^/]*@/);
      expect(name).not.toMatch(/(PEPPER|KEK|TOKEN|_KEY|PASSWORD)$/);
    }
  });

  test("of the edge are only its own", () => {
    const edge = pods.find(({ name }) => name === "edge");
    const held = (edge?.spec.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []);
    expect(held.toSorted()).toEqual(["signet-database-edge", "signet-edge-client", "signet-edge-tls"]);
  });
});

describe("every pod", () => {
  const beside = (kind: string, name: string): Manifest | undefined =>
    base.find((manifest) => manifest.kind === kind && manifest.metadata.name === `signet-${name}`);

  test.for(pods.map((pod) => [titled(pod.manifest), pod] as const))(
    "%s has only the privileges it needs",
    ([, { spec, container }]) => {
      expect(spec.securityContext).toEqual({
        runAsNonRoot: true,
        runAsUser: 1000,
        runAsGroup: 1000,
        fsGroup: 1000,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(spec.automountServiceAccountToken).toBe(false);
      expect(spec.initContainers ?? []).toEqual([]);
      expect(spec.containers).toHaveLength(1);
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      expect(container.resources.limits["memory"]).toMatch(/^\d+Mi$/);
      const writable = container.volumeMounts
        .filter(({ readOnly }) => readOnly !== true)
        .map(({ name }) => name);
      expect(writable).toEqual(container.name === "worker" ? ["checkpoints"] : []);
    },
  );

  test("runs this version, by its tag", async () => {
    const { version } = JSON.parse(
      await readFile(new URL("../../../package.json", import.meta.url), "utf8"),
    ) as { readonly version: string };
    expect(pods.map(({ container: { image } }) => image)).toEqual(
      pods.map(() => `registry.example.com/signet:${version}`),
    );
  });

  test("of a server has probes, ends in time, scales, and survives a drained node", () => {
    expect(served.map(({ name }) => name).toSorted()).toEqual(["api", "edge", "worker"]);
    for (const { name, manifest, labels, spec, container } of served) {
      expect(container.livenessProbe?.httpGet).toEqual({ path: "/healthz", port: "metrics" });
      expect(container.readinessProbe?.httpGet).toEqual({ path: "/readyz", port: "metrics" });
      expect(container.ports).toContainEqual({ name: "metrics", containerPort: 9464 });
      // Requests in progress have 18 s; the grace period includes the pause before.
      const { lifecycle: { preStop } = { preStop: { sleep: { seconds: 0 } } } } = container;
      expect((spec.terminationGracePeriodSeconds ?? 0) - preStop.sleep.seconds).toBeGreaterThanOrEqual(20);
      expect(manifest.spec).not.toHaveProperty("replicas");
      expect(beside("HorizontalPodAutoscaler", name)?.spec?.scaleTargetRef?.name).toBe(
        manifest.metadata.name,
      );
      expect(selects(beside("PodDisruptionBudget", name)?.spec?.selector ?? {}, labels)).toBe(true);
      expect(selects(manifest.spec?.selector ?? {}, labels)).toBe(true);
    }
  });

  test("is applied in the order of an upgrade: schema, workers, apis, edges", () => {
    const waves = pods.map(({ name, manifest }) => [
      name,
      manifest.metadata.annotations?.["argocd.argoproj.io/sync-wave"],
    ]);
    expect(waves).toEqual([
      ["migrate", "1"],
      ["worker", "2"],
      ["api", "3"],
      ["edge", "4"],
      ["doctor", undefined],
    ]);
  });
});

describe("the network", () => {
  const policies = base.filter(({ kind }) => kind === "NetworkPolicy");
  const rulesOf = (labels: Readonly<Record<string, string>>) =>
    policies
      .filter(({ spec }) => selects(spec?.podSelector ?? {}, labels))
      .flatMap(({ spec, metadata }) =>
        (spec?.egress ?? []).map((rule) => ({ ...rule, name: metadata.name })),
      );

  test("is closed by default", () => {
    const closing = policies.filter(
      ({ spec: { egress, ingress, policyTypes } = {} }) =>
        egress === undefined && ingress === undefined && policyTypes?.toString() === "Ingress,Egress",
    );
    expect(closing).toHaveLength(1);
    for (const { name, labels } of pods) {
      expect(selects(closing[0]?.spec?.podSelector ?? {}, labels), name).toBe(true);
    }
  });

  test("lets only the worker out, to exactly the addresses of the address policy", () => {
    for (const { name, labels } of pods) {
      const blocks = rulesOf(labels).flatMap(({ to = [] }) => to.flatMap(({ ipBlock }) => ipBlock ?? []));
      expect(blocks, name).toEqual(name === "worker" ? PUBLIC_BLOCKS : []);
      // A rule without `to` allows everything.
      expect(rulesOf(labels).every(({ to = [] }) => to.length > 0)).toBe(true);
    }
  });

  test("allows each process the services it uses, by name", () => {
    const reach = Object.fromEntries(
      pods.map(({ name, labels }) => [
        name,
        rulesOf(labels)
          .map((rule) => rule.name)
          .toSorted(),
      ]),
    );
    const common = ["signet-database", "signet-names"];
    const service = ["signet-database", "signet-names", "signet-temporal"];
    expect(reach).toEqual({
      api: service,
      worker: ["signet-database", "signet-names", "signet-receivers", "signet-temporal"],
      edge: [...common.slice(0, 1), "signet-edge", ...common.slice(1)],
      migrate: service,
      doctor: service,
    });
  });

  test("is open to the world at the edge only", () => {
    const open = policies.filter(({ spec }) => spec?.ingress?.some(({ from }) => from === undefined));
    expect(open.map(({ metadata }) => metadata.name)).toEqual(["signet-edge"]);
  });
});
