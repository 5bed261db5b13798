/** Where a request comes from: the verified certificate and the address of its client (security decisions B). */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "../../domain/clock.ts";
import { isId } from "../../domain/ids.ts";
import { type CertificateProblem, timeProblem } from "./certificate-chain.ts";
import { hasCertificateHeader } from "./client-cert-header.ts";
import type { ClientCertificate } from "./client-certificate.ts";
import { plainAddress } from "./forwarded-address.ts";

/** What was found of a certificate: itself, or why it does not count. */
export type FoundCertificate = ClientCertificate | CertificateProblem;

/** Who stands behind a request, as far as the connection and a trusted proxy can say. */
export interface ClientOrigin {
  readonly certificate: ClientCertificate | undefined;
  /** Why there is no certificate. */
  readonly problem: CertificateProblem;
  readonly address: string;
  /** Whether protected routes answer only with a certificate. */
  readonly certificateRequired: boolean;
  /** A certificate header came from somebody who is no trusted proxy. */
  readonly forgedHeader: boolean;
}

export interface ClientIdentification {
  /** @throws SignetError `INVALID_REQUEST` when a trusted proxy's header cannot be read */
  identify(request: IncomingMessage): ClientOrigin;
  /** The id that a trusted proxy has given the request, if it has the form of ours (wire.md, Identifiers). */
  requestIdOf(request: IncomingMessage): string | undefined;
}

/** The proxies that may speak for clients. */
export interface TrustedProxies {
  isTrusted(socket: Socket): boolean;
  certificateOf(request: IncomingMessage): FoundCertificate;
  addressOf(request: IncomingMessage, peer: string): string;
}

/** The other end of a connection, as far as it is the same for all of its requests. */
interface Peer {
  readonly address: string;
  /** Present where certificates are looked at on the connection itself. */
  readonly tls: TLSSocket | undefined;
  /** What is said of a request without a certificate. */
  readonly bare: ClientOrigin;
}

export interface ClientIdentificationOptions {
  /** Looks at certificates of TLS connections; absent where clients do not connect by TLS. */
  readonly native?: ((socket: TLSSocket) => FoundCertificate) | undefined;
  readonly proxies?: TrustedProxies | undefined;
  /** Production: a certificate is required on every listener, also where nobody can show one. */
  readonly production: boolean;
  /** Asked at every request: a resumed session brings the identity of an earlier handshake along. */
  readonly isDenied?: ((certificate: ClientCertificate) => boolean) | undefined;
  readonly clock: Clock;
}

/** Makes what every request is asked first. */
export function createClientIdentification(options: ClientIdentificationOptions): ClientIdentification {
  const { native, proxies, production, isDenied, clock } = options;

  /** A connection stays where it is: its other end is looked at once. */
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
    const problem = timeProblem(found, clock.now()) ?? (isDenied?.(found) === true ? "revoked" : undefined);
    return problem === undefined
      ? { certificate: found, problem: "missing" }
      : { certificate: undefined, problem };
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
      const { certificate, problem } = judge(native(tls));
      return { certificate, problem, address, certificateRequired: bare.certificateRequired, forgedHeader };
    },
  };
}
