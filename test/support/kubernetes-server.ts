/** A real Kubernetes API server with etcd on 127.0.0.1, without nodes: it stores and validates objects, and nothing runs. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { parse, stringify } from "yaml";
import { newRoot, serverPair } from "./certificates.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";
import { callOnce } from "./https-request.ts";
import type { KubernetesPrograms } from "./kubernetes-programs.ts";
import type { Manifest } from "./manifests.ts";
import { spawnProcess } from "./processes.ts";

const NAMESPACE = "signet";
const LEVEL = "restricted";

/** The server's answer to an object. */
export interface Verdict {
  readonly status: number;
  /** Its message, if it rejects the object. */
  readonly message: string;
  readonly warnings: string;
}

export interface KubernetesServer {
  /** Path of a file for helm and kubectl. */
  readonly kubeconfig: string;
  /** Asks whether it would store an object, with every member known. */
  check(object: Manifest): Promise<Verdict>;
  /** Returns the names of the stored objects of a kind, without those that wait for a controller to end. */
  names(apiVersion: string, kind: string): Promise<readonly string[]>;
  close(): Promise<void>;
}

interface Resource {
  readonly kind: string;
  readonly name: string;
  readonly namespaced: boolean;
}

type Ask = (
  method: string,
  path: string,
  body?: unknown,
) => Promise<Verdict & { readonly body: Readonly<Record<string, unknown>> }>;

/** Returns a function that sends requests as an administrator. */
function asker(port: number, ca: string, token: string): Ask {
  return async (method, path, json) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": method === "PATCH" ? "application/apply-patch+yaml" : "application/json",
    };
    const { status, body, headers: answered } = await callOnce(path, { port, ca, method, headers, json });
    const { warning } = answered;
    return {
      status,
      message: status < 300 ? "" : String(body["message"]),
      warnings: Array.isArray(warning) ? warning.join() : (warning ?? ""),
      body,
    };
  };
}

/** Returns a function that finds the path of a kind's objects, by the server's own list of kinds. */
function pathFinder(ask: Ask): (apiVersion: string, kind: string, namespace?: string) => Promise<string> {
  const known = new Map<string, readonly Resource[]>();
  return async (apiVersion, kind, namespace = NAMESPACE) => {
    const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    if (!known.has(root)) {
      const { body } = await ask("GET", root);
      known.set(root, (body["resources"] ?? []) as readonly Resource[]);
    }
    const found = known.get(root)?.find((one) => one.kind === kind && !one.name.includes("/"));
    // Without such a kind, the server's own error.
    const { name, namespaced } = found ?? { name: kind.toLowerCase(), namespaced: true };
    return namespaced ? `${root}/namespaces/${namespace}/${name}` : `${root}/${name}`;
  };
}

/** Creates the namespace, with the strictest level for pods, and the kinds of other operators. */
async function prepare(ask: Ask, definitions: string): Promise<void> {
  await eventually(async () => (await ask("GET", "/readyz")).status === 200, "the API server to be ready");
  const labels = Object.fromEntries(
    ["enforce", "warn"].map((mode) => [`pod-security.kubernetes.io/${mode}`, LEVEL]),
  );
  const create = async (path: string, body: unknown): Promise<void> => {
    const { status, message } = await ask("POST", path, body);
    if (status !== 201) {
      throw new Error(`${path}: ${message}`);
    }
  };
  await create("/api/v1/namespaces", {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: NAMESPACE, labels },
  });
  for (const file of await readdir(definitions)) {
    const definition = parse(await readFile(join(definitions, file), "utf8")) as {
      readonly spec: {
        readonly group: string;
        readonly versions: readonly { readonly name: string; readonly served: boolean }[];
      };
    };
    const { group, versions } = definition.spec;
    await create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
    const version = versions.find(({ served }) => served)?.name;
    await eventually(async () => (await ask("GET", `/apis/${group}/${version}`)).status === 200, file);
  }
}

interface Ports {
  readonly etcd: number;
  readonly peers: number;
  readonly api: number;
}

/** Writes the server's keys and its only user. Returns its flags. */
async function writeFiles(directory: string, { etcd, api }: Ports, token: string) {
  const root = await newRoot();
  const pair = await serverPair(root);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const key = await write("accounts.key", privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  const kubeconfig = await write(
    "kubeconfig",
    stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        {
          name: "test",
          cluster: {
            server: `https://127.0.0.1:${api}`,
            "certificate-authority-data": Buffer.from(root.cert).toString("base64"),
          },
        },
      ],
      users: [{ name: "test", user: { token } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
      "current-context": "test",
    }),
  );
  const flags = [
    `--etcd-servers=http://127.0.0.1:${etcd}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${api}`,
    `--tls-cert-file=${await write("server.crt", pair.cert)}`,
    `--tls-private-key-file=${await write("server.key", pair.key)}`,
    `--token-auth-file=${await write("tokens.csv", `${token},admin,admin,system:masters\n`)}`,
    "--anonymous-auth=false",
    "--authorization-mode=RBAC",
    "--service-account-issuer=https://kubernetes.example",
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    "--service-cluster-ip-range=10.96.0.0/16",
    // It has no address that a node could reach.
    "--endpoint-reconciler-type=none",
  ];
  return { ca: root.cert, flags, kubeconfig };
}

/** Starts both programs. `etcd` is Debian's. */
export async function startKubernetes(programs: KubernetesPrograms): Promise<KubernetesServer> {
  const directory = await mkdtemp(join(inject("runDirectory"), "kubernetes-"));
  const [etcd = 0, peers = 0, api = 0] = await freePorts(3);
  const token = randomBytes(16).toString("hex");
  const { ca, flags, kubeconfig } = await writeFiles(directory, { etcd, peers, api }, token);
  const urls = { client: `http://127.0.0.1:${etcd}`, peer: `http://127.0.0.1:${peers}` };
  const store = spawnProcess({
    command: [
      "etcd",
      `--data-dir=${join(directory, "etcd")}`,
      `--listen-client-urls=${urls.client}`,
      `--advertise-client-urls=${urls.client}`,
      `--listen-peer-urls=${urls.peer}`,
      `--initial-advertise-peer-urls=${urls.peer}`,
      `--initial-cluster=default=${urls.peer}`,
    ],
    cwd: directory,
    environment: {},
  });
  await eventually(async () => (await callOnce("/health", { port: etcd })).status === 200, "etcd");
  const server = spawnProcess({
    command: [programs.apiServer, ...flags],
    cwd: directory,
    environment: {},
  });
  const ask = asker(api, ca, token);
  const pathOf = pathFinder(ask);
  await prepare(ask, programs.definitions);
  return {
    kubeconfig,
    check: async (object) => {
      const { apiVersion, kind, metadata } = object;
      const path = await pathOf(apiVersion, kind, metadata.namespace);
      const query = "dryRun=All&fieldValidation=Strict&fieldManager=test&force=true";
      return await ask("PATCH", `${path}/${metadata.name}?${query}`, object);
    },
    names: async (apiVersion, kind) => {
      const { body } = await ask("GET", await pathOf(apiVersion, kind));
      return (body["items"] as readonly Manifest[])
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map(({ metadata }) => metadata.name);
    },
    close: async () => {
      await server.stop("SIGKILL");
      await store.stop("SIGKILL");
      await rm(directory, { recursive: true, force: true });
    },
  };
}
