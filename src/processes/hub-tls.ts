/** Key material between hubs and the processes behind them, reloaded when its files change. */
import { type Config, ConfigError } from "#config/config.ts";
import { type Material, type MaterialStore, openMaterial } from "#http/mutual-tls/material.ts";
import { TrustError } from "#http/mutual-tls/trust.ts";
import type { Logger } from "#observability/logger.ts";
import type { HubTls } from "#revocation/hub-socket.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { hubFiles } from "./certificate-files.ts";

export interface HubMaterial {
  /** Undefined in development, without files. */
  current(): HubTls | undefined;
  readonly readiness: readonly ReadinessCheck[];
  close(): void;
}

/** Opens the files of SIGNET_HUB_CA_FILE and the settings beside it. */
export async function openHubMaterial(
  config: Config,
  log: Logger,
  onChange: (tls: HubTls) => void = () => undefined,
): Promise<HubMaterial> {
  const { hubNames = [], hubRelayNames = [] } = config;
  const files = hubFiles(config);
  if (files === undefined) {
    return { current: () => undefined, readiness: [], close: () => undefined };
  }
  const tlsOf = ({ clientAnchors, tls }: Material): HubTls | undefined =>
    tls === undefined
      ? undefined
      : { ...tls, anchors: clientAnchors, names: hubNames, relays: hubRelayNames };
  let opened: MaterialStore;
  try {
    opened = await openMaterial(files, log, (material) => {
      const tls = tlsOf(material);
      if (tls !== undefined) {
        onChange(tls);
      }
    });
  } catch (error) {
    throw error instanceof TrustError ? new ConfigError([error.message]) : error;
  }
  return {
    current: () => tlsOf(opened.current()),
    readiness: [opened.readiness],
    close: () => opened.close(),
  };
}
