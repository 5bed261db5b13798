/**
 * Writes `Client-Cert` and `Client-Cert-Chain` (RFC 9440), in which the edge forwards its client's certificate to the
 * api.
 */
import type { X509Certificate } from "node:crypto";
import { INTERMEDIATES_MAX, isSelfSigned } from "#http/mutual-tls/certificate-chain.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";

/** The headers of a certificate. */
export type ClientCertHeaders = Readonly<Record<string, string>>;

const encoded = (certificate: X509Certificate): string => `:${certificate.raw.toString("base64")}:`;

/** Without the root, which the api knows, and without more than it accepts. */
function headersOf({ chain: [leaf, ...issuers] }: ClientCertificate): ClientCertHeaders {
  if (leaf === undefined) {
    return {};
  }
  const chain = issuers
    .filter((issuer) => !isSelfSigned(issuer))
    .slice(0, INTERMEDIATES_MAX)
    .map(encoded);
  return {
    "client-cert": encoded(leaf),
    ...(chain.length === 0 ? {} : { "client-cert-chain": chain.join(", ") }),
  };
}

/** Creates a function that returns the headers. */
export function createClientCertHeaders(): (certificate: ClientCertificate) => ClientCertHeaders {
  const ready = new WeakMap<ClientCertificate, ClientCertHeaders>();
  return (certificate) => {
    const headers = ready.get(certificate) ?? headersOf(certificate);
    ready.set(certificate, headers);
    return headers;
  };
}
