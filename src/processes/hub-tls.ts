/** Key material between hubs and the processes behind them, reloaded when its files change. */
import { type Config, ConfigError } from "../config/config.ts";
import { type Material, type MaterialStore, openMaterial } from "../http/mutual-tls/material.ts";
import { TrustError } from "../http/mutual-tls/trust.ts";
import type { Logger } from "../observability/logger.ts";
import type { HubTls } from "../revocation/hub-socket.ts";

export interface HubMaterial {
  /** Undefined in development, without files. */
  current(): HubTls | undefined;
  close(): void;
}

/** Opens the files of SIGNET_HUB_CA_FILE and the settings beside it. */
export async function openHubMaterial(
  config: Config,
  log: Logger,
  onChange: (tls: HubTls) => void = () => undefined,
): Promise<HubMaterial> {
  const { development, hubCaFile, hubKeyFile, hubCertFile, hubNames = [], hubRelayNames = [] } = config;
  if (hubCaFile === undefined || hubKeyFile === undefined || hubCertFile === undefined) {
    return { current: () => undefined, close: () => undefined };
  }
  const tlsOf = ({ clientAnchors, tls }: Material): HubTls | undefined =>
    tls === undefined ? undefined : { ...tls, ca: clientAnchors.pem, names: hubNames, relays: hubRelayNames };
  const files = { keyFile: hubKeyFile, certFile: hubCertFile };
  let opened: MaterialStore;
  try {
    opened = await openMaterial({ development, clientCaFile: hubCaFile, tls: files }, log, (material) => {
      const tls = tlsOf(material);
      if (tls !== undefined) {
        onChange(tls);
      }
    });
  } catch (error) {
    throw error instanceof TrustError ? new ConfigError([error.message]) : error;
  }
  return { current: () => tlsOf(opened.current()), close: () => opened.close() };
}
