/** The certificate of a client that connects by TLS directly. */
import type { X509Certificate } from "node:crypto";
import type { TLSSocket } from "node:tls";
import { isWeakCertificate } from "./certificate-strength.ts";
import { type CertificateProblem, findChain, leafProblem } from "./certificate-chain.ts";
import { describeCertificate } from "./client-certificate.ts";
import type { FoundCertificate } from "./client-identification.ts";
import { peerCertificate } from "./peer-certificate.ts";
import type { TrustAnchors } from "./trust.ts";

/** Problems by OpenSSL error; any other error means "not trusted". */
const PROBLEMS: Readonly<Record<string, CertificateProblem>> = {
  CERT_HAS_EXPIRED: "expired",
  CERT_NOT_YET_VALID: "not valid yet",
  INVALID_PURPOSE: "wrong purpose",
};
const CHAIN_MAX = 8;

function issuersOf(leaf: X509Certificate): X509Certificate[] {
  const issuers: X509Certificate[] = [];
  for (
    let issuer = leaf.issuerCertificate;
    issuer !== undefined && issuers.length < CHAIN_MAX && issuers.at(-1) !== issuer;
    issuer = issuer.issuerCertificate
  ) {
    issuers.push(issuer);
  }
  return issuers;
}

/** Returns the handshake's result. Node also exposes untrusted certificates, so only `authorized` counts. */
function inspect(socket: TLSSocket): FoundCertificate {
  const leaf = peerCertificate(socket);
  if (leaf === undefined) {
    return "missing";
  }
  const issuers = issuersOf(leaf);
  const weak = [leaf, ...issuers].some(isWeakCertificate);
  if (!socket.authorized) {
    return PROBLEMS[String(socket.authorizationError)] ?? (weak ? "too weak" : "not trusted");
  }
  return leafProblem(leaf) ?? (weak ? "too weak" : describeCertificate(leaf, issuers));
}

interface Inspected {
  readonly found: FoundCertificate;
  readonly anchors: TrustAnchors;
}

/**
 * Inspects each connection once, and again when the trusted authorities change: a connection must not outlive the trust
 * in its authority.
 */
export function createNativeCertificates(
  anchors: () => TrustAnchors,
): (socket: TLSSocket) => FoundCertificate {
  const inspected = new WeakMap<TLSSocket, Inspected>();

  function inspectAgain(socket: TLSSocket, known: FoundCertificate, now: TrustAnchors): FoundCertificate {
    const leaf = peerCertificate(socket);
    if (typeof known === "string" || leaf === undefined) {
      return known;
    }
    const chain = findChain({ leaf, intermediates: issuersOf(leaf), anchors: now.certificates });
    return chain === undefined ? "not trusted" : describeCertificate(leaf, chain);
  }

  return (socket) => {
    const now = anchors();
    const known = inspected.get(socket);
    if (known?.anchors === now) {
      return known.found;
    }
    const found = known === undefined ? inspect(socket) : inspectAgain(socket, known.found, now);
    inspected.set(socket, { found, anchors: now });
    return found;
  };
}
