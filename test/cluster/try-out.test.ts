/**
 * The chart's try-out in the cluster of KUBECONFIG, by the commands of deploy/kubernetes/README.md: it is installed, delivers,
 * rolls, goes back and ends. It makes the namespace `signet`, which must not exist, and removes it. The nodes must be able to
 * pull SIGNET_TEST_IMAGE (by default, the chart's image).
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { run } from "#tools/go-program.ts";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import { jsonBody, readAnswer, unlessStale } from "../support/answer.ts";
import { CACHE } from "../support/cache.ts";
import { newRoot, today } from "../support/certificates.ts";
import { shellLines } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { helm } from "../support/helm-chart.ts";
import { cachedKubernetes } from "../support/kubernetes-programs.ts";
import { allowMinutes } from "../support/limits.ts";
import { spawnProcess } from "../support/processes.ts";
import { skipUnless } from "../support/skips.ts";

allowMinutes(30);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const START_MS = 300_000;
const IMAGE = process.env["SIGNET_TEST_IMAGE"];
const { KUBECONFIG, PATH = "" } = process.env;
const programs = cachedKubernetes(CACHE);
const missing =
  helm === undefined ||
  skipUnless(KUBECONFIG !== undefined, "the chart in a cluster", "KUBECONFIG names none") ||
  skipUnless(programs !== undefined, "the chart in a cluster", ".ci/programs builds kubectl");
/** Prints the body of each request. */
const RECEIVER = `const read = (name) => require("node:fs").readFileSync("/run/receiver/" + name);
require("node:https").createServer({ key: read("tls.key"), cert: read("tls.crt") }, (request, response) => {
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => { console.log(text); response.end(); });
}).listen(8443);`;

type Body = Readonly<Record<string, unknown>>;

