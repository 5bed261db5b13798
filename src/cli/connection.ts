/** How commands that act for a tenant reach the service: a credential from a file, and mutual TLS where it is asked for. */
import { readFile } from "node:fs/promises";
import { FileCredentialStore } from "../lib/client/file-credential-store.ts";
import type { Warning } from "../lib/client/runtime.ts";
import type { TlsMaterial } from "../lib/client/tls-fetch.ts";
import type { ConnectionOptions } from "../lib/client/token-sources.ts";
import { messageOf } from "../runtime/thrown.ts";
import { CommandError } from "./context.ts";
import { misused } from "./exit-codes.ts";

export interface TenantOptions {
  readonly url: string;
  readonly credentialFile: string;
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

/** What a person got wrong, or can mend, as the command's error. */
export async function mendable<T>(what: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw new CommandError(`${what}: ${messageOf(error)}`, { cause: error });
  }
}

async function readTls({ cert, key, ca }: TlsOptions): Promise<TlsMaterial> {
  return {
    ...(cert === undefined || key === undefined
      ? {}
      : { cert: await readFile(cert), key: await readFile(key) }),
    ...(ca === undefined ? {} : { ca: await readFile(ca) }),
  };
}

type TlsOptions = Pick<TenantOptions, "url" | "cert" | "key" | "ca">;

/**
 * What was given of a client certificate and of the API's authority: files that are read again and again, as
 * certificates are renewed in place. An authority alone has nothing to say about an http address.
 */
export function tlsOf(options: TlsOptions): Pick<ConnectionOptions, "tls"> {
  const { url, cert, key, ca } = options;
  if ((cert === undefined) !== (key === undefined)) {
    throw misused("--cert and --key belong together.");
  }
  const used = cert !== undefined || (ca !== undefined && /^https:/i.test(url));
  return used ? { tls: async () => await readTls(options) } : {};
}

/**
 * The settings of a client.
 *
 * @throws CommandError when the credential is not there or cannot be read
 */
export async function connectionOf(
  options: TenantOptions,
  report: (line: string) => void,
): Promise<ConnectionOptions> {
  const warn = ({ message, cause }: Warning): void =>
    report(cause === undefined ? message : `${message}: ${messageOf(cause)}`);
  const store = new FileCredentialStore(options.credentialFile, { warn });
  const stored = await mendable(options.credentialFile, async () => await store.load());
  if (stored === undefined) {
    throw new CommandError(`${options.credentialFile} is not there: signet credential create --json > FILE`);
  }
  return { baseUrl: options.url, store, warn, ...tlsOf(options) };
}
