/** Certificates for mutual TLS under `npm start`: the development CA, created at the first start, and one for the demo. */
import { type Config, formatListen } from "#config/config.ts";
import type { MutualTlsAccess } from "./demo/edge-demo.ts";
import { openDevelopmentCa } from "#http/mutual-tls/dev-ca.ts";
import { developmentCaDirectory } from "#config/mutual-tls.ts";

/** The SPIFFE id that the demo's credential registers. */
export const DEMO_SPIFFE_ID = "spiffe://signet.development/demo";

/** Creates missing files; does nothing if the service has its own certificates, or no mutual TLS. */
export async function openDevelopmentCertificates(
  config: Config,
  nowMs: number,
): Promise<MutualTlsAccess | undefined> {
  const directory = developmentCaDirectory(config.home);
  if (
    !config.development ||
    config.mtlsMode !== "native" ||
    config.clientCaFile?.startsWith(directory) !== true
  ) {
    return undefined;
  }
  const ca = await openDevelopmentCa({ directory, nowMs });
  const client = await ca.client("demo", DEMO_SPIFFE_ID);
  return {
    baseUrl: `https://${formatListen(config.edgeListen)}`,
    caFile: ca.caFile,
    certFile: client.certFile,
    keyFile: client.keyFile,
  };
}
