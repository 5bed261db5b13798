/** Certificates for mutual TLS tests: an authority, issued certificates, and the files that a service reads. */
import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Environment } from "#config/config.ts";
import {
  type Authority,
  type CertificateRequest,
  createAuthority,
  type KeyPair,
} from "#http/mutual-tls/authority.ts";

const HOUR_MS = 3_600_000;
const LOCAL = [{ type: "ip", value: "127.0.0.1" } as const];

/** Returns a validity from an hour ago to a day from now. */
export function today(): { readonly notBefore: Date; readonly notAfter: Date } {
  return { notBefore: new Date(Date.now() - HOUR_MS), notAfter: new Date(Date.now() + 24 * HOUR_MS) };
}

/** Creates a root with this name. */
export async function newRoot(name = "Test CA"): Promise<Authority> {
  return await createAuthority({ subject: `CN=${name}`, ...today() });
}

/** Creates a server certificate for 127.0.0.1. */
export async function serverPair(authority: Authority): Promise<KeyPair> {
  return await authority.issue({ subject: "CN=server", names: LOCAL, purposes: ["serverAuth"], ...today() });
}

/** Creates a client certificate; `options` override the defaults. */
export async function clientPair(
  authority: Authority,
  request: Partial<CertificateRequest> & { readonly sanUri?: string } = {},
): Promise<KeyPair> {
  const { sanUri, ...rest } = request;
  const names = sanUri === undefined ? {} : { names: [{ type: "url", value: sanUri } as const] };
  return await authority.issue({
    subject: "CN=client",
    purposes: ["clientAuth"],
    ...names,
    ...today(),
    ...rest,
  });
}

/** Returns the SHA-256 thumbprint in the form that a credential registers. */
export function thumbprint({ cert }: Pick<KeyPair, "cert">): string {
  return new X509Certificate(cert).fingerprint256.replaceAll(":", "").toLowerCase();
}

/** Returns the SHA-256 thumbprint in the form that binds a token. */
export function x5t(pair: KeyPair): string {
  return Buffer.from(thumbprint(pair), "hex").toString("base64url");
}

/** Returns a certificate in the header format of RFC 9440. */
export function headerValue({ cert }: Pick<KeyPair, "cert">): string {
  return `:${new X509Certificate(cert).raw.toString("base64")}:`;
}

/** Creates a directory for the certificate files of one test. */
export function certificateFiles(): {
  readonly write: (name: string, text: string) => string;
  readonly path: (name: string) => string;
  readonly remove: () => void;
} {
  const directory = mkdtempSync(join(tmpdir(), "signet-mtls-"));
  const path = (name: string): string => join(directory, name);
  return {
    path,
    write: (name, text) => {
      writeFileSync(path(name), text, { mode: 0o600 });
      return path(name);
    },
    remove: () => rmSync(directory, { recursive: true }),
  };
}

/** Returns the settings of an api in production with mutual TLS at its own listener, `host:port`, as tenants use it. */
export function mutualTlsSettings(
  files: Pick<ReturnType<typeof certificateFiles>, "write">,
  { listen, server, root }: { readonly listen: string; readonly server: KeyPair; readonly root: KeyPair },
): Readonly<Record<string, string>> {
  return {
    SIGNET_ENV: "production",
    SIGNET_MTLS_MODE: "native",
    SIGNET_EDGE_LISTEN: listen,
    SIGNET_PUBLIC_URL: `https://${listen}`,
    SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
    SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: files.write("ca.crt", root.cert),
  };
}

/** Settings of mutual TLS for a hub, and for an edge behind it. */
export interface HubSettings {
  readonly hub: Environment;
  readonly edge: Environment;
  /** Of an edge with a certificate of its own. */
  readonly other: Environment;
}

/**
 * Writes certificates for hubs and edges into a directory, or replaces them.
 *
 * @param trusted authorities that all trust beside the one that issues them
 */
export async function writeHubCertificates(
  directory: string,
  root?: Authority,
  trusted: readonly Authority[] = [],
): Promise<HubSettings> {
  const issuer = root ?? (await newRoot());
  const ca = join(directory, "ca.pem");
  writeFileSync(ca, [issuer, ...trusted].map(({ cert }) => cert).join(""));
  const write = async (name: string, permitted: string): Promise<Environment> => {
    const { key, cert } = await issuer.issue({
      subject: `CN=${name}`,
      names: [{ type: "dns", value: `${name}.test` }],
      purposes: ["serverAuth", "clientAuth"],
      ...today(),
    });
    const [keyFile, certFile] = [join(directory, `${name}.key`), join(directory, `${name}.pem`)];
    writeFileSync(keyFile, key);
    writeFileSync(certFile, cert);
    return {
      SIGNET_HUB_CA_FILE: ca,
      SIGNET_HUB_KEY_FILE: keyFile,
      SIGNET_HUB_CERT_FILE: certFile,
      SIGNET_HUB_NAMES: permitted,
    };
  };
  return {
    hub: {
      ...(await write("hub", "DNS:hub.test,DNS:edge.test,DNS:other.test")),
      SIGNET_HUB_RELAY_NAMES: "DNS:hub.test",
    },
    edge: await write("edge", "DNS:hub.test"),
    other: await write("other", "DNS:hub.test"),
  };
}
