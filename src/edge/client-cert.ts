/**
 * Writes `Client-Cert` and `Client-Cert-Chain` (RFC 9440), in which the edge forwards its client's certificate to the
 * api.
 */
import type { X509Certificate } from "node:crypto";
import { putBounded } from "../domain/bounded-map.ts";
import type { ClientCertificate } from "../http/mutual-tls/client-certificate.ts";

/** Maximum certificates between leaf and root that the api accepts (src/http/mutual-tls/client-cert-header.ts). */
const CHAIN_MAX = 4;
const REMEMBERED_MAX = 1_000;

/** The headers of a certificate. */
export type ClientCertHeaders = Readonly<Record<string, string>>;

const encoded = (certificate: X509Certificate): string => `:${certificate.raw.toString("base64")}:`;

function intermediates({ chain: [leaf, ...issuers] }: ClientCertificate): readonly X509Certificate[] {
  return issuers
    .filter((issuer) => leaf?.raw.equals(issuer.raw) === false && !issuer.checkIssued(issuer))
    .slice(0, CHAIN_MAX);
}

/**
 * Creates a function that returns the headers. A resumed session has the client's certificate but not its issuers, so
 * these are cached from the first handshake.
 */
export function createClientCertHeaders(): (certificate: ClientCertificate) => ClientCertHeaders {
  const ready = new WeakMap<ClientCertificate, ClientCertHeaders>();
  const chains = new Map<string, string>();

  function chainOf(certificate: ClientCertificate): string | undefined {
    const { thumbprint } = certificate;
    const chain = intermediates(certificate).map(encoded).join(", ");
    if (chain === "") {
      return chains.get(thumbprint);
    }
    putBounded(chains, thumbprint, chain, REMEMBERED_MAX);
    return chain;
  }

  return (certificate) => {
    let headers = ready.get(certificate);
    const [leaf] = certificate.chain;
    if (headers === undefined && leaf !== undefined) {
      const chain = chainOf(certificate);
      headers = {
        "client-cert": encoded(leaf),
        ...(chain === undefined ? {} : { "client-cert-chain": chain }),
      };
      ready.set(certificate, headers);
    }
    return headers ?? {};
  };
}
