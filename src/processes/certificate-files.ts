/** The files of keys, certificates and authorities in the settings. */
import { type Config, ConfigError } from "#config/config.ts";
import { type MaterialFiles, MaterialStore } from "#http/mutual-tls/material.ts";
import { TrustError } from "#http/mutual-tls/trust.ts";
import type { Logger } from "#observability/logger.ts";
import type { HubTls } from "#revocation/hub-socket.ts";

/** Returns the files of the listener for clients or their proxies, if mutual TLS is on. */
export function clientFiles(config: Config): MaterialFiles | undefined {
  const { development, mtlsMode, clientCaFile, tlsKeyFile: keyFile, tlsCertFile: certFile } = config;
  if (mtlsMode === "off" || clientCaFile === undefined) {
    return undefined;
  }
  return {
    name: "certificates",
    development,
    clientCaFile,
    tls: keyFile === undefined || certFile === undefined ? undefined : { keyFile, certFile },
    proxyCaFile: mtlsMode === "proxy" ? config.proxyCaFile : undefined,
  };
}

function filesOf(
  name: string,
  { development }: Config,
  { ca, key, cert }: Readonly<Record<"ca" | "key" | "cert", string | undefined>>,
): MaterialFiles | undefined {
  return ca === undefined || key === undefined || cert === undefined
    ? undefined
    : { name, development, clientCaFile: ca, tls: { keyFile: key, certFile: cert } };
}

/** Returns the files of the operators' listener, if all are set. */
export function operatorFiles(config: Config): MaterialFiles | undefined {
  const { adminTlsKeyFile: key, adminTlsCertFile: cert, adminTlsClientCaFile: ca } = config;
  return filesOf("operator_certificates", config, { ca, key, cert });
}

/** Returns the files between hubs and the processes behind them, if all are set. */
export function hubFiles(config: Config): MaterialFiles | undefined {
  const { hubCaFile: ca, hubKeyFile: key, hubCertFile: cert } = config;
  return filesOf("hub_certificates", config, { ca, key, cert });
}

/** Returns the files of an edge's connections to the api, if all are set. */
export function apiFiles(config: Config): MaterialFiles | undefined {
  const { edgeApiCaFile: ca, edgeKeyFile: key, edgeCertFile: cert } = config;
  return filesOf("api_certificates", config, { ca, key, cert });
}

/** Opens files. @param hint added to the message. @throws ConfigError for unusable files */
export async function openFiles(files: MaterialFiles, log: Logger, hint = ""): Promise<MaterialStore> {
  try {
    return await MaterialStore.open(files, log);
  } catch (error) {
    throw error instanceof TrustError ? new ConfigError([`${error.message}${hint}`]) : error;
  }
}

/** Opens the files between hubs and the processes behind them; none in development. */
export async function openHubFiles(config: Config, log: Logger): Promise<MaterialStore | undefined> {
  const files = hubFiles(config);
  return files && (await openFiles(files, log));
}

/** Returns the key material of connections between hubs now; undefined without files. */
export function hubTls(config: Config, files: MaterialStore | undefined): HubTls | undefined {
  const { hubNames: names = [], hubRelayNames: relays = [] } = config;
  const { tls, clientAnchors: anchors } = files?.current() ?? {};
  return tls && anchors && { ...tls, anchors, names, relays };
}
