/**
 * Proxies that terminate TLS in front of the service and forward client certificates in RFC 9440 headers. A proxy is
 * trusted if it connects over the unix socket, or from a listed address by mutual TLS with a pinned name. Even then the
 * forwarded certificate is verified again here.
 */
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { AddressSet } from "../../runtime/address-set.ts";
import type { Clock } from "../../domain/clock.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import { findChain, leafProblem, timeProblem } from "./certificate-chain.ts";
import { describeCertificate, hasPinnedName } from "./client-certificate.ts";
import { forwardedProblem, readCertificateHeaders } from "./client-cert-header.ts";
import type { FoundCertificate, TrustedProxies } from "./client-identification.ts";
import { type ForwardedHeader, forwardedAddress, plainAddress } from "./forwarded-address.ts";
import { peerCertificate } from "./peer-certificate.ts";
import type { TrustAnchors } from "./trust.ts";

/** Maximum number of cached certificates. Verifying a chain costs several signature checks. */
const REMEMBERED_MAX = 1_000;

export interface TrustedProxiesOptions {
  readonly addresses: AddressSet;
  /**
   * Pinned subject alternative names, such as `DNS:edge.internal` or `URI:spiffe://…`; the certificate must have one.
   */
  readonly names: readonly string[];
  /** Checks whether the connection uses the unix socket, which only proxies can open. */
  readonly isLocalSocket: (socket: Socket) => boolean;
  readonly forwardedHeader: ForwardedHeader;
  /** The authorities of the clients. */
  readonly anchors: () => TrustAnchors;
  readonly clock: Clock;
}

interface ProxyConnection {
  readonly pinned: boolean;
  readonly notBefore: number;
  readonly notAfter: number;
}

function inspectProxy(socket: TLSSocket, names: readonly string[]): ProxyConnection {
  const leaf = socket.authorized ? peerCertificate(socket) : undefined;
  if (leaf === undefined || leafProblem(leaf) !== undefined) {
    return { pinned: false, notBefore: 0, notAfter: 0 };
  }
  const { notBefore, notAfter } = describeCertificate(leaf);
  return { pinned: hasPinnedName(leaf, names), notBefore, notAfter };
}

/** Creates the trusted proxies. */
export function createTrustedProxies(options: TrustedProxiesOptions): TrustedProxies {
  const { addresses, names, isLocalSocket, forwardedHeader, anchors, clock } = options;
  const connections = new WeakMap<TLSSocket, ProxyConnection>();
  let remembered = new Map<string, FoundCertificate>();
  let rememberedUnder: TrustAnchors | undefined;

  function connectionOf(socket: TLSSocket): ProxyConnection {
    const connection = connections.get(socket) ?? inspectProxy(socket, names);
    connections.set(socket, connection);
    return connection;
  }

  function remember(key: string, verify: () => FoundCertificate): FoundCertificate {
    if (rememberedUnder !== anchors()) {
      remembered = new Map();
      rememberedUnder = anchors();
    }
    const known = remembered.get(key) ?? verify();
    putBounded(remembered, key, known, REMEMBERED_MAX);
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
      const connection = connectionOf(socket);
      return connection.pinned && timeProblem(connection, clock.now()) === undefined;
    },
    certificateOf: ({ headers }) => {
      const forwarded = readCertificateHeaders(headers);
      if (forwarded === undefined) {
        return forwardedProblem(headers);
      }
      const { leaf, intermediates, key } = forwarded;
      return remember(key, () => {
        const chain = findChain({ leaf, intermediates, anchors: anchors().certificates });
        return chain === undefined ? "not trusted" : (leafProblem(leaf) ?? describeCertificate(leaf, chain));
      });
    },
    addressOf: ({ headers }, peer) =>
      forwardedAddress(headers, peer, { header: forwardedHeader, trusted: addresses }),
  };
}
