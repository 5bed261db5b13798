/** Settings of the edge: its upstreams and its timeouts. */
import { resolve } from "node:path";
import { alternativeNames, type MutualTlsMode } from "./mutual-tls.ts";
import { postgresUrl } from "./postgres-url.ts";
import { integer, oneOf, setting, url } from "./setting.ts";

const LONGEST_MS = 3_600_000;
const LARGEST_BODY = 1_099_511_627_776;

/** A proxy that asks the edge before it forwards a request. */
export type CheckingProxy = "envoy" | "nginx" | "traefik";

export const EDGE_SETTINGS = {
  edgeChecks: setting(
    "SIGNET_EDGE_CHECKS",
    oneOf("off", "envoy", "nginx", "traefik"),
    "off",
    "edge: answers the checks of a proxy of this kind instead of forwarding (Envoy `ext_authz`, nginx `auth_request`, Traefik ForwardAuth)",
  ),
  edgeDatabaseUrl: setting(
    "SIGNET_EDGE_DATABASE_URL",
    postgresUrl,
    undefined,
    "edge: its own PostgreSQL login, which reads public keys and revocations and cannot change to another role; created by `signet migrate`. Default: SIGNET_DATABASE_URL",
  ),
  edgeDatabaseUrlFile: setting(
    "SIGNET_EDGE_DATABASE_URL_FILE",
    resolve,
    undefined,
    "edge: file with its value, read as SIGNET_DATABASE_URL_FILE",
  ),
  edgeRoutes: setting(
    "SIGNET_EDGE_ROUTES",
    resolve,
    undefined,
    "edge: file with the route table of the data plane (docs/edge.md), reloaded when it changes; `npm start`: that of the sample data plane",
  ),
  edgeApiUrl: setting(
    "SIGNET_EDGE_API_URL",
    url("https:", "http:"),
    undefined,
    "edge: URL of the api; if unset, the edge serves only the data plane. Must be https in production",
  ),
  edgeApiCaFile: setting(
    "SIGNET_EDGE_API_CA_FILE",
    resolve,
    undefined,
    "edge: root certificates that the api's certificate must chain to, PEM",
  ),
  edgeApiNames: setting(
    "SIGNET_EDGE_API_NAMES",
    alternativeNames,
    undefined,
    "edge: permitted names, one of which the api's certificate must have, for instance `DNS:api.internal`",
  ),
  edgeKeyFile: setting(
    "SIGNET_EDGE_KEY_FILE",
    resolve,
    undefined,
    "edge: private key of its client certificate for the api, PEM",
  ),
  edgeCertFile: setting(
    "SIGNET_EDGE_CERT_FILE",
    resolve,
    undefined,
    "edge: that certificate; SIGNET_PROXY_NAMES of the api must contain its name",
  ),
  edgeConnectTimeoutMs: setting(
    "SIGNET_EDGE_CONNECT_TIMEOUT_MS",
    integer(1, LONGEST_MS),
    "2000",
    "edge: timeout for connecting to an upstream",
  ),
  edgeHeadersTimeoutMs: setting(
    "SIGNET_EDGE_HEADERS_TIMEOUT_MS",
    integer(1, LONGEST_MS),
    "60000",
    "edge: timeout for the start of an upstream's response",
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
    "edge: timeout for receiving a request with its body",
  ),
  edgeBodyLimit: setting(
    "SIGNET_EDGE_BODY_LIMIT",
    integer(0, LARGEST_BODY),
    "67108864",
    "edge: largest body to an upstream, bytes; a route can override it",
  ),
} as const;

/** The values that are checked together. */
export interface EdgeApiValues {
  readonly edgeChecks: CheckingProxy | "off";
  readonly mtlsMode: MutualTlsMode;
  readonly edgeRoutes?: string | undefined;
  readonly edgeApiUrl?: string | undefined;
  readonly edgeApiCaFile?: string | undefined;
  readonly edgeApiNames?: readonly string[] | undefined;
  readonly edgeKeyFile?: string | undefined;
  readonly edgeCertFile?: string | undefined;
}

function checkProblems({ edgeChecks, edgeApiUrl, mtlsMode }: EdgeApiValues, development: boolean): string[] {
  const problems: string[] = [];
  if (edgeChecks !== "off" && edgeApiUrl !== undefined) {
    problems.push(
      "SIGNET_EDGE_API_URL must not be set with SIGNET_EDGE_CHECKS: such an edge forwards nothing",
    );
  }
  if (edgeChecks !== "off" && !development && mtlsMode !== "proxy") {
    problems.push(
      "SIGNET_MTLS_MODE must be proxy with SIGNET_EDGE_CHECKS: the proxy forwards its client's certificate",
    );
  }
  return problems;
}

/** Returns the problems of the edge's settings. No other process needs them. */
export function edgeProblems(values: EdgeApiValues, development: boolean): string[] {
  const { edgeRoutes, edgeApiUrl, edgeApiCaFile, edgeApiNames, edgeKeyFile, edgeCertFile } = values;
  const secured = [edgeApiCaFile, edgeApiNames?.[0], edgeKeyFile, edgeCertFile];
  const problems = checkProblems(values, development);
  if (edgeApiUrl === undefined && edgeRoutes === undefined) {
    problems.push("SIGNET_EDGE_API_URL or SIGNET_EDGE_ROUTES must be set: the edge has no upstream");
  }
  if (edgeApiUrl !== undefined && new URL(edgeApiUrl).pathname !== "/") {
    problems.push("SIGNET_EDGE_API_URL must not have a path");
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
