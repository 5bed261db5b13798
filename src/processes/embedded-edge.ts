/**
 * The edge of `npm start`: in front of everything on SIGNET_EDGE_LISTEN, with a small data plane to try scopes. The
 * api is behind it as in production: mutual TLS with a pinned name, the client's certificate in a header.
 */
import { type Config, formatListen, type ListenAddress, processEnvironment } from "#config/config.ts";
import { startSampleDataPlane } from "./demo/data-plane.ts";
import { openDevelopmentCa, type DevelopmentCa, type KeyPairFiles } from "#http/mutual-tls/dev-ca.ts";
import type { Logger } from "#observability/logger.ts";
import { developmentCaDirectory } from "#config/mutual-tls.ts";
import { type EdgeProcess, startEdge } from "./edge.ts";

/** The name of the embedded edge's certificate, which the api pins. */
const EDGE_SPIFFE_ID = "spiffe://signet.development/edge";
/** The name of the development CA's server certificate, which the edge pins. */
const API_NAME = "DNS:localhost";
const ANY_PORT: ListenAddress = { host: "127.0.0.1", port: 0 };

type ReadyConfig = Config & { readonly databaseUrl: string; readonly temporalAddress: string };

/** Settings of an api behind the embedded edge, and of the edge to reach it. */
export interface EdgeLink {
  /** Settings of the api. */
  readonly config: ReadyConfig;
  /** Address of its mutual TLS listener, if any. */
  readonly mutualTlsListen: ListenAddress | undefined;
  readonly ca: DevelopmentCa | undefined;
  readonly certificate: KeyPairFiles | undefined;
}

/** Decides the order of edge and api. In production each process is started separately. */
export async function prepareEdgeLink(config: ReadyConfig, nowMs: number): Promise<EdgeLink | undefined> {
  if (!config.development) {
    return undefined;
  }
  if (config.mtlsMode === "off") {
    return { config, mutualTlsListen: undefined, ca: undefined, certificate: undefined };
  }
  const ca = await openDevelopmentCa({ directory: developmentCaDirectory(config.home), nowMs });
  return {
    config: {
      ...config,
      mtlsMode: "proxy",
      mtlsUrl: config.mtlsUrl ?? `https://${formatListen(config.edgeListen)}`,
      tlsKeyFile: ca.server.keyFile,
      tlsCertFile: ca.server.certFile,
      proxyCaFile: ca.caFile,
      proxyNames: [`URI:${EDGE_SPIFFE_ID}`],
      trustedProxies: ["127.0.0.1/32"],
      forwardedHeader: "x-forwarded-for",
      proxySocket: undefined,
    },
    mutualTlsListen: ANY_PORT,
    ca,
    certificate: await ca.client("edge", EDGE_SPIFFE_ID),
  };
}

export interface EmbeddedEdgeOptions {
  readonly config: ReadyConfig;
  readonly link: EdgeLink;
  /** The api's mutual TLS listener, and the plain one. */
  readonly api: { readonly edgeAddress: ListenAddress | undefined; readonly publicAddress: ListenAddress };
  readonly log: Logger;
}

/** Starts the edge, and the sample data plane unless a route table exists. */
export async function startEmbeddedEdge(
  options: EmbeddedEdgeOptions,
): Promise<Pick<EdgeProcess, "readiness" | "close">> {
  const { config, link, api, log } = options;
  const sample = config.edgeRoutes === undefined ? await startSampleDataPlane(config.home) : undefined;
  const { edgeAddress, publicAddress } = api;
  const { ca, certificate } = link;
  const secured =
    ca === undefined || certificate === undefined || edgeAddress === undefined
      ? { edgeApiUrl: `http://${formatListen(publicAddress)}` }
      : {
          edgeApiUrl: `https://${formatListen(edgeAddress)}`,
          edgeApiCaFile: ca.caFile,
          edgeApiNames: [API_NAME],
          edgeKeyFile: certificate.keyFile,
          edgeCertFile: certificate.certFile,
        };
  try {
    const edge = await startEdge({
      config: { ...config, ...secured, edgeRoutes: sample?.routesFile ?? config.edgeRoutes },
      environment: processEnvironment(),
      log,
    });
    return {
      readiness: edge.readiness,
      close: async () => {
        await edge.close();
        await sample?.close();
      },
    };
  } catch (error) {
    await sample?.close();
    throw error;
  }
}
