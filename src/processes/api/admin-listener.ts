/** The operators' listener: plain HTTP, or TLS with client certificates if its files are set. */
import type { Server as HttpsServer } from "node:https";
import { listenServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { type Config, ConfigError, type ListenAddress } from "#config/config.ts";
import type { Clock } from "#domain/clock.ts";
import { listenOn } from "#runtime/http-server.ts";
import {
  type ClientIdentification,
  createClientIdentification,
} from "#http/mutual-tls/client-identification.ts";
import { createCertificateJudge } from "#http/mutual-tls/certificate-judge.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { type Material, type MaterialStore, openMaterial } from "#http/mutual-tls/material.ts";
import { closeServer, createTlsServer, tlsContext, type TlsMaterial } from "#http/mutual-tls/tls-listener.ts";
import { TrustError } from "#http/mutual-tls/trust.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { operatorFiles } from "../certificate-files.ts";
import { handlerOf } from "../mutual-tls.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface AdminListenerOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether a certificate is revoked; called at every request. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
}

export interface AdminListener {
  readonly clients: ClientIdentification;
  /** Of the files, if they are set. */
  readonly readiness: readonly ReadinessCheck[];
  listen(admin: SignetServer): Promise<ListenAddress>;
  /** Finishes the requests in progress, then closes. */
  close(): Promise<void>;
}

function tlsMaterial({ tls, clientAnchors }: Material): TlsMaterial | undefined {
  return tls === undefined ? undefined : { ...tls, ca: clientAnchors.pem };
}

/** Reads the TLS files; undefined if none is set. @throws ConfigError for unusable files */
async function openFiles(
  { config, log }: AdminListenerOptions,
  onChange: (material: Material) => void,
): Promise<MaterialStore | undefined> {
  const { adminTlsKeyFile: keyFile, adminTlsCertFile: certFile, adminTlsClientCaFile: clientCaFile } = config;
  if (keyFile === undefined && certFile === undefined && clientCaFile === undefined) {
    return undefined;
  }
  const given = operatorFiles(config);
  if (given === undefined) {
    throw new ConfigError([
      "SIGNET_ADMIN_TLS_KEY_FILE, SIGNET_ADMIN_TLS_CERT_FILE and SIGNET_ADMIN_TLS_CLIENT_CA_FILE must be set together",
    ]);
  }
  try {
    return await openMaterial(given, log, onChange);
  } catch (error) {
    throw error instanceof TrustError ? new ConfigError([error.message]) : error;
  }
}

/** Prepares the listener without listening. */
export async function openAdminListener(options: AdminListenerOptions): Promise<AdminListener> {
  const { config, clock, isDenied } = options;
  let server: HttpsServer | undefined;
  const files = await openFiles(options, (material) => {
    const renewed = tlsMaterial(material);
    if (renewed !== undefined) {
      server?.setSecureContext(tlsContext(renewed));
    }
  });
  const native = files && createCertificateJudge(() => files.current().clientAnchors, clock);

  return {
    // Unlike for tenants in production, a token alone suffices here.
    clients: createClientIdentification({ native, production: false, isDenied }),
    readiness: files === undefined ? [] : [files.readiness],
    listen: async (admin) => {
      const material = files === undefined ? undefined : tlsMaterial(files.current());
      if (material !== undefined) {
        server = createTlsServer(material, handlerOf(admin));
        return await listenOn(server, config.adminListen);
      }
      return await listenServer(admin, config.adminListen);
    },
    close: async () => {
      files?.close();
      if (server !== undefined) {
        await closeServer(server, machineTimers);
      }
    },
  };
}
