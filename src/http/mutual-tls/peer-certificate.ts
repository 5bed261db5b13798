/**
 * The certificate that a client has presented, with the issuers that it sent. Node forgets the issuers after the first
 * read (nodejs/node#65579), so each connection's certificate is read once.
 */
import type { X509Certificate } from "node:crypto";
import type { Server } from "node:https";
import type { TLSSocket } from "node:tls";

const read = new WeakMap<TLSSocket, X509Certificate>();

/** Returns the certificate, whether or not it is trusted. */
export function peerCertificate(socket: TLSSocket): X509Certificate | undefined {
  const known = read.get(socket);
  if (known !== undefined) {
    return known;
  }
  const certificate = socket.getPeerX509Certificate();
  if (certificate !== undefined) {
    read.set(socket, certificate);
  }
  return certificate;
}

/** Whether Node itself reads the certificate before it reports the connection. 26.9 loses nothing by that. */
const NODE_READS_FIRST = /^(?:24\.2[1-9]|26\.8)\./.test(process.versions.node);

/** Makes sure that the first read of each certificate is ours. */
export function readPeersFirst(server: Server): void {
  if (!NODE_READS_FIRST) {
    return;
  }
  const seen = new WeakSet<TLSSocket>();
  // The only event of a handshake that names its socket. It carries keys, which are not kept.
  server.on("keylog", (_keys, socket) => {
    if (!seen.has(socket)) {
      seen.add(socket);
      socket.prependOnceListener("secure", () => peerCertificate(socket));
    }
  });
}
