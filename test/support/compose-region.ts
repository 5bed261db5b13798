/** What the services of docker-compose.yml reach outside: a data plane behind the second region's edge, and a receiver. */
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { listenOn } from "../../src/runtime/http-server.ts";
import { newRoot, serverPair } from "./certificates.ts";
import type { ComposeFile, Variables } from "./compose-file.ts";
import type { Place } from "./compose-run.ts";
import { type Receiver, startReceiver } from "./receiver-server.ts";

export interface DataPlane {
  /** A route table with `GET /v1/data`, for tokens with the scope `webhooks:read`. */
  readonly routesFile: string;
  close(): void;
}

/** Starts a data plane that answers everything. */
export async function startDataPlane({ volumes }: Place): Promise<DataPlane> {
  const server = createServer((_request, response) => response.end("done"));
  const { port } = await listenOn(server, { host: "127.0.0.1", port: 0 });
  const routesFile = join(volumes, "routes.json");
  const upstream = { url: `http://127.0.0.1:${port}`, identity_key: Buffer.alloc(32, 7).toString("base64") };
  const route = { method: "GET", path: "/v1/data", scope: "webhooks:read", upstream: "data" };
  await writeFile(routesFile, JSON.stringify({ upstreams: { data: upstream }, routes: [route] }));
  return { routesFile, close: () => void server.close() };
}

/** Starts a receiver over TLS. A worker with the variables trusts its CA. */
export async function startTrustedReceiver({
  volumes,
}: Place): Promise<{ readonly receiver: Receiver; readonly variables: Variables }> {
  const root = await newRoot("Receivers");
  const rootFile = join(volumes, "receivers.crt");
  await writeFile(rootFile, root.cert);
  return {
    receiver: await startReceiver({ tls: await serverPair(root) }),
    variables: { NODE_EXTRA_CA_CERTS: rootFile },
  };
}

/** Returns the file with further variables of services, as an override file adds them. */
export function withVariables(file: ComposeFile, added: Readonly<Record<string, Variables>>): ComposeFile {
  const services = Object.entries(added).map(([name, variables]) => {
    const { [name]: service = {} } = file.services;
    return [name, { ...service, environment: { ...service.environment, ...variables } }] as const;
  });
  return { ...file, services: { ...file.services, ...Object.fromEntries(services) } };
}
