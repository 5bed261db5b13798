/**
 * The certificates that the other side of a connection has presented. Node forgets the issuers after the first read
 * (nodejs/node#65579), so each connection's certificates are read once.
 */
import type { X509Certificate } from "node:crypto";
import type { Server } from "node:https";
import type { TLSSocket } from "node:tls";
import { SENT_MAX } from "./certificate-chain.ts";
import type { Presented } from "./certificate-judge.ts";

const read = new WeakMap<TLSSocket, Presented>();

/** Returns the certificates, whether or not they are trusted. The other side has proved that it holds the leaf's key. */
export function presentedBy(socket: TLSSocket): Presented | undefined {
  const known = read.get(socket);
  if (known !== undefined) {
    return known;
  }
  const leaf = socket.getPeerX509Certificate();
  if (leaf === undefined) {
    return undefined;
  }
  const intermediates: X509Certificate[] = [];
  // Node links them in the order in which they were sent, not by who issued them.
  for (
    let next = leaf.issuerCertificate;
    next !== undefined && intermediates.length < SENT_MAX && intermediates.at(-1) !== next;
    next = next.issuerCertificate
  ) {
    intermediates.push(next);
  }
  const key = [leaf, ...intermediates].map(({ fingerprint256 }) => fingerprint256).join(" ");
  const presented = { leaf, intermediates, key };
  read.set(socket, presented);
  return presented;
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
      socket.prependOnceListener("secure", () => presentedBy(socket));
    }
  });
}
