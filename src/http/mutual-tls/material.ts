/** Keys, certificates and authorities from files, reloaded when a file changes. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Logger } from "../../observability/logger.ts";
import { metrics } from "../../observability/metrics.ts";
import { ENCRYPTED_KEY, isEncryptedKey } from "../../runtime/encrypted-key.ts";
import { watchFiles } from "../../runtime/watched-files.ts";
import { certificatesOf, readPem, readTrustAnchors, type TrustAnchors, TrustError } from "./trust.ts";

export interface MaterialFiles {
  readonly development: boolean;
  readonly clientCaFile: string;
  /** The server's own key and certificate; absent for a unix socket. */
  readonly tls?: { readonly keyFile: string; readonly certFile: string } | undefined;
  /** Authorities of the proxies. */
  readonly proxyCaFile?: string | undefined;
}

export interface Material {
  readonly clientAnchors: TrustAnchors;
  readonly proxyAnchors: TrustAnchors | undefined;
  readonly tls: { readonly key: string; readonly cert: string } | undefined;
}

export interface MaterialStore {
  current(): Material;
  /** Reloads the files. Rejects with TrustError and changes nothing if a file is unusable. */
  reload(): Promise<void>;
  close(): void;
}

async function readTls({
  keyFile,
  certFile,
}: {
  keyFile: string;
  certFile: string;
}): Promise<Material["tls"]> {
  const [key, cert] = await Promise.all([readPem(keyFile), readPem(certFile)]);
  if (isEncryptedKey(key)) {
    throw new TrustError(`${keyFile} ${ENCRYPTED_KEY}`);
  }
  let matches: boolean;
  try {
    matches = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw new TrustError(`${keyFile} and ${certFile} must be a private key and a certificate in PEM`, {
      cause: error,
    });
  }
  if (!matches) {
    throw new TrustError(`${keyFile} is not the key of ${certFile}`);
  }
  return { key, cert };
}

async function readMaterial({
  development,
  clientCaFile,
  proxyCaFile,
  tls,
}: MaterialFiles): Promise<Material> {
  return {
    clientAnchors: await readTrustAnchors(clientCaFile, { development }),
    proxyAnchors:
      proxyCaFile === undefined ? undefined : await readTrustAnchors(proxyCaFile, { development }),
    tls: tls === undefined ? undefined : await readTls(tls),
  };
}

/** Records when the first certificate of a file expires. */
function noteExpiry(file: string, certificates: readonly X509Certificate[]): void {
  const ends = certificates.map(({ validTo }) => Date.parse(validTo));
  metrics.certificateExpiry.set({ file }, Math.min(...ends) / 1_000);
}

function noteExpiries({ clientCaFile, proxyCaFile, tls }: MaterialFiles, material: Material): void {
  noteExpiry(clientCaFile, material.clientAnchors.certificates);
  if (proxyCaFile !== undefined && material.proxyAnchors !== undefined) {
    noteExpiry(proxyCaFile, material.proxyAnchors.certificates);
  }
  if (tls !== undefined && material.tls !== undefined) {
    noteExpiry(tls.certFile, certificatesOf(material.tls.cert));
  }
}

/**
 * Reads and watches the files, so that a renewed mounted secret takes effect within seconds.
 *
 * @param onChange called with new material
 * @throws TrustError if a file is unusable
 */
export async function openMaterial(
  files: MaterialFiles,
  log: Logger,
  onChange: (material: Material) => void,
): Promise<MaterialStore> {
  const paths = [files.clientCaFile, files.proxyCaFile, files.tls?.keyFile, files.tls?.certFile].filter(
    (path) => path !== undefined,
  );
  const watched = await watchFiles(
    () => paths,
    () => {
      reload().catch((error: unknown) =>
        log.error({ err: error }, "new mutual TLS key material is unusable"),
      );
    },
  );
  let current: Material;
  try {
    current = await readMaterial(files);
    noteExpiries(files, current);
  } catch (error) {
    watched.close();
    throw error;
  }

  async function reload(): Promise<void> {
    current = await readMaterial(files);
    noteExpiries(files, current);
    onChange(current);
    log.info("mutual TLS keys, certificates and authorities reloaded");
  }

  return { current: () => current, reload, close: () => watched.close() };
}
