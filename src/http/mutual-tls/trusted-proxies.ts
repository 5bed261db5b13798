/**
 * Proxies that end TLS in front of us and say in RFC 9440 headers who their client is. A proxy is trusted when it
 * comes over the unix socket, or from a listed address by mutual TLS with a name that is pinned. Its word is not
 * believed even then: the certificate is verified here again.
 */
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { AddressSet } from "../../runtime/address-set.ts";
import type { Clock } from "../../domain/clock.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import { findChain, leafProblem, timeProblem } from "./certificate-chain.ts";
import { describeCertificate, subjectAlternativeNames } from "./client-certificate.ts";
import { forwardedProblem, readCertificateHeaders } from "./client-cert-header.ts";
import type { FoundCertificate, TrustedProxies } from "./client-identification.ts";
import { type ForwardedHeader, forwardedAddress, plainAddress } from "./forwarded-address.ts";
import type { TrustAnchors } from "./trust.ts";

/** Verified certificates that are remembered: a chain costs some signatures, and clients come again. */
const REMEMBERED_MAX = 1_000;

export interface TrustedProxiesOptions {
  readonly addresses: AddressSet;
  /** Subject alternative names as `DNS:edge.internal` or `URI:spiffe://…`; one of them must be in the certificate. */
  readonly names: readonly string[];
  /** Whether the connection came in over the unix socket, which only proxies can open. */
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
  const leaf = socket.authorized ? socket.getPeerX509Certificate() : undefined;
  if (leaf === undefined || leafProblem(leaf) !== undefined) {
    return { pinned: false, notBefore: 0, notAfter: 0 };
  }
  const { notBefore, notAfter } = describeCertificate(leaf);
  const pinned = subjectAlternativeNames(leaf.subjectAltName).some(({ kind, value }) =>
    names.includes(`${kind}:${value}`),
  );
  return { pinned, notBefore, notAfter };
}

/** Makes the check of proxies. */
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