describe.skipIf(missing)("the try-out", () => {
  let directory: string;
  let made = false;
  let address: string;
  let client: Body;

  /** Runs a line in a shell, in the repository unless elsewhere. */
  async function shell(line: string, cwd = REPOSITORY): Promise<string> {
    const path = [dirname(helm ?? ""), dirname(programs?.kubectl ?? ""), PATH].join(delimiter);
    const { stdout } = await run("bash", ["-euo", "pipefail", "-c", line], {
      cwd,
      env: { ...process.env, PATH: path },
    });
    return stdout;
  }

  /** Returns the command of deploy/kubernetes/README.md for the try-out. */
  async function documented(verb: string): Promise<string> {
    const lines = (await shellLines("deploy/kubernetes/README.md")).map(({ text }) => text);
    const found = lines.filter((line) => line.startsWith(`helm ${verb}`) && !line.includes("my-values.yaml"));
    expect(found, verb).toHaveLength(1);
    return found[0] ?? "";
  }

  async function create(object: Body): Promise<void> {
    const file = join(directory, "object.json");
    await writeFile(file, JSON.stringify(object));
    await shell(`kubectl -n signet create --filename ${file}`);
  }

  async function signet(line: string): Promise<Body> {
    return JSON.parse(
      await shell(`kubectl -n signet exec deploy/signet-api -- signet ${line} --json`),
    ) as Body;
  }

  /** Starts a receiver in the namespace, with a certificate for the address of its Service. */
  async function startReceiver(image: string): Promise<void> {
    const labels = { app: "receiver" };
    await create({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "receiver" },
      spec: { selector: labels, ports: [{ port: 8443 }] },
    });
    address = await shell("kubectl -n signet get service receiver -o 'jsonpath={.spec.clusterIP}'");
    const root = await newRoot();
    const names = [{ type: "ip", value: address } as const];
    const pair = await root.issue({ subject: "CN=receiver", names, purposes: ["serverAuth"], ...today() });
    await create({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "receiver" },
      stringData: { "ca.crt": root.cert, "tls.crt": pair.cert, "tls.key": pair.key },
    });
    await create({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "receiver", labels },
      spec: {
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 1000,
          fsGroup: 1000,
          seccompProfile: { type: "RuntimeDefault" },
        },
        containers: [
          {
            name: "receiver",
            image,
            command: ["node", "-e", RECEIVER],
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
            volumeMounts: [{ name: "files", mountPath: "/run/receiver", readOnly: true }],
          },
        ],
        volumes: [{ name: "files", secret: { secretName: "receiver" } }],
      },
    });
    await shell("kubectl -n signet wait --for=condition=Ready --timeout=5m pod/receiver");
  }

  /** Writes what the try-out needs to reach the receiver. Returns the options. */
  async function values(image: string): Promise<string> {
    const [, repository, tag] = /^(.+):([^:/]+)$/.exec(image) ?? [];
    const file = join(directory, "values.json");
    await writeFile(
      file,
      JSON.stringify({
        image: { repository, tag },
        serviceSettings: {
          SIGNET_ALLOWED_TARGET_CIDRS: `${address}/32`,
          SIGNET_TARGET_CA_FILE: "/run/receiver/ca.crt",
        },
        extraVolumes: [{ name: "receiver", secret: { secretName: "receiver" } }],
        extraVolumeMounts: [{ name: "receiver", mountPath: "/run/receiver", readOnly: true }],
        networkPolicies: {
          extraEgress: {
            worker: [
              {
                to: [{ podSelector: { matchLabels: { app: "receiver" } } }],
                ports: [{ protocol: "TCP", port: 8443 }],
              },
            ],
          },
        },
      }),
    );
    return `--values ${file}`;
  }

  /** Makes a client, and its certificate by the notes that Helm prints. */
  async function makeClient(): Promise<void> {
    const notes = await shell("helm get notes signet --namespace signet");
    const lines = [...notes.matchAll(/^ {2}((?:kubectl .* get secret|openssl|printf) .*)$/gm)];
    expect(lines).toHaveLength(5);
    await shell(lines.map(([, line]) => line).join("\n"), directory);
    const { id: tenant } = await signet("tenant create Example --region eu");
    const scopes = "'webhooks:write webhooks:read events:publish'";
    const { id: role } = await signet(`role create publisher --tenant ${String(tenant)} --scopes ${scopes}`);
    const { id: principal } = await signet(
      `principal create service --tenant ${String(tenant)} --role ${String(role)} --region eu --environment production`,
    );
    client = await signet(
      `credential create --principal ${String(principal)} --san-uri spiffe://signet.example/client/example`,
    );
  }

  /** Sends requests to the edge as the client. */
  async function asClient(work: (call: (path: string, body?: Body) => Promise<Body>) => Promise<void>) {
    const port = await freePort();
    const forward = spawnProcess({
      command: [
        programs?.kubectl ?? "",
        "--namespace=signet",
        "port-forward",
        "service/signet-edge",
        `${port}:443`,
      ],
      cwd: REPOSITORY,
      environment: { ...process.env },
    });
    try {
      await eventually(() => forward.stdout().includes("Forwarding from"), "the way to the edge");
      const read = async (name: string): Promise<string> => await readFile(join(directory, name), "utf8");
      const tls = createTlsFetch({
        ca: await read("ca.crt"),
        cert: await read("client.crt"),
        key: await read("client.key"),
      });
      const ask = async (path: string, body?: Body, token?: string): Promise<Body> => {
        const { headers, ...content } = jsonBody(body);
        const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };
        const answer = await unlessStale(
          async () =>
            await readAnswer(
              await tls(`https://localhost:${port}${path}`, {
                method: body === undefined ? "GET" : "POST",
                headers: { ...headers, ...authorization },
                ...content,
              }),
            ),
        );
        expect(answer.status, answer.text).toBeLessThan(300);
        return answer.body;
      };
      const { client_id, client_secret } = client;
      const grant = { grant_type: "client_credentials", client_id, client_secret };
      const { access_token: token } = await ask("/v1/auth/token", grant);
      await work(async (path, body) => await ask(path, body, String(token)));
    } finally {
      await forward.stop();
    }
  }

  /** Publishes an event, and waits until the receiver has it. */
  async function deliver(): Promise<void> {
    await asClient(async (call) => {
      const { id } = await call("/v1/events", { type: "inference.completed", data: {} });
      await eventually(
        async () => (await shell("kubectl -n signet logs receiver")).includes(String(id)),
        "the delivery",
        START_MS,
      );
    });
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "signet-cluster-"));
    await shell("kubectl create namespace signet");
    made = true;
    await shell("kubectl label namespace signet pod-security.kubernetes.io/enforce=restricted");
  });

  afterAll(async () => {
    if (made) {
      await shell("kubectl delete namespace signet --timeout=5m");
    }
    await rm(directory, { recursive: true, force: true });
  });

  test("is installed, delivers, rolls, goes back, and leaves nothing", async () => {
    const chart = await shell("helm show chart deploy/helm/signet");
    const image = IMAGE ?? `registry.example.com/signet:${/^appVersion: (.*)$/m.exec(chart)?.[1]}`;
    await startReceiver(image);
    const install = `${await documented("upgrade --install")} ${await values(image)}`;
    await shell(install);
    await makeClient();
    await asClient(async (call) => {
      const url = `https://${address}:8443/hook`;
      const { id } = await call("/v1/webhooks/endpoints", { url, events: ["inference.completed"] });
      await eventually(
        async () => (await call(`/v1/webhooks/endpoints/${String(id)}`))["state"] === "ACTIVE",
        "the endpoint",
        START_MS,
      );
    });
    await deliver();

    const rolled = ["api", "worker", "edge"].map((name) => `${name}.podAnnotations.rolled=yes`).join();
    await shell(`${install} --set-string ${rolled}`);
    await deliver();

    await shell(await documented("rollback"));
    await deliver();

    await shell(await documented("uninstall"));
    const left = "get pods,secrets,configmaps,services,persistentvolumeclaims --output name";
    await eventually(
      async () =>
        (await shell(`kubectl -n signet ${left} --selector app.kubernetes.io/instance=signet`)) === "",
      "nothing to be left",
      START_MS,
    );
  });
});
