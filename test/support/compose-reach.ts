/** Sends requests to the services of docker-compose.yml, as clients and the edge do. */
import { X509Certificate } from "node:crypto";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { createTlsFetch } from "../../src/lib/client/tls-fetch.ts";
import type { ComposeRun, Place } from "./compose-run.ts";
import { shellLines } from "./documents.ts";

const run = promisify(execFile);

/** An answer of the API. */
export interface Json {
  readonly [member: string]: unknown;
}

/** Calls the API, and expects success. */
export async function call(
  tls: ReturnType<typeof createTlsFetch>,
  url: string,
  token: string | undefined,
  body?: Json,
): Promise<Json> {
  const response = await tls(url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Json;
  expect(response.ok, JSON.stringify(answer)).toBe(true);
  return answer;
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
