/** Sends requests to the services of docker-compose.yml, as clients and the edge do. */
import { X509Certificate } from "node:crypto";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { createTlsFetch } from "../../src/lib/client/tls-fetch.ts";
import { jsonBody, readAnswer, unlessStale } from "./answer.ts";
import type { ComposeRun, Place } from "./compose-run.ts";
import { eventually } from "./eventually.ts";
import { bearer } from "./factories.ts";
import { labelledBlocks, shellLines } from "./documents.ts";
import { IMAGE_ENVIRONMENT, productionImage } from "./processes.ts";

const run = promisify(execFile);

/** An answer of the API. */
export interface Json {
  readonly [member: string]: unknown;
}

/** Calls the API, again while it cannot hear revocations, and expects success. */
export async function call(
  tls: ReturnType<typeof createTlsFetch>,
  url: string,
  token: string | undefined,
  body?: Json,
): Promise<Json> {
  const { headers, ...content } = jsonBody(body);
  const request = {
    method: body === undefined ? "GET" : "POST",
    headers: { ...(token === undefined ? {} : bearer(token)), ...headers },
    ...content,
  };
  const answer = await unlessStale(async () => await readAnswer(await tls(url, request)));
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer.body;
}

/** Returns a `fetch` with the client certificate that the init job has created. */
export function clientFetch({ client: { ca, pair } }: Place): ReturnType<typeof createTlsFetch> {
  return createTlsFetch({ key: pair, cert: pair, ca });
}

/** Returns a `fetch` that asks the api as the edge does: with the edge's certificate and a header for the client's. */
async function edgeFetch({
  volumes,
  client: { ca, pair },
}: Place): Promise<(url: string) => Promise<Response>> {
  const read = async (name: string) => await readFile(join(volumes, "edge", name), "utf8");
  const ask = createTlsFetch({ ca, cert: await read("edge.crt"), key: await read("edge.key") });
  const headers = { "client-cert": `:${new X509Certificate(pair).raw.toString("base64")}:` };
  return async (url) => await ask(url, { headers });
}

/** Asks again on a new connection if the service has closed an idle one just as the request began. */
async function onNewConnection(ask: () => Promise<Response>): Promise<Response> {
  try {
    return await ask();
  } catch {
    return await ask();
  }
}

/** Checks what a service needs beyond its own health check. @throws Error if something is missing */
export async function requireReachable(compose: ComposeRun, name: string, place: Place): Promise<void> {
  const metrics = await onNewConnection(async () => await fetch(`${compose.reach(name, 9464)}/metrics`));
  if (!(await metrics.text()).includes("process_cpu_seconds_total")) {
    throw new Error(`${name} serves no metrics`);
  }
  if (name === "worker") {
    return;
  }
  const metadata = "/.well-known/oauth-authorization-server";
  const answer =
    name === "edge"
      ? await clientFetch(place)(`${compose.published(8443)}${metadata}`, {})
      : await (
          await edgeFetch(place)
        )(`${compose.reach("api", 8443)}${metadata}`);
  const { issuer } = (await answer.json()) as { readonly issuer?: unknown };
  if (issuer !== compose.origin) {
    throw new Error(`the issuer is ${String(issuer)}, but the published origin is ${compose.origin}`);
  }
}

/** Runs the command line in the container `api`, and returns its object. */
export async function signet(compose: ComposeRun, ...args: readonly string[]): Promise<Json> {
  return JSON.parse(await compose.exec("api", ["signet", ...args, "--json"])) as Json;
}

/** Creates a client for webhooks, as an operator does. */
export async function provision(compose: ComposeRun): Promise<Json> {
  const { id: tenant } = await signet(compose, "tenant", "create", "Example", "--region", "eu");
  const of = ["--tenant", String(tenant)];
  const scopes = "webhooks:write webhooks:read events:publish";
  const { id: role } = await signet(compose, "role", "create", "publisher", ...of, "--scopes", scopes);
  const what = ["--role", String(role), "--region", "eu", "--environment", "production"];
  const { id: principal } = await signet(compose, "principal", "create", "service", ...of, ...what);
  const certificate = ["--san-uri", "spiffe://signet.compose/client/example"];
  return await signet(compose, "credential", "create", "--principal", String(principal), ...certificate);
}

/** Creates an endpoint for `inference.completed`, and waits until it is active. */
export async function activeEndpoint(
  tls: ReturnType<typeof createTlsFetch>,
  origin: string,
  token: string,
  url: string,
): Promise<Json> {
  const body = { url, events: ["inference.completed"] };
  const endpoint = await call(tls, `${origin}/v1/webhooks/endpoints`, token, body);
  const member = `${origin}/v1/webhooks/endpoints/${String(endpoint["id"])}`;
  await eventually(async () => (await call(tls, member, token))["state"] === "ACTIVE", "the endpoint");
  return endpoint;
}

/** Runs the token request of docs/operations.md in a directory with the certificates that it names. */
export async function pasteTokenRequest(
  place: Place,
  origin: string,
  client: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  const [line = "exit 1"] = (await shellLines("docs/operations.md"))
    .map(({ text: each }) => each)
    .filter((each) => each.startsWith("curl "));
  const filled = line
    .replace("https://localhost:8443", origin)
    .replace("cl_…", String(client["client_id"]))
    .replace("sgn_…", String(client["client_secret"]));
  const scratch = await mkdtemp(join(tmpdir(), "signet-compose-"));
  try {
    await writeFile(join(scratch, "ca.crt"), place.client.ca);
    await writeFile(join(scratch, "example.pem"), place.client.pair);
    return JSON.parse((await run("bash", ["-euc", filled], { cwd: scratch })).stdout);
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** In place of `docker compose`: the init job's certificates are there already, and `exec` runs the image's program. */
const DOCKER = `docker() {
  case "$*" in
    *" init ca" | *" init client example") cat "$PREPARED/\${!#}" ;;
    "compose exec -T api signet "*) shift 5; (cd "$IMAGE" && node src/bootstrap.mjs "$@") ;;
    *) echo "docker $*" >&2; return 1 ;;
  esac
}
`;

/** Runs the commands of docs/regions.md that show the second cell. Returns its last lines, and the token. */
export async function pasteCellExample(
  compose: ComposeRun,
  { client: { ca, pair } }: Place,
): Promise<{ readonly answers: readonly unknown[]; readonly token: string }> {
  const block =
    labelledBlocks(await readFile(join(import.meta.dirname, "..", "..", "docs", "regions.md"), "utf8")).get(
      "cell",
    ) ?? "exit 1";
  const filled = block.replaceAll(/https:\/\/localhost:(\d+)/g, (_all, port: string) =>
    compose.published(Number(port)),
  );
  const scratch = await mkdtemp(join(tmpdir(), "signet-compose-"));
  try {
    await writeFile(join(scratch, "ca"), ca);
    await writeFile(join(scratch, "example"), pair);
    const { stdout } = await run("bash", ["-euc", `${DOCKER}${filled}\necho "$TOKEN"`], {
      cwd: scratch,
      env: {
        ...compose.environment("api"),
        ...IMAGE_ENVIRONMENT,
        PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
        IMAGE: productionImage(),
        PREPARED: scratch,
      },
    });
    const lines = stdout.trimEnd().split("\n");
    return {
      answers: lines.slice(0, -1).map((line): unknown => JSON.parse(line)),
      token: lines.at(-1) ?? "",
    };
  } finally {
    await rm(scratch, { recursive: true });
  }
}
