/** Connects commands of a tenant to the service, with a credential from a file and optional mutual TLS. */
import { readFile } from "node:fs/promises";
import { FileCredentialStore } from "#lib/client/file-credential-store.ts";
import type { Warning } from "#lib/client/runtime.ts";
import type { TlsMaterial } from "#lib/client/tls-fetch.ts";
import type { ConnectionOptions } from "#lib/client/token-sources.ts";
import { messageOf } from "#runtime/thrown.ts";
import { CommandError } from "./context.ts";
import { misused } from "./exit-codes.ts";

export interface TenantOptions {
  readonly url: string;
  readonly credentialFile: string;
  readonly cert?: string;
  readonly key?: string;
  readonly ca?: string;
}

/** Runs the operation and turns its error, which the user can fix, into a CommandError. */
export async function withCommandError<T>(what: string, operation: () => T | Promise<T>): Promise<T> {
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
 * Returns the TLS options for the client certificate and the API's CA. The files are read for each use, because
 * certificates are renewed in place. A CA without a client certificate is ignored for an http address.
 */
export function tlsOf(options: TlsOptions): Pick<ConnectionOptions, "tls"> {
  const { url, cert, key, ca } = options;
  if ((cert === undefined) !== (key === undefined)) {
    throw misused("--cert and --key must be given together.");
  }
  const used = cert !== undefined || (ca !== undefined && /^https:/i.test(url));
  return used ? { tls: async () => await readTls(options) } : {};
}

/**
 * Returns the settings of a client.
 *
 * @throws CommandError if the credential does not exist or cannot be read
 */
export async function connectionOf(
  options: TenantOptions,
  report: (line: string) => void,
): Promise<ConnectionOptions> {
  const warn = ({ message, cause }: Warning): void =>
    report(cause === undefined ? message : `${message}: ${messageOf(cause)}`);
  const store = new FileCredentialStore(options.credentialFile, { warn });
  const stored = await withCommandError("--credential-file", async () => await store.load());
  if (stored === undefined) {
    throw new CommandError(
      `${options.credentialFile} does not exist; create it: signet credential create --json > FILE`,
    );
  }
  return { baseUrl: options.url, store, warn, ...tlsOf(options) };
}
