/** Sends requests to the services of docker-compose.yml, as clients and the edge do. */
import { X509Certificate } from "node:crypto";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createTlsFetch } from "../../src/lib/client/tls-fetch.ts";
import type { ComposeRun, Place } from "./compose-run.ts";
import { shellLines } from "./documents.ts";

const run = promisify(execFile);

/** Returns a `fetch` with the client certificate that the init job has created. */
export async function clientFetch(place: Place): Promise<ReturnType<typeof createTlsFetch>> {
  const [ca, pair] = [await place.init("ca"), await place.init("client", "example")];
  return createTlsFetch({ key: pair, cert: pair, ca });
}

/** Sends a request to the api as the edge does: with the edge's certificate and a header for the client's. */
async function askAsEdge(url: string, place: Place): Promise<Response> {
  const read = async (name: string) => await readFile(join(place.volumes, "edge", name), "utf8");
  const [ca, cert, key] = [await place.init("ca"), await read("edge.crt"), await read("edge.key")];
  const client = new X509Certificate(await place.init("client", "example"));
  const headers = { "client-cert": `:${client.raw.toString("base64")}:` };
  return await createTlsFetch({ ca, cert, key })(url, { headers });
}

/** Checks the requirements beyond the services' own health checks. @throws Error if one is not met */
export async function requireReachable(
  compose: ComposeRun,
  names: readonly string[],
  place: Place,
): Promise<void> {
  for (const name of names.filter((service) => service !== "migrate")) {
    const metrics = await fetch(`${compose.reach(name, 9464)}/metrics`);
    if (!(await metrics.text()).includes("process_cpu_seconds_total")) {
      throw new Error(`${name} serves no metrics`);
    }
  }
  const origin = compose.published(8443);
  const metadata = "/.well-known/oauth-authorization-server";
  if (names.includes("api")) {
    const ask = await clientFetch(place);
    const answer = names.includes("edge")
      ? await ask(`${origin}${metadata}`, {})
      : await askAsEdge(`${compose.reach("api", 8443)}${metadata}`, place);
    const { issuer } = (await answer.json()) as { readonly issuer?: unknown };
    if (issuer !== origin) {
      throw new Error(`the issuer is ${String(issuer)}, but the published origin is ${origin}`);
    }
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
    await writeFile(join(scratch, "ca.crt"), await place.init("ca"));
    await writeFile(join(scratch, "example.pem"), await place.init("client", "example"));
    return JSON.parse((await run("bash", ["-euc", filled], { cwd: scratch })).stdout);
  } finally {
    await rm(scratch, { recursive: true });
  }
}
