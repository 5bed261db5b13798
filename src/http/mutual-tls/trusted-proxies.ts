/**
 * Proxies that terminate TLS in front of the service and forward client certificates in RFC 9440 headers. A proxy is
 * trusted if it connects over the unix socket, or from a listed address by mutual TLS with a pinned name. Even then the
 * forwarded certificate is verified again here.
 */
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { AddressSet } from "#runtime/address-set.ts";
import type { CertificateJudge } from "./certificate-judge.ts";
import { type ClientCertificate, hasPinnedName } from "./client-certificate.ts";
import { forwardedProblem, readCertificateHeaders } from "./client-cert-header.ts";
import type { TrustedProxies } from "./client-identification.ts";
import { type ForwardedHeader, forwardedAddress, plainAddress } from "./forwarded-address.ts";
import { presentedBy } from "./peer-certificate.ts";

export interface TrustedProxiesOptions {
  readonly addresses: AddressSet;
  /**
   * Pinned subject alternative names, such as `DNS:edge.internal` or `URI:spiffe://…`; the certificate must have one.
   */
  readonly names: readonly string[];
  /** Checks whether the connection uses the unix socket, which only proxies can open. */
  readonly isLocalSocket: (socket: Socket) => boolean;
  readonly forwardedHeader: ForwardedHeader;
  /** Judges the proxies' own certificates, at every request. */
  readonly judgeProxy: CertificateJudge;
  /** Whether a proxy's own certificate is revoked. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
  /** Judges the certificates that they forward. */
  readonly judgeClient: CertificateJudge;
}

/** Creates the trusted proxies. */
export function createTrustedProxies(options: TrustedProxiesOptions): TrustedProxies {
  const { addresses, names, isLocalSocket, forwardedHeader, judgeProxy, isDenied, judgeClient } = options;
  const pinned = new WeakMap<ClientCertificate, boolean>();

  function isPinned(certificate: ClientCertificate): boolean {
    const [leaf] = certificate.chain;
    const known = pinned.get(certificate) ?? (leaf !== undefined && hasPinnedName(leaf, names));
    pinned.set(certificate, known);
    return known;
  }

  return {
    isTrusted: (socket) => {
      if (isLocalSocket(socket)) {
        return true;
      }
      if (!(socket instanceof TLSSocket) || !addresses.has(plainAddress(socket.remoteAddress ?? "") ?? "")) {
        return false;
      }
      const found = judgeProxy(presentedBy(socket));
      return typeof found !== "string" && isDenied?.(found) !== true && isPinned(found);
    },
    certificateOf: ({ headers }) => {
      const forwarded = readCertificateHeaders(headers);
      return forwarded === undefined ? forwardedProblem(headers) : judgeClient(forwarded);
    },
    addressOf: ({ headers }, peer) =>
      forwardedAddress(headers, peer, { header: forwardedHeader, trusted: addresses }),
  };
}
