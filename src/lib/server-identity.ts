/** The names of a server's certificate (RFC 9525). */
import tls, { checkServerIdentity as checkNames, type PeerCertificate } from "node:tls";

/**
 * Like Node's check, but never by the common name, to which Node falls back if a certificate names no host
 * (RFC 9525 section 6.3 forbids that).
 *
 * @returns why the certificate is not one of the host; undefined if it is
 */
export function checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
  return checkNames(host, { ...certificate, subject: { ...certificate.subject, CN: "" } });
}

/** Makes {@link checkServerIdentity} the check of every connection in this process, also of those that packages open. */
export function requireServerNames(): void {
  Object.assign(tls, { checkServerIdentity });
}
