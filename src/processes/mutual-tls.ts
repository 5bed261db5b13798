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
import { type Material, type MaterialStore, openMaterial } from "#http/mutual-tls/material.ts";
import {
  closeServer,
  createPlainServer,
  createTlsServer,
  type ListenerHandler,
  listenOnSocket,
  tlsContext,
  type TlsMaterial,
} from "#http/mutual-tls/tls-listener.ts";
import { TrustError } from "#http/mutual-tls/trust.ts";
import { TrustedProxies } from "#http/mutual-tls/trusted-proxies.ts";
import { mutualTlsProblems } from "#config/mutual-tls.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { clientFiles } from "./certificate-files.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface MutualTlsOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether a certificate is revoked; called at every request. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
}

export interface MutualTls {
  readonly clients: ClientIdentification;
  /** Of the files, if mutual TLS is on. */
  readonly readiness: readonly ReadinessCheck[];
  /** Opens the listeners of the mode; resolves with the TLS listener's address, if any. */
  listen(handler: ListenerHandler, address?: ListenAddress): Promise<ListenAddress | undefined>;
  /** Finishes the requests in progress, then closes. */
  close(): Promise<void>;
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

function tlsMaterial({ tls, clientAnchors, proxyAnchors }: Material): TlsMaterial | undefined {
  // In proxy mode, proxies connect instead of clients.
  return tls === undefined ? undefined : { ...tls, ca: (proxyAnchors ?? clientAnchors).pem };
}

/** Serves the routes of `api` on a separate listener. */
export function handlerOf(api: SignetServer): ListenerHandler {
  return {
    request: (request, response) => api.routing(request, response),
    clientError: (error, socket) => void api.server.emit("clientError", error, socket),
    timeouts: { ...HTTP_TIMEOUTS, requireHostHeader: false, keepAliveTimeout: api.server.keepAliveTimeout },
  };
}

async function openFiles(
  { config, log }: MutualTlsOptions,
  onChange: (material: Material) => void,
): Promise<MaterialStore> {
  const problems = mutualTlsProblems(config);
  const given = clientFiles(config);
  if (given === undefined || problems.length > 0) {
    throw new ConfigError(problems);
  }
  try {
    return await openMaterial(given, log, onChange);
  } catch (error) {
    const hint = config.development ? "; `signet dev-ca init` creates the files for development" : "";
    throw error instanceof TrustError ? new ConfigError([`${error.message}${hint}`]) : error;
  }
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

/** Prepares the mode's parts without listening. */
export async function openMutualTls(options: MutualTlsOptions): Promise<MutualTls> {
  const { config } = options;
  const localSockets = new WeakSet<Socket>();
  let tlsServer: HttpsServer | undefined;
  let socketServer: Server | undefined;
  const files =
    config.mtlsMode === "off"
      ? undefined
      : await openFiles(options, (material) => {
          const renewed = tlsMaterial(material);
          if (renewed !== undefined) {
            tlsServer?.setSecureContext(tlsContext(renewed));
          }
        });

  return {
    clients: identification(options, files, (socket) => localSockets.has(socket)),
    readiness: files === undefined ? [] : [files.readiness],
    listen: async (handler, address = config.edgeListen) => {
      const material = files === undefined ? undefined : tlsMaterial(files.current());
      if (config.mtlsMode === "proxy" && config.proxySocket !== undefined) {
        socketServer = createPlainServer(handler);
        socketServer.on("connection", (socket) => localSockets.add(socket));
        await listenOnSocket(socketServer, config.proxySocket);
      }
      if (material === undefined) {
        return undefined;
      }
      tlsServer = createTlsServer(material, handler);
      return await listenOn(tlsServer, address, config.edgeListenShared === "on");
    },
    close: async () => {
      files?.close();
      const open = [tlsServer, socketServer].filter((server) => server !== undefined);
      await Promise.all(open.map(async (server) => await closeServer(server, machineTimers)));
    },
  };
}
