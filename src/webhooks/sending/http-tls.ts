/** TLS to receivers, and connection failures. */
import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import { connect as connectTls } from "node:tls";
import { checkServerIdentity } from "#lib/server-identity.ts";

/** Target of a connection. */
export interface Origin {
  /** `scheme://host:port` */
  readonly url: string;
  /** Lower case; an IPv6 address without its brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly secure: boolean;
  /** Whether the host is a literal address. */
  readonly literal: boolean;
  /** Called with all addresses of the host before connecting; false rejects. Not called if a proxy connects. */
  readonly admitAddresses?: (addresses: readonly string[]) => Promise<boolean>;
  /** Trust and client certificate for this receiver; by default those of the sender. */
  readonly secureContext?: SecureContext;
}

/** A connection that could not be opened, and the phase that failed. No byte of a request was sent. */
export class ConnectFailure extends Error {
  override readonly name = "ConnectFailure";
  readonly phase: "dns" | "refused" | "connect" | "tls";

  constructor(phase: ConnectFailure["phase"], cause?: unknown) {
    super(`connection failed: ${phase}`, { cause });
    this.phase = phase;
  }
}

/** Error listener for a socket that has no other listener for the moment. */
export function ignoreError(): void {
  // A socket without an error listener would end the process. The waiting caller learns of the error elsewhere.
}

/**
 * Starts TLS on a connection. Trusts the peer only with a certificate of its name.
 *
 * @throws ConnectFailure `tls`
 */
export function encrypt(
  socket: Socket,
  origin: Pick<Origin, "hostname" | "literal">,
  context: SecureContext,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const encrypted = connectTls({
      socket,
      host: origin.hostname,
      // Server name indication is for names only (RFC 6066, 3). The certificate is always checked against `host`.
      ...(origin.literal ? undefined : { servername: origin.hostname }),
      secureContext: context,
      ALPNProtocols: ["http/1.1"],
      // Node would take the default from the environment.
      rejectUnauthorized: true,
      checkServerIdentity,
    });
    function stop(): void {
      signal.removeEventListener("abort", fail);
      encrypted.off("error", fail);
      encrypted.off("close", fail);
    }
    function fail(cause: unknown): void {
      stop();
      encrypted.destroy();
      socket.destroy();
      reject(new ConnectFailure("tls", cause));
    }
    signal.addEventListener("abort", fail, { once: true });
    encrypted.on("error", ignoreError);
    encrypted.once("error", fail);
    encrypted.once("close", fail);
    encrypted.once("secureConnect", () => {
      stop();
      resolve(encrypted);
    });
  });
}
