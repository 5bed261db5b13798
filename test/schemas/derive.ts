/**
 * Derives the schemas for the files in deploy/ and docker-compose.yml from Go modules: smaller, and strict, because
 * Kubernetes silently drops unknown members.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { parse } from "yaml";

const run = promisify(execFile);
/** The source of Kubernetes is about 40 MB. */
const DOWNLOAD_MS = 180_000;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

export interface Source {
  /** Go module and version, and a file's path in it. */
  readonly module: string;
  readonly version: string;
  readonly path: string;
  /** Path of the derived schema, relative to this file. */
  readonly file: string;
  readonly derive: (source: JsonObject) => JsonObject;
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Removes descriptions, which are most of a schema. A property may itself be called `description`. */
function withoutDescriptions(schema: Json, names = false): Json {
  if (Array.isArray(schema)) {
    return schema.map((item: Json) => withoutDescriptions(item));
  }
  if (!isObject(schema)) {
    return schema;
  }
  const kept = Object.entries(schema).filter(
    ([name]) =>
      names || (name !== "description" && name !== "title" && !/^x-kubernetes-(?!group)/.test(name)),
  );
  return Object.fromEntries(
    kept.map(([name, value]) => [
      name,
      withoutDescriptions(value, !names && /^(properties|patternProperties|definitions|\$defs)$/.test(name)),
    ]),
  );
}

/** Kinds that the manifests use. */
const KINDS = [
  "api.core.v1.ConfigMap",
  "api.core.v1.Namespace",
  "api.core.v1.PersistentVolumeClaim",
  "api.core.v1.Secret",
  "api.core.v1.Service",
  "api.core.v1.ServiceAccount",
  "api.apps.v1.Deployment",
  "api.apps.v1.StatefulSet",
  "api.autoscaling.v2.HorizontalPodAutoscaler",
  "api.batch.v1.CronJob",
  "api.batch.v1.Job",
  "api.networking.v1.NetworkPolicy",
  "api.policy.v1.PodDisruptionBudget",
] as const;
/** Properties that no manifest sets. */
const UNUSED_PROPERTIES = new Set(["status", "managedFields", "ephemeralContainers"]);
const REFERENCE = "#/definitions/";
const INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

function strict(definition: JsonObject): JsonObject {
  const { properties, "x-kubernetes-group-version-kind": kinds, ...rest } = definition;
  if (!isObject(properties)) {
    return rest;
  }
  const known = Object.fromEntries(
    Object.entries(properties).filter(([name]) => !UNUSED_PROPERTIES.has(name)),
  );
  const kind = Array.isArray(kinds) && kinds.length === 1 && isObject(kinds[0]) ? kinds[0] : undefined;
  if (kind === undefined) {
    return { ...rest, properties: known, additionalProperties: false };
  }
  const { group, version: number } = kind as Readonly<Record<string, string>>;
  const version = group === "" ? number : `${group}/${number}`;
  return {
    ...rest,
    required: ["apiVersion", "kind", "metadata"],
    properties: { ...known, apiVersion: { const: version ?? null }, kind: { const: kind["kind"] ?? null } },
    additionalProperties: false,
  };
}

function referencesOf(schema: Json): string[] {
  if (Array.isArray(schema)) {
    return schema.flatMap(referencesOf);
  }
  if (!isObject(schema)) {
    return [];
  }
  const { $ref } = schema;
  const own = typeof $ref === "string" ? [$ref.slice(REFERENCE.length)] : [];
  return [...own, ...Object.values(schema).flatMap(referencesOf)];
}

function deriveKubernetes({ definitions }: JsonObject): JsonObject {
  const all = isObject(definitions) ? definitions : {};
  const kept: Record<string, Json> = {};
  const waiting = KINDS.map((name): string => `io.k8s.${name}`);
  const roots = waiting.map((name) => ({ $ref: `${REFERENCE}${name}` }));
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const definition = all[name];
    if (!isObject(definition)) {
      throw new Error(`there is no definition ${name}`);
    }
    const derived =
      name === INT_OR_STRING
        ? { type: ["integer", "string"] }
        : strict(withoutDescriptions(definition) as JsonObject);
    kept[name] = derived;
    waiting.push(...referencesOf(derived).filter((wanted) => !(wanted in kept)));
  }
  const sorted = Object.entries(kept).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return { oneOf: roots, definitions: Object.fromEntries(sorted) };
}

/** Forbids unknown members of a custom resource, as the API server's strict validation does. */
function strictly(schema: Json): Json {
  if (Array.isArray(schema)) {
    return schema.map((item: Json) => strictly(item));
  }
  if (!isObject(schema)) {
    return schema;
  }
  const { default: _default, properties, ...rest } = schema;
  const others = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, strictly(value)]));
  if (!isObject(properties)) {
    return others;
  }
  const known = Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [name, strictly(value)]),
  );
  return { additionalProperties: false, ...others, properties: known };
}

