/** Keys, certificates and authorities from files, reloaded when a file changes. */
import { createPrivateKey, type X509Certificate } from "node:crypto";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { ENCRYPTED_KEY, isEncryptedKey } from "#runtime/encrypted-key.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { messageOf } from "#runtime/thrown.ts";
import { watchFiles } from "#runtime/watched-files.ts";
import { certificatesOf, pemOf, readPem, readTrustAnchors, type TrustAnchors, TrustError } from "./trust.ts";

export interface MaterialFiles {
  /** What the files are for, in `/readyz`, metrics and `signet doctor`. */
  readonly name: string;
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
  /** Shows whether the newest files are refused. The log says why. */
  readonly readiness: ReadinessCheck;
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
  let certificates: readonly X509Certificate[];
  let matches: boolean | undefined;
  try {
    certificates = certificatesOf(cert);
    matches = certificates[0]?.checkPrivateKey(createPrivateKey(key));
  } catch (error) {
    throw new TrustError(`${keyFile} and ${certFile} must be a private key and a certificate in PEM`, {
      cause: error,
    });
  }
  if (matches === undefined) {
    throw new TrustError(`${certFile} has no certificate in PEM`);
  }
  if (!matches) {
    throw new TrustError(`${keyFile} is not the key of ${certFile}`);
  }
  return { key, cert: pemOf(certificates) };
}

/** Reads authorities. Returns the same object while they are the same, so that what was judged under them stays. */
async function readAnchors(
  path: string,
  options: { readonly development: boolean },
  known: TrustAnchors | undefined,
): Promise<TrustAnchors> {
  const read = await readTrustAnchors(path, options);
  return known?.pem === read.pem ? known : read;
}

/** Reads the files. @throws TrustError if one is unusable */
export async function readMaterial(
  { development, clientCaFile, proxyCaFile, tls }: MaterialFiles,
  known?: Material,
): Promise<Material> {
  const options = { development };
  return {
    clientAnchors: await readAnchors(clientCaFile, options, known?.clientAnchors),
    proxyAnchors:
      proxyCaFile === undefined ? undefined : await readAnchors(proxyCaFile, options, known?.proxyAnchors),
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
 * Reads and watches the files, so that a renewed mounted secret takes effect within seconds. Unusable files are read
 * again every few seconds until they are usable; meanwhile the previous content stays in use.
 *
 * @param onChange called with new material
 * @throws TrustError if a file is unusable at the start
 */
export async function openMaterial(
  files: MaterialFiles,
  log: Logger,
  onChange: (material: Material) => void,
): Promise<MaterialStore> {
  const { name } = files;
  const paths = [files.clientCaFile, files.proxyCaFile, files.tls?.keyFile, files.tls?.certFile].filter(
    (path) => path !== undefined,
  );
  let current: Material | undefined;
  let refused: string | undefined;

  function note(reason: string | undefined): void {
    refused = reason;
    metrics.certificateFilesRefused.set({ files: name }, reason === undefined ? 0 : 1);
  }

  async function reload(): Promise<boolean> {
    try {
      current = await readMaterial(files, current);
      noteExpiries(files, current);
      onChange(current);
      note(undefined);
      log.info("mutual TLS keys, certificates and authorities reloaded");
      return true;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== refused) {
        log.error({ err: error }, "new mutual TLS key material is unusable; trying again until it is usable");
      }
      note(reason);
      return false;
    }
  }

  // The state of the files is noted before they are read, so no change is missed.
  const unwatch = await watchFiles(() => paths, reload);
  try {
    current = await readMaterial(files);
    noteExpiries(files, current);
    note(undefined);
  } catch (error) {
    unwatch();
    throw error;
  }
  const opened = current;
  return {
    current: () => current ?? opened,
    readiness: {
      name,
      // The previous content works.
      check: async () => await Promise.resolve(),
      get note() {
        // Without the reason, which names files: anyone may read the public listeners' `/readyz`.
        return refused === undefined ? undefined : { refused: true };
      },
    },
    close: unwatch,
  };
}
