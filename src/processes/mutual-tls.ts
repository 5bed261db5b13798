/** Mutual TLS of a process: identification of clients, and the listeners for them or their proxies. */
import type { Server } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import { HTTP_TIMEOUTS } from "#http/server.ts";
import { AddressSet } from "#runtime/address-set.ts";
import type { SignetServer } from "#http/types.ts";
import { type Config, ConfigError, type ListenAddress } from "#config/config.ts";
import type { Clock } from "#domain/clock.ts";
import { listenOn } from "#runtime/http-server.ts";
import { createCertificateJudge } from "#http/mutual-tls/certificate-judge.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import {
  type ClientIdentification,
  createClientIdentification,
} from "#http/mutual-tls/client-identification.ts";
import type { Material, MaterialStore } from "#http/mutual-tls/material.ts";
import {
  closeServer,
  createPlainServer,
  createTlsServer,
  type ListenerHandler,
  listenOnSocket,
  tlsContext,
  type TlsMaterial,
} from "#http/mutual-tls/tls-listener.ts";
import { TrustedProxies } from "#http/mutual-tls/trusted-proxies.ts";
import { mutualTlsProblems } from "#config/mutual-tls.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { clientFiles, openFiles } from "./certificate-files.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface MutualTlsOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether a certificate is revoked; called at every request. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
}

/** What an edge in the api's process stands in front of. */
export interface BehindEdge {
  /** The api's, whose listeners become the edge's. So both know the same clients. */
  readonly mutualTls: MutualTls;
  /** Serves the api's own paths. */
  readonly handler: ListenerHandler;
}

/** Starts an edge in the api's process. Resolves with its address. */
export type Front = (behind: BehindEdge) => Promise<ListenAddress>;

/** Opens the api's mutual TLS listener, or the edge that has it. Resolves with its address, if any. */
export async function listenForClients(
  behind: BehindEdge,
  {
    front,
    mutualTlsListen: address,
  }: { readonly front?: Front | undefined; readonly mutualTlsListen?: ListenAddress | undefined },
): Promise<ListenAddress | undefined> {
  return front === undefined ? await behind.mutualTls.listen(behind.handler, address) : await front(behind);
}

/** Returns what a listener presents, and the authorities of its clients. */
export function tlsMaterial({ tls, clientAnchors, proxyAnchors }: Material): TlsMaterial | undefined {
  // In proxy mode, proxies connect instead of clients.
  return tls && { ...tls, ca: (proxyAnchors ?? clientAnchors).pem };
}

/** Uses new material for the next connections of a listener. */
export function renewTls(server: HttpsServer | undefined, material: Material): void {
  const renewed = tlsMaterial(material);
  if (renewed !== undefined) {
    server?.setSecureContext(tlsContext(renewed));
  }
}

/** Serves the routes of `api` on a separate listener. */
export function handlerOf(api: SignetServer): ListenerHandler {
  return {
    request: (request, response) => api.routing(request, response),
    clientError: (error, socket) => void api.server.emit("clientError", error, socket),
    timeouts: { ...HTTP_TIMEOUTS, requireHostHeader: false, keepAliveTimeout: api.server.keepAliveTimeout },
  };
}

async function openClientFiles({ config, log }: MutualTlsOptions): Promise<MaterialStore> {
  const problems = mutualTlsProblems(config);
  const given = clientFiles(config);
  if (given === undefined || problems.length > 0) {
    throw new ConfigError(problems);
  }
  const hint = config.development ? "; `signet dev-ca init` creates the files for development" : "";
  return await openFiles(given, log, hint);
}

function identification(
  { config, clock, isDenied }: MutualTlsOptions,
  files: MaterialStore | undefined,
  isLocalSocket: (socket: Socket) => boolean,
): ClientIdentification {
  const common = { production: !config.development, isDenied };
  if (files === undefined) {
    return createClientIdentification(common);
  }
  const judgeClient = createCertificateJudge(() => files.current().clientAnchors, clock);
  if (config.mtlsMode === "native") {
    return createClientIdentification({ ...common, native: judgeClient });
  }
  const proxies = new TrustedProxies({
    addresses: new AddressSet(config.trustedProxies ?? []),
    names: config.proxyNames ?? [],
    isLocalSocket,
    forwardedHeader: config.forwardedHeader,
    judgeProxy: createCertificateJudge(() => files.current().proxyAnchors, clock),
    isDenied,
    judgeClient,
  });
  return createClientIdentification({ ...common, proxies });
}

/** The parts of the mode. */
export class MutualTls {
  readonly clients: ClientIdentification;
  /** Of the files, if mutual TLS is on. */
  readonly readiness: readonly ReadinessCheck[];
  readonly #config: Config;
  readonly #files: MaterialStore | undefined;
  readonly #localSockets = new WeakSet<Socket>();
  #tlsServer: HttpsServer | undefined;
  #socketServer: Server | undefined;

  private constructor(options: MutualTlsOptions, files: MaterialStore | undefined) {
    this.clients = identification(options, files, (socket) => this.#localSockets.has(socket));
    this.readiness = files === undefined ? [] : [files];
    this.#config = options.config;
    this.#files = files;
    files?.onChange((material) => renewTls(this.#tlsServer, material));
  }

  /** Prepares them without listening. @throws ConfigError for unusable files */
  static async open(options: MutualTlsOptions): Promise<MutualTls> {
    const isOn = options.config.mtlsMode !== "off";
    return new MutualTls(options, isOn ? await openClientFiles(options) : undefined);
  }

  /** Opens the listeners of the mode; resolves with the TLS listener's address, if any. */
  async listen(handler: ListenerHandler, given?: ListenAddress): Promise<ListenAddress | undefined> {
    const { mtlsMode, proxySocket, edgeListen, edgeListenShared } = this.#config;
    const material = this.#files && tlsMaterial(this.#files.current());
    if (mtlsMode === "proxy" && proxySocket !== undefined) {
      this.#socketServer = createPlainServer(handler);
      this.#socketServer.on("connection", (socket) => this.#localSockets.add(socket));
      await listenOnSocket(this.#socketServer, proxySocket);
    }
    if (material === undefined) {
      return undefined;
    }
    this.#tlsServer = createTlsServer(material, handler);
    return await listenOn(this.#tlsServer, given ?? edgeListen, edgeListenShared === "on");
  }

  /** Finishes the requests in progress, then closes. */
  async close(): Promise<void> {
    this.#files?.close();
    const open = [this.#tlsServer, this.#socketServer].filter((server) => server !== undefined);
    await Promise.all(open.map(async (server) => await closeServer(server, machineTimers)));
  }
}
