/** Identifies the client of a request: verified certificate and address (security decisions B). */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { isId } from "#domain/ids.ts";
import type { CertificateProblem } from "./certificate-chain.ts";
import type { CertificateJudge, FoundCertificate } from "./certificate-judge.ts";
import { hasCertificateHeader } from "./client-cert-header.ts";
import type { ClientCertificate } from "./client-certificate.ts";
import { plainAddress } from "./forwarded-address.ts";
import { presentedBy } from "./peer-certificate.ts";
import type { TrustedProxies } from "./trusted-proxies.ts";

/** The client of a request, according to the connection and trusted proxies. */
export interface ClientOrigin {
  readonly certificate: ClientCertificate | undefined;
  /** Why there is no certificate. */
  readonly problem: CertificateProblem;
  readonly address: string;
  /** Whether protected routes require a certificate. */
  readonly certificateRequired: boolean;
  /** Whether a client that is no trusted proxy sent a certificate header. */
  readonly forgedHeader: boolean;
}

export interface ClientIdentification {
  /** @throws SignetError `INVALID_REQUEST` for a malformed header of a trusted proxy */
  identify(request: IncomingMessage): ClientOrigin;
  /** Returns the request id from a trusted proxy, if it is valid (contract 9.2). */
  requestIdOf(request: IncomingMessage): string | undefined;
}

/** The properties of a connection that all its requests share. */
interface Peer {
  readonly address: string;
  /** Present if certificates are read from the connection itself. */
  readonly tls: TLSSocket | undefined;
  /** The origin of requests without a certificate. */
  readonly bare: ClientOrigin;
}

export interface ClientIdentificationOptions {
  /** Judges the certificates of TLS connections, at every request; absent if clients do not connect by TLS. */
  readonly native?: CertificateJudge | undefined;
  readonly proxies?: TrustedProxies | undefined;
  /** Whether every listener requires a certificate, even one without TLS. */
  readonly production: boolean;
  /** Checked at every request, because a connection stays open after a revocation. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
}

/** Creates the client identification. */
export function createClientIdentification(options: ClientIdentificationOptions): ClientIdentification {
  const { native, proxies, production, isDenied } = options;

  /** Peers by connection. A connection never changes its peer, so it is inspected once. */
  const peers = new WeakMap<Socket, Peer>();
  function peerOf(socket: Socket): Peer {
    let peer = peers.get(socket);
    if (peer === undefined) {
      const address = plainAddress(socket.remoteAddress ?? "") ?? "";
      const tls = socket instanceof TLSSocket ? socket : undefined;
      const bare: ClientOrigin = {
        certificate: undefined,
        problem: "missing",
        address,
        certificateRequired: production || tls !== undefined,
        forgedHeader: false,
      };
      peer = { address, tls: native === undefined ? undefined : tls, bare };
      peers.set(socket, peer);
    }
    return peer;
  }

  function judge(found: FoundCertificate): Pick<ClientOrigin, "certificate" | "problem"> {
    if (typeof found === "string") {
      return { certificate: undefined, problem: found };
    }
    return isDenied?.(found) === true
      ? { certificate: undefined, problem: "revoked" }
      : { certificate: found, problem: "missing" };
  }

  return {
    requestIdOf: ({ socket, headers }) => {
      const id = headers["x-request-id"];
      return typeof id === "string" && proxies?.isTrusted(socket) === true && isId(id, "request")
        ? id
        : undefined;
    },
    identify: (request) => {
      const { socket } = request;
      const { address, tls, bare } = peerOf(socket);
      if (proxies?.isTrusted(socket) === true) {
        const found = judge(proxies.certificateOf(request));
        const forwarded = proxies.addressOf(request, address);
        return { ...found, address: forwarded, certificateRequired: true, forgedHeader: false };
      }
      const forgedHeader = hasCertificateHeader(request.headers);
      if (tls === undefined || native === undefined) {
        return forgedHeader ? { ...bare, forgedHeader } : bare;
      }
      const { certificate, problem } = judge(native(presentedBy(tls)));
      return { certificate, problem, address, certificateRequired: bare.certificateRequired, forgedHeader };
    },
  };
}
