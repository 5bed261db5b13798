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
import type { MaterialStore } from "#http/mutual-tls/material.ts";
import { closeServer, createTlsServer } from "#http/mutual-tls/tls-listener.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { openFiles, operatorFiles } from "../certificate-files.ts";
import { handlerOf, renewTls, tlsMaterial } from "../mutual-tls.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface AdminListenerOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether a certificate is revoked; called at every request. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
}

/** Reads the TLS files; undefined if none is set. @throws ConfigError for unusable files */
async function openOperatorFiles({ config, log }: AdminListenerOptions): Promise<MaterialStore | undefined> {
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
  return await openFiles(given, log);
}

export class AdminListener {
  readonly clients: ClientIdentification;
  /** Of the files, if they are set. */
  readonly readiness: readonly ReadinessCheck[];
  readonly #config: Config;
  readonly #files: MaterialStore | undefined;
  #server: HttpsServer | undefined;

  private constructor({ config, clock, isDenied }: AdminListenerOptions, files: MaterialStore | undefined) {
    const native = files && createCertificateJudge(() => files.current().clientAnchors, clock);
    // Unlike for tenants in production, a token alone suffices here.
    this.clients = createClientIdentification({ native, production: false, isDenied });
    this.readiness = files === undefined ? [] : [files];
    this.#config = config;
    this.#files = files;
    files?.onChange((material) => renewTls(this.#server, material));
  }

  /** Prepares the listener without listening. */
  static async open(options: AdminListenerOptions): Promise<AdminListener> {
    return new AdminListener(options, await openOperatorFiles(options));
  }

  async listen(admin: SignetServer): Promise<ListenAddress> {
    const { adminListen } = this.#config;
    const material = this.#files && tlsMaterial(this.#files.current());
    if (material === undefined) {
      return await listenServer(admin, adminListen);
    }
    this.#server = createTlsServer(material, handlerOf(admin));
    return await listenOn(this.#server, adminListen);
  }

  /** Finishes the requests in progress, then closes. */
  async close(): Promise<void> {
    this.#files?.close();
    if (this.#server !== undefined) {
      await closeServer(this.#server, machineTimers);
    }
  }
}
