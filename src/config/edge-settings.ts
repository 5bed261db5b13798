/** Settings of the edge: what it stands before, and how long it waits. */
import { resolve } from "node:path";
import { alternativeNames } from "./mutual-tls.ts";
import { integer, postgresUrl, setting, url } from "./setting.ts";

const LONGEST_MS = 3_600_000;
const LARGEST_BODY = 1_099_511_627_776;

export const EDGE_SETTINGS = {
  edgeDatabaseUrl: setting(
    "SIGNET_EDGE_DATABASE_URL",
    postgresUrl,
    undefined,
    "edge: PostgreSQL login of its own, which sees public keys and revocations and may become no other role; `signet migrate` makes it. Default: SIGNET_DATABASE_URL",
  ),
  edgeRoutes: setting(
    "SIGNET_EDGE_ROUTES",
    resolve,
    undefined,
    "edge: file with the route table of the data plane (docs/edge.md), read again when it changes; `npm start`: that of the sample data plane",
  ),
  edgeApiUrl: setting(
    "SIGNET_EDGE_API_URL",
    url("https:", "http:"),
    undefined,
    "edge: where it reaches the api; unset, it serves the data plane alone. Production needs https",
  ),
  edgeApiCaFile: setting(
    "SIGNET_EDGE_API_CA_FILE",
    resolve,
    undefined,
    "edge: root certificates that the api's certificate must lead to, PEM",
  ),
  edgeApiNames: setting(
    "SIGNET_EDGE_API_NAMES",
    alternativeNames,
    undefined,
    "edge: names of which the api's certificate must have one, for instance `DNS:api.internal`",
  ),
  edgeKeyFile: setting(
    "SIGNET_EDGE_KEY_FILE",
    resolve,
    undefined,
    "edge: private key of the certificate that it shows the api, PEM",
  ),
  edgeCertFile: setting(
    "SIGNET_EDGE_CERT_FILE",
    resolve,
    undefined,
    "edge: that certificate; the api names it in SIGNET_PROXY_NAMES",
  ),
  edgeConnectTimeoutMs: setting(
    "SIGNET_EDGE_CONNECT_TIMEOUT_MS",
    integer(1, LONGEST_MS),
    "2000",
    "edge: time to reach an upstream",
  ),
  edgeHeadersTimeoutMs: setting(
    "SIGNET_EDGE_HEADERS_TIMEOUT_MS",
    integer(1, LONGEST_MS),
    "60000",
    "edge: time an upstream has to begin its answer",
  ),
  edgeIdleTimeoutMs: setting(
    "SIGNET_EDGE_IDLE_TIMEOUT_MS",
    integer(1, LONGEST_MS),
    "60000",
    "edge: longest pause within a body, in either direction",
  ),
  edgeRequestTimeoutMs: setting(
    "SIGNET_EDGE_REQUEST_TIMEOUT_MS",
    integer(1_000, LONGEST_MS),
    "300000",
    "edge: time that a request has to arrive, body included",
  ),
  edgeBodyLimit: setting(
    "SIGNET_EDGE_BODY_LIMIT",
    integer(0, LARGEST_BODY),
    "67108864",
    "edge: largest body to an upstream, bytes; a route of the table may say another",
  ),
} as const;

/** The values of the settings that belong together. */
export interface EdgeApiValues {
  readonly edgeRoutes?: string | undefined;
  readonly edgeApiUrl?: string | undefined;
  readonly edgeApiCaFile?: string | undefined;
  readonly edgeApiNames?: readonly string[] | undefined;
  readonly edgeKeyFile?: string | undefined;
  readonly edgeCertFile?: string | undefined;
}

/** What the edge process lacks; no other process needs it. */
export function edgeProblems(values: EdgeApiValues, development: boolean): string[] {
  const { edgeRoutes, edgeApiUrl, edgeApiCaFile, edgeApiNames, edgeKeyFile, edgeCertFile } = values;
  const secured = [edgeApiCaFile, edgeApiNames?.[0], edgeKeyFile, edgeCertFile];
  const problems: string[] = [];
  if (edgeApiUrl === undefined && edgeRoutes === undefined) {
    problems.push("SIGNET_EDGE_API_URL or SIGNET_EDGE_ROUTES must be set: there is nothing behind the edge");
  }
  if (edgeApiUrl !== undefined && new URL(edgeApiUrl).pathname !== "/") {
    problems.push("SIGNET_EDGE_API_URL must end after the host and the port");
  }
  if (edgeApiUrl?.startsWith("https:") === true && secured.includes(undefined)) {
    problems.push(
      "SIGNET_EDGE_API_URL with https needs SIGNET_EDGE_API_CA_FILE, SIGNET_EDGE_API_NAMES, SIGNET_EDGE_KEY_FILE and SIGNET_EDGE_CERT_FILE",
    );
  }
  if (!development && edgeApiUrl?.startsWith("http:") === true) {
    problems.push("SIGNET_EDGE_API_URL must be https in production");
  }
  return problems;
}