/** Derives the schema of a custom resource; `kept` are the members of its spec that manifests use, if not all. */
function deriveResource(kept?: readonly string[]): (definition: JsonObject) => JsonObject {
  return (definition) => {
    const { group, names, versions } = definition["spec"] as unknown as {
      readonly group: string;
      readonly names: { readonly kind: string };
      readonly versions: readonly {
        readonly name: string;
        readonly storage: boolean;
        readonly schema: {
          readonly openAPIV3Schema: { readonly properties: { readonly spec: JsonObject } };
        };
      }[];
    };
    const version = versions.find(({ storage }) => storage);
    const spec = strictly(
      withoutDescriptions(version?.schema.openAPIV3Schema.properties.spec ?? {}),
    ) as JsonObject;
    const members = Object.entries(spec["properties"] as JsonObject).filter(
      ([name]) => kept === undefined || kept.includes(name),
    );
    return {
      definitions: {
        [`${group}.${names.kind}`]: {
          type: "object",
          required: ["apiVersion", "kind", "metadata", "spec"],
          properties: {
            apiVersion: { const: `${group}/${version?.name}` },
            kind: { const: names.kind },
            metadata: { type: "object" },
            spec: { ...spec, properties: Object.fromEntries(members) },
          },
          additionalProperties: false,
        },
      },
    };
  };
}

const OPERATOR = { module: "github.com/prometheus-operator/prometheus-operator", version: "v0.85.0" };
const CERT_MANAGER = { module: "github.com/cert-manager/cert-manager", version: "v1.21.2" };

export const SOURCES: readonly Source[] = [
  {
    ...OPERATOR,
    path: "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
    file: "custom-resources/pod-monitor.json",
    derive: deriveResource(["selector", "podMetricsEndpoints"]),
  },
  {
    ...OPERATOR,
    path: "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    file: "custom-resources/prometheus-rule.json",
    derive: deriveResource(),
  },
  {
    module: "github.com/external-secrets/external-secrets",
    version: "v1.3.2",
    path: "config/crds/bases/external-secrets.io_externalsecrets.yaml",
    file: "custom-resources/external-secret.json",
    derive: deriveResource(["data", "refreshInterval", "secretStoreRef", "target"]),
  },
  {
    ...CERT_MANAGER,
    path: "deploy/crds/cert-manager.io_certificates.yaml",
    file: "custom-resources/certificate.json",
    derive: deriveResource(),
  },
  {
    ...CERT_MANAGER,
    path: "deploy/crds/cert-manager.io_issuers.yaml",
    file: "custom-resources/issuer.json",
    derive: deriveResource(["ca", "selfSigned"]),
  },
  {
    module: "github.com/kedacore/keda/v2",
    version: "v2.21.0",
    path: "config/crd/bases/keda.sh_scaledobjects.yaml",
    file: "custom-resources/scaled-object.json",
    derive: deriveResource(),
  },
  {
    module: "github.com/compose-spec/compose-go/v2",
    version: "v2.16.2",
    path: "schema/compose-spec.json",
    file: "compose-spec.json",
    derive: (schema) => withoutDescriptions(schema) as JsonObject,
  },
  {
    module: "k8s.io/kubernetes",
    version: "v1.36.3",
    path: "api/openapi-spec/swagger.json",
    file: "kubernetes.json",
    derive: deriveKubernetes,
  },
];

/**
 * Returns the module's directory in Go's cache. Downloads the module if it is not there.
 *
 * @throws if Go is missing, or the module is neither in the cache nor reachable
 */
export async function findModule({ module, version }: Source): Promise<string> {
  const { stdout } = await run("go", ["mod", "download", "-json", `${module}@${version}`], {
    cwd: "/",
    env: { ...process.env, GOFLAGS: "-mod=mod" },
    timeout: DOWNLOAD_MS,
  });
  return (JSON.parse(stdout) as { readonly Dir: string }).Dir;
}

/** Returns the schema derived from a module's directory, as it is checked in. */
export async function deriveFrom(directory: string, source: Source): Promise<string> {
  const { module, version, path, derive } = source;
  // JSON is YAML too, but large documents need its own parser.
  const text = await readFile(join(directory, path), "utf8");
  const schema = (path.endsWith(".json") ? JSON.parse(text) : parse(text)) as JsonObject;
  const comment = `From ${path} of the Go module ${module} ${version}, Apache-2.0, without descriptions (test/schemas/run-derive.ts)`;
  return `${JSON.stringify({ $comment: comment, ...derive(schema) })}\n`;
}
