/**
 * Proxies that terminate TLS in front of the service and forward client certificates in RFC 9440 headers. A proxy is
 * trusted if it connects over the unix socket, or from a listed address by mutual TLS with a pinned name. Even then the
 * forwarded certificate is verified again here.
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { AddressSet } from "#runtime/address-set.ts";
import type { CertificateJudge, FoundCertificate } from "./certificate-judge.ts";
import { type ClientCertificate, hasPinnedName } from "./client-certificate.ts";
import { forwardedProblem, readCertificateHeaders } from "./client-cert-header.ts";
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

/** The proxies whose headers are trusted. */
export class TrustedProxies {
  readonly #options: TrustedProxiesOptions;
  readonly #pinned = new WeakMap<ClientCertificate, boolean>();

  constructor(options: TrustedProxiesOptions) {
    this.#options = options;
  }

  isTrusted(socket: Socket): boolean {
    const { addresses, isLocalSocket, judgeProxy, isDenied } = this.#options;
    if (isLocalSocket(socket)) {
      return true;
    }
    if (!(socket instanceof TLSSocket) || !addresses.has(plainAddress(socket.remoteAddress ?? "") ?? "")) {
      return false;
    }
    const found = judgeProxy(presentedBy(socket));
    return typeof found !== "string" && isDenied?.(found) !== true && this.#isPinned(found);
  }

  certificateOf({ headers }: IncomingMessage): FoundCertificate {
    const forwarded = readCertificateHeaders(headers);
    return forwarded === undefined ? forwardedProblem(headers) : this.#options.judgeClient(forwarded);
  }

  addressOf({ headers }: IncomingMessage, peer: string): string {
    const { forwardedHeader: header, addresses: trusted } = this.#options;
    return forwardedAddress(headers, peer, { header, trusted });
  }

  #isPinned(certificate: ClientCertificate): boolean {
    const [leaf] = certificate.chain;
    const known =
      this.#pinned.get(certificate) ?? (leaf !== undefined && hasPinnedName(leaf, this.#options.names));
    this.#pinned.set(certificate, known);
    return known;
  }
}
