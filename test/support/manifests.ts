/** The Kubernetes manifests as data, as far as tests need them. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parse, parseAllDocuments } from "yaml";

const DEPLOY = join(import.meta.dirname, "..", "..", "deploy", "kubernetes");

export interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
}

interface Probe {
  readonly httpGet?: { readonly path: string; readonly port: string };
  readonly timeoutSeconds?: number;
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[];
  readonly env?: readonly Variable[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly {
    readonly name: string;
    readonly mountPath: string;
    readonly subPath?: string;
    readonly readOnly?: boolean;
  }[];
  readonly resources: {
    readonly requests: { readonly cpu: string; readonly memory: string };
    readonly limits: Readonly<Record<string, string>>;
  };
  readonly securityContext: unknown;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly startupProbe?: Probe;
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
}

export interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes: readonly {
    readonly name: string;
    readonly secret?: { readonly secretName: string };
    readonly configMap?: { readonly name: string };
  }[];
  readonly securityContext: unknown;
  readonly terminationGracePeriodSeconds?: number;
  readonly automountServiceAccountToken: boolean;
  readonly hostNetwork?: boolean;
}

interface Peer {
  readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
  readonly podSelector?: Selector;
  readonly namespaceSelector?: Selector;
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: string;
    readonly values: readonly string[];
  }[];
}

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: PodSpec;
    };
    readonly podSelector?: Selector;
    readonly policyTypes?: readonly string[];
    readonly selector?: Selector & Readonly<Record<string, unknown>>;
    readonly replicas?: number;
    readonly strategy?: { readonly type?: string };
    readonly persistentVolumeClaimRetentionPolicy?: unknown;
    readonly scaleTargetRef?: { readonly name: string };
    readonly egress?: readonly {
      readonly to?: readonly Peer[];
      readonly ports: readonly { readonly port: number; readonly endPort?: number }[];
    }[];
    readonly ingress?: readonly { readonly from?: readonly Peer[] }[];
  };
}

interface Kustomization {
  readonly resources: readonly string[];
}

/** Returns all objects of a text. @throws Error if it is invalid YAML or repeats a key */
export function parseManifests(text: string): readonly Manifest[] {
  return [...parseAllDocuments(text, { merge: true })].map((document) => {
    const [error] = document.errors;
    if (error !== undefined) {
      throw error;
    }
    return document.toJS() as Manifest;
  });
}

/** Returns all objects of a file. */
async function documentsOf(path: string): Promise<readonly Manifest[]> {
  return parseManifests(await readFile(path, "utf8"));
}

/** Returns the objects of the files that this directory's kustomization lists. */
export async function readManifests(directory: string): Promise<readonly Manifest[]> {
  const here = join(DEPLOY, directory);
  const { resources } = parse(await readFile(join(here, "kustomization.yaml"), "utf8")) as Kustomization;
  const files = resources.filter((name) => name.endsWith(".yaml"));
  return (await Promise.all(files.map(async (name) => await documentsOf(join(here, name))))).flat();
}

/** Whether a selector matches pods with these labels. */
export function selects(
  { matchLabels = {}, matchExpressions = [] }: Selector,
  labels: Readonly<Record<string, string>>,
) {
  return (
    Object.entries(matchLabels).every(([name, value]) => labels[name] === value) &&
    matchExpressions.every(
      ({ key, operator, values }) => values.includes(labels[key] ?? "") === (operator === "In"),
    )
  );
}

/** Returns a container's variables, from ConfigMaps and its own. @throws Error if a ConfigMap is missing */
function variablesOf(container: Container, manifests: readonly Manifest[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const { configMapRef } of container.envFrom ?? []) {
    const found = manifests.find(
      ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === configMapRef.name,
    );
    if (found?.data === undefined) {
      throw new Error(`there is no ConfigMap ${configMapRef.name}`);
    }
    Object.assign(variables, found.data);
  }
  for (const { name, value = "" } of container.env ?? []) {
    variables[name] = value;
  }
  return variables;
}

/**
 * Returns the environment of a pod's container. Files that it names are written below a directory, with sample values.
 *
 * @throws Error if a ConfigMap or a mounted volume is missing
 */
export async function sampleEnvironment(
  { containers: [container], volumes }: PodSpec,
  manifests: readonly Manifest[],
  directory: string,
): Promise<Record<string, string>> {
  if (container === undefined) {
    throw new Error("the pod has no container");
  }
  const environment = { SIGNET_ENV: "production", ...variablesOf(container, manifests) };
  const mounted = new Set(volumes.map(({ name }) => name));
  const mounts = container.volumeMounts.filter(({ name }) => mounted.has(name));
  const samples: Record<string, string> = { ...environment };
  for (const [name, path] of Object.entries(environment).filter(([, value]) => value.startsWith("/"))) {
    if (!mounts.some(({ mountPath }) => `${path}/`.startsWith(`${mountPath}/`))) {
      throw new Error(`nothing is mounted at ${name}=${path}`);
    }
    const file = join(directory, path);
    const url = "postgres://user:secret@database.example.org:5432/signet";
    samples[name] = file;
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, name.endsWith("_URL_FILE") ? url : Buffer.alloc(32, 7).toString("base64"));
  }
  return samples;
}
