/** A real API server accepts everything that the chart and the plain manifests have: it knows every member, and warns of nothing. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { run } from "#tools/go-program.ts";
import { helmTemplate } from "#tools/kubernetes-manifests.ts";
import { CACHE } from "../support/cache.ts";
import {
  ALL_INSIDE,
  helm,
  manifestsOf,
  MINIMAL,
  NAMES,
  renderVariants,
  VARIANTS,
} from "../support/helm-chart.ts";
import { cachedKubernetes, type KubernetesPrograms } from "../support/kubernetes-programs.ts";
import { startKubernetes } from "../support/kubernetes-server.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Manifest, parseManifests } from "../support/manifests.ts";
import { lacks, skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";

allowMinutes(15);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const TESTS = "the checks of the chart by Kubernetes' API server";
const programs = cachedKubernetes(CACHE);
const missing =
  helm === undefined ||
  skipUnless(programs !== undefined, TESTS, ".ci/programs builds it") ||
  lacks(TESTS, "etcd --version");

describe.skipIf(missing)("a real API server", () => {
  const server = useStarted(
    "the API server",
    async () => await startKubernetes(programs as KubernetesPrograms),
  );

  beforeAll(async () => await renderVariants(NAMES));

  /** Returns what the server objects to, by object. */
  async function objections(objects: readonly Manifest[]): Promise<readonly string[]> {
    const checks = objects.map(async (object) => {
      const { status, message, warnings } = await server.current.check(object);
      const isFine = status < 300 && warnings === "";
      return isFine ? [] : [`${object.kind} ${object.metadata.name}: ${status} ${message} ${warnings}`];
    });
    return (await Promise.all(checks)).flat();
  }

  async function onServer(...args: readonly string[]): Promise<string> {
    const env = { ...process.env, KUBECONFIG: server.current.kubeconfig };
    const { stdout } = await run(helm ?? "", [...args, "--namespace=signet"], { cwd: REPOSITORY, env });
    return stdout;
  }

  test.for(NAMES)("accepts every object of an installation and of an upgrade with %s", async (name) => {
    const installed = manifestsOf(name);
    expect(installed.length).toBeGreaterThan(15);
    expect(await objections(installed)).toEqual([]);
    const known = new Set(installed.map((object) => JSON.stringify(object)));
    const upgraded = parseManifests(await helmTemplate(...(VARIANTS[name] ?? []), "--is-upgrade"));
    expect(upgraded).toHaveLength(installed.length);
    expect(await objections(upgraded.filter((object) => !known.has(JSON.stringify(object))))).toEqual([]);
  });

  test("is asked about every file of values, and every overlay", async () => {
    const values = (await readdir(join(REPOSITORY, "deploy", "helm"))).filter((name) =>
      name.endsWith(".yaml"),
    );
    expect(values.length).toBeGreaterThan(4);
    expect(NAMES).toEqual(expect.arrayContaining(values));
    expect(await readdir(join(REPOSITORY, "deploy", "kubernetes", "overlays"))).toEqual(["example"]);
  });

  test.for(["doctor", "overlays/example"])("accepts every object of kustomize with %s", async (directory) => {
    const { stdout } = await run(programs?.kubectl ?? "", [
      "kustomize",
      join(REPOSITORY, "deploy", "kubernetes", directory),
    ]);
    expect(await objections(parseManifests(stdout))).toEqual([]);
  });

  test.for<[name: string, pattern: RegExp, replacement: string]>([
    ["an unknown member", /"readinessProbe"/, '"readynessProbe"'],
    ["a number instead of a text", /"memory":"\w+"/, '"memory":true'],
    ["another version of a kind", /"apps\/v1"/, '"apps/v1beta1"'],
    ["no selector", /"selector":/, '"selectors":'],
    ["a text instead of a number", /"containerPort":(\d+)/, '"containerPort":"$1"'],
    ["a privileged pod", /"allowPrivilegeEscalation":false/, '"privileged":true'],
  ])("objects to %s", async ([, pattern, replacement]) => {
    const objects = manifestsOf("the plain manifests").filter(({ kind }) => kind === "Deployment");
    const text = JSON.stringify(objects[0]);
    const broken = text.replace(pattern, replacement);
    expect(broken).not.toBe(text);
    expect(await objections([JSON.parse(broken) as Manifest])).toHaveLength(1);
  });

  test("objects to an unknown member of another operator's kind", async () => {
    const [monitor] = manifestsOf("values-managed.yaml").filter(({ kind }) => kind === "PodMonitor");
    const broken = JSON.stringify(monitor).replace('"podMetricsEndpoints"', '"podMetricEndpoints"');
    expect(await objections([JSON.parse(broken) as Manifest])).toHaveLength(1);
  });

  test("keeps the try-out's keys at an upgrade, and none of it after an uninstallation", async () => {
    const values = VARIANTS[ALL_INSIDE] ?? [];
    const secrets = async (): Promise<readonly Manifest[]> =>
      parseManifests(await onServer("get", "manifest", "signet")).filter(({ kind }) => kind === "Secret");
    const notes = await onServer("install", "signet", "deploy/helm/signet", ...values);
    expect(notes).toMatch(/An uninstallation deletes these keys together with the data/);
    const before = await secrets();
    expect(before.length).toBeGreaterThan(12);
    await onServer("upgrade", "signet", "deploy/helm/signet", ...values);
    expect(await secrets()).toEqual(before);
    await onServer("uninstall", "signet");
    for (const kind of ["Secret", "ConfigMap", "PersistentVolumeClaim", "Service"]) {
      const left = await server.current.names("v1", kind);
      expect(left.filter((name) => name.startsWith("signet"))).toEqual([]);
    }
  });

  test.for([
    ["hooked", "--no-hooks"],
    ["unhooked", "--set=hooks=false"],
  ] as const)("keeps the checkpoints of an installation after it has ended (%s)", async ([name, option]) => {
    const notes = await onServer("install", name, "deploy/helm/signet", ...MINIMAL, option);
    expect(notes).toMatch(/An uninstallation leaves the volumes/);
    await onServer("uninstall", name);
    const left = await server.current.names("v1", "PersistentVolumeClaim");
    expect(left).toContain(`${name}-signet-checkpoints`);
    expect(await server.current.names("v1", "Service")).toEqual([]);
  });
});
