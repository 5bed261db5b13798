/** Keys, certificates and authorities from their files, read again when one of them changes. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Logger } from "../../observability/logger.ts";
import { metrics } from "../../observability/metrics.ts";
import { watchFiles } from "../../runtime/watched-files.ts";
import { certificatesOf, readPem, readTrustAnchors, type TrustAnchors, TrustError } from "./trust.ts";

export interface MaterialFiles {
  readonly development: boolean;
  readonly clientCaFile: string;
  /** Our own key and certificate; absent where there is only a unix socket. */
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
  /** Reads the files again; what cannot be used leaves everything as it is. Rejects with TrustError. */
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

/** Of a chain, whatever ends first ends it all. */
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
 * Reads the files and watches them; a mounted secret that is renewed takes effect within seconds.
 *
 * @param onChange what to do with new material
 * @throws TrustError when one of them cannot be used
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
        log.error({ err: error }, "new key material of mutual TLS cannot be used"),
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
    log.info("keys, certificates and authorities of mutual TLS read again");
  }

  return { current: () => current, reload, close: () => watched.close() };
}
