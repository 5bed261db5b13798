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
 * again every few seconds until they are usable; meanwhile the previous content stays in use. As a check of readiness,
 * it notes whether the newest files are refused. The log says why.
 */
export class MaterialStore implements ReadinessCheck {
  readonly name: string;
  readonly #files: MaterialFiles;
  readonly #log: Logger;
  #onChange: (material: Material) => void = () => {};
  #current: Material | undefined;
  #refused: string | undefined;
  #unwatch = (): void => {};

  private constructor(files: MaterialFiles, log: Logger) {
    this.name = files.name;
    this.#files = files;
    this.#log = log;
  }

  /** @throws TrustError if a file is unusable */
  static async open(files: MaterialFiles, log: Logger): Promise<MaterialStore> {
    const { clientCaFile, proxyCaFile, tls } = files;
    const paths = [clientCaFile, proxyCaFile, tls?.keyFile, tls?.certFile].filter(
      (path) => path !== undefined,
    );
    const opened = new MaterialStore(files, log);
    // The state of the files is noted before they are read, so no change is missed.
    opened.#unwatch = await watchFiles(
      () => paths,
      async () => await opened.#reload(),
    );
    try {
      await opened.#read();
    } catch (error) {
      opened.close();
      throw error;
    }
    opened.#note(undefined);
    return opened;
  }

  current(): Material {
    return this.#current as Material;
  }

  /** Sets what is called with new material. */
  onChange(listener: (material: Material) => void): void {
    this.#onChange = listener;
  }

  close(): void {
    this.#unwatch();
  }

  // The previous content works.
  readonly check = async (): Promise<void> => await Promise.resolve();

  /** Without the reason, which names files: anyone may read the public listeners' `/readyz`. */
  get note(): { readonly refused: true } | undefined {
    return this.#refused === undefined ? undefined : { refused: true };
  }

  async #read(): Promise<Material> {
    const material = await readMaterial(this.#files, this.#current);
    this.#current = material;
    noteExpiries(this.#files, material);
    return material;
  }

  async #reload(): Promise<boolean> {
    try {
      this.#onChange(await this.#read());
      this.#note(undefined);
      this.#log.info("mutual TLS keys, certificates and authorities reloaded");
      return true;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== this.#refused) {
        const trouble = "new mutual TLS key material is unusable; trying again until it is usable";
        this.#log.error({ err: error }, trouble);
      }
      this.#note(reason);
      return false;
    }
  }

  #note(refused: string | undefined): void {
    this.#refused = refused;
    metrics.certificateFilesRefused.set({ files: this.name }, refused === undefined ? 0 : 1);
  }
}
