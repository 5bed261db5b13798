/** TLS towards receivers, and how a connection can fail to come about. */
import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";
import { connect as connectTls } from "node:tls";

/** Where to connect. */
export interface Origin {
  /** `scheme://host:port` */
  readonly url: string;
  /** Lower case; an IPv6 address without its brackets. */
  readonly hostname: string;
  readonly port: number;
  readonly secure: boolean;
  /** Whether the host is an address already. */
  readonly literal: boolean;
  /** Asked with all addresses of the host before one is connected to; false refuses. Not asked where a proxy connects. */
  readonly admitAddresses?: (addresses: readonly string[]) => Promise<boolean>;
  /** Trust and client certificate of this receiver alone; the sender's own otherwise. */
  readonly secureContext?: SecureContext;
}

/** A connection that did not come about, and in which phase. No byte of a request was sent then. */
export class ConnectFailure extends Error {
  override readonly name = "ConnectFailure";
  readonly phase: "dns" | "refused" | "connect" | "tls";

  constructor(phase: ConnectFailure["phase"], cause?: unknown) {
    super(`connection failed: ${phase}`, { cause });
    this.phase = phase;
  }
}

/** Listens to a socket that nobody listens to for the moment. */
export function ignoreError(): void {
  // A socket without a listener for errors would end the process; whoever waits learns of them elsewhere.
}

/**
 * Speaks TLS on a connection, and trusts the peer only with a certificate of its name.
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
      // The name indication is for names only (RFC 6066, 3); the certificate is checked against `host` either way.
      ...(origin.literal ? undefined : { servername: origin.hostname }),
      secureContext: context,
      ALPNProtocols: ["http/1.1"],
      // Node would take the default from the environment.
      rejectUnauthorized: true,
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
