/** Settings of mutual TLS, and the checks of their combinations. */
import { join, resolve } from "node:path";
import { cidrs, formatListen, list, oneOf, setting, url } from "./setting.ts";
import type { ListenAddress } from "#runtime/http-server.ts";

const MODES = ["native", "proxy", "off"] as const;

/** How the service receives clients' certificates. */
export type MutualTlsMode = (typeof MODES)[number];

/** Parses comma-separated subject alternative names, each with its kind. */
export function alternativeNames(value: string): readonly string[] {
  const names = list(value);
  if (!names.every((name) => /^(DNS|URI):\S+$/.test(name))) {
    throw new Error(
      "must be names such as DNS:edge.internal or URI:spiffe://example/edge, separated by commas",
    );
  }
  return names;
}

export const MUTUAL_TLS_SETTINGS = {
  edgeListenShared: setting(
    "SIGNET_EDGE_LISTEN_SHARED",
    oneOf("on", "off"),
    "off",
    "whether several processes of one user may listen on SIGNET_EDGE_LISTEN (SO_REUSEPORT; Linux): the kernel spreads connections over them, so that one can be replaced while another serves",
  ),
  mtlsMode: setting(
    "SIGNET_MTLS_MODE",
    oneOf(...MODES),
    undefined,
    "`native`: clients connect to SIGNET_EDGE_LISTEN by mutual TLS; `proxy`: a proxy terminates their mutual TLS; `off`: development only. Production and `npm start`: native",
  ),
  mtlsUrl: setting(
    "SIGNET_MTLS_URL",
    url("https:"),
    undefined,
    "URL at which tenants reach mutual TLS, if not SIGNET_PUBLIC_URL; published in the metadata",
  ),
  tlsKeyFile: setting(
    "SIGNET_TLS_KEY_FILE",
    resolve,
    undefined,
    "private key of the mutual TLS listener, PEM; this file and the next two are reloaded when they change. Development: the dev CA's",
  ),
  tlsCertFile: setting(
    "SIGNET_TLS_CERT_FILE",
    resolve,
    undefined,
    "its certificate, followed by the intermediate certificates",
  ),
  clientCaFile: setting(
    "SIGNET_CLIENT_CA_FILE",
    resolve,
    undefined,
    "root certificates of the CAs that issue clients' certificates, PEM",
  ),
  trustedProxies: setting(
    "SIGNET_TRUSTED_PROXIES",
    cidrs,
    undefined,
    "mode `proxy`: address ranges of the proxies, comma-separated; the proxies connect to SIGNET_EDGE_LISTEN by mutual TLS",
  ),
  proxyCaFile: setting(
    "SIGNET_PROXY_CA_FILE",
    resolve,
    undefined,
    "mode `proxy`: root certificates of the proxies' own certificates, PEM",
  ),
  proxyNames: setting(
    "SIGNET_PROXY_NAMES",
    alternativeNames,
    undefined,
    "mode `proxy`: permitted names, one of which a proxy's certificate must have, for instance `URI:spiffe://example/edge`",
  ),
  proxySocket: setting(
    "SIGNET_PROXY_SOCKET",
    resolve,
    undefined,
    "mode `proxy`: unix socket for a proxy on the same machine; any process that can open it is trusted as a proxy",
  ),
  forwardedHeader: setting(
    "SIGNET_FORWARDED_HEADER",
    oneOf("x-forwarded-for", "forwarded"),
    "x-forwarded-for",
    "mode `proxy`: header in which the proxies report the client's address",
  ),
} as const;

/** The values of these settings. */
export interface MutualTlsValues {
  readonly mtlsMode: MutualTlsMode;
  readonly tlsKeyFile?: string | undefined;
  readonly tlsCertFile?: string | undefined;
  readonly clientCaFile?: string | undefined;
  readonly proxyCaFile?: string | undefined;
  readonly proxySocket?: string | undefined;
  readonly proxyNames?: readonly string[] | undefined;
  readonly trustedProxies?: readonly string[] | undefined;
}

type Files = Pick<MutualTlsValues, "mtlsMode" | "tlsKeyFile" | "tlsCertFile" | "clientCaFile">;

/** Returns the directory of the development CA's files. */
export function developmentCaDirectory(home: string): string {
  return join(home, "dev-ca");
}

/** Returns the mode and the files. In development, the files default to those of the development CA. */
export function resolveMutualTls(
  values: { readonly [Name in keyof Files]?: Files[Name] | undefined } & { readonly home: string },
  development: boolean,
): Files {
  const { tlsKeyFile, tlsCertFile, clientCaFile } = values;
  const mtlsMode = values.mtlsMode ?? (development ? "off" : "native");
  const none = tlsKeyFile === undefined && tlsCertFile === undefined && clientCaFile === undefined;
  if (!development || mtlsMode !== "native" || !none) {
    return { mtlsMode, tlsKeyFile, tlsCertFile, clientCaFile };
  }
  const directory = developmentCaDirectory(values.home);
  return {
    mtlsMode,
    tlsKeyFile: join(directory, "server.key"),
    tlsCertFile: join(directory, "server.crt"),
    clientCaFile: join(directory, "ca.crt"),
  };
}

/** Returns the URL at which tenants reach mutual TLS, if not the public address. */
export function mutualTlsAddress(config: {
  readonly development: boolean;
  readonly mtlsMode: MutualTlsMode;
  readonly mtlsUrl?: string | undefined;
  readonly edgeListen: ListenAddress;
}): string | undefined {
  const own = `https://${formatListen(config.edgeListen)}`;
  return config.mtlsUrl ?? (config.development && config.mtlsMode === "native" ? own : undefined);
}

function missing(mode: MutualTlsMode, files: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(files)
    .filter(([, path]) => path === undefined)
    .map(([variable]) => `${variable} must be set where SIGNET_MTLS_MODE is ${mode}`);
}

function proxyProblems(values: MutualTlsValues): string[] {
  const { clientCaFile, proxySocket, tlsKeyFile, tlsCertFile, proxyCaFile, proxyNames, trustedProxies } =
    values;
  const overTls = [tlsKeyFile, tlsCertFile, proxyCaFile, proxyNames?.[0], trustedProxies?.[0]];
  const given = overTls.filter((value) => value !== undefined).length;
  const incomplete = given < overTls.length && (given > 0 || proxySocket === undefined);
  return [
    ...missing("proxy", { SIGNET_CLIENT_CA_FILE: clientCaFile }),
    ...(incomplete
      ? [
          "SIGNET_MTLS_MODE=proxy needs SIGNET_PROXY_SOCKET, or all of SIGNET_TLS_KEY_FILE, SIGNET_TLS_CERT_FILE, SIGNET_PROXY_CA_FILE, SIGNET_PROXY_NAMES and SIGNET_TRUSTED_PROXIES",
        ]
      : []),
  ];
}

/** Returns the settings that the api process lacks for the selected mode. No other process needs them. */
export function mutualTlsProblems(values: MutualTlsValues): string[] {
  if (values.mtlsMode === "off") {
    return [];
  }
  if (values.mtlsMode === "proxy") {
    return proxyProblems(values);
  }
  return missing("native", {
    SIGNET_TLS_KEY_FILE: values.tlsKeyFile,
    SIGNET_TLS_CERT_FILE: values.tlsCertFile,
    SIGNET_CLIENT_CA_FILE: values.clientCaFile,
  });
}
