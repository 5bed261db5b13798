/** What the Helm chart renders, for each file of values and for further values. */
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject } from "vitest";
import { goProgram, HELM } from "#tools/go-program.ts";
import { helmTemplate } from "#tools/kubernetes-manifests.ts";
import {
  type Container,
  type Manifest,
  parseManifests,
  type PodSpec,
  sampleEnvironment,
} from "./manifests.ts";
import { skipUnless } from "./skips.ts";

export const MINIMAL = ["--set=publicUrl=https://signet.example.com", "--set=temporal.address=temporal:7233"];
/** Everything that the chart can render beside the files of values. */
const KEDA = [
  ...MINIMAL,
  "--set=worker.autoscaling.lag.by=keda",
  "--set=worker.autoscaling.lag.prometheusUrl=http://prometheus:9090",
  "--set=secrets.source=externalSecrets,secrets.externalSecrets.store.name=vault,database.pooler=true",
  "--set=certificates.source=certManager,certificates.certManager.publicIssuer.name=a",
  "--set=certificates.certManager.temporalIssuer.name=b",
  "--set=edge.routes=[]",
  '--set-json=networkPolicies.extraEgress.worker=[{"to":[{"ipBlock":{"cidr":"10.1.0.0/16"}}]}]',
  '--set-json=sidecars=[{"name":"proxy","image":"proxy:1","securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]',
];
const MANAGED = "--values=deploy/helm/values-managed.yaml";
export const HUBS = "hubs, edges behind them, and certificates of your own";
export const HOME = "values-region-home.yaml";
/** A cell that is not the home cell. */
export const CELL = "values-region-remote.yaml";
export const EDGES = "values-region-edges.yaml";
/** Its parts are one process. */
export const ALL_INSIDE = "values-all-inside.yaml";
export const ALL_INSIDE_APART = "all inside, the parts apart, with hubs";
export const ONE_PROCESS = "values-managed.yaml in one process, with routes";
export const POOLER = "KEDA, cert-manager, a pooler, routes and sidecars";
export const VARIANTS: Readonly<Record<string, readonly string[]>> = {
  "values-managed.yaml": [MANAGED],
  [HOME]: [MANAGED, `--values=deploy/helm/${HOME}`],
  [CELL]: [MANAGED, `--values=deploy/helm/${CELL}`],
  [EDGES]: [MANAGED, `--values=deploy/helm/${EDGES}`],
  [HUBS]: [...MINIMAL, "--set=hub.enabled=true,hub.replicas=3,hub.service.type=NodePort"],
  [ALL_INSIDE]: [`--values=deploy/helm/${ALL_INSIDE}`],
  [ALL_INSIDE_APART]: [`--values=deploy/helm/${ALL_INSIDE}`, "--set=oneProcess=false,hub.enabled=true"],
  [ONE_PROCESS]: [MANAGED, "--set=oneProcess=true,edge.routes=[]"],
  "the plain manifests": ["--values=deploy/kubernetes/values.yaml"],
  "as few values as possible": MINIMAL,
  [POOLER]: KEDA,
};
export const NAMES = Object.keys(VARIANTS);
/** Path of Helm; undefined if it cannot be had. */
export const helm = await goProgram(HELM).catch((error: Error) => {
  skipUnless(false, "the tests of the Helm chart", `${HELM} cannot be built with Go: ${error.message}`);
  return undefined;
});
const rendered = new Map<string, string>();

/** Renders the variants with these names. */
export async function renderVariants(names: readonly string[]): Promise<void> {
  for (const name of names) {
    rendered.set(name, await helmTemplate(...(VARIANTS[name] ?? [])));
  }
}

/** Returns the objects that were rendered for a variant. */
export function manifestsOf(name: string): readonly Manifest[] {
  return parseManifests(rendered.get(name) ?? "");
}

export interface Pods {
  readonly name: string;
  readonly spec: PodSpec;
}

/** Returns the pods of workloads, also of scheduled ones. */
export function podsOf(name: string): readonly Pods[] {
  return manifestsOf(name).flatMap(({ kind, metadata, spec }) => {
    const own = (spec as { readonly jobTemplate?: Manifest } | undefined)?.jobTemplate?.spec ?? spec;
    return own?.template === undefined ? [] : [{ name: `${kind} ${metadata.name}`, spec: own.template.spec }];
  });
}

/** Returns all containers of a pod. */
export function containersOf({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}

/** Returns the pods of Signet itself. */
export function ownPodsOf(name: string): readonly Pods[] {
  const own = podsOf(name).filter(({ spec }) => spec.containers[0]?.image.includes("/signet") === true);
  expect(own.length).toBeGreaterThan([EDGES, ALL_INSIDE, ONE_PROCESS].includes(name) ? 1 : 3);
  return own;
}

/** The settings of a process, and what its pods mount. */
export async function processOf(
  variant: string,
  process: string,
): Promise<{ readonly environment: Readonly<Record<string, string>>; readonly secrets: readonly string[] }> {
  const { spec } =
    ownPodsOf(variant).find(({ spec: { containers } }) => containers[0]?.name === process) ?? {};
  const directory = await mkdtemp(join(inject("runDirectory"), "helm-process-"));
  return {
    environment: spec === undefined ? {} : await sampleEnvironment(spec, manifestsOf(variant), directory),
    secrets: (spec?.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []),
  };
}
