/**
 * Tunnels through the operator's forward proxy (RFC 9110, 9.3.6). The receiver's TLS runs end to end inside. Every
 * failure before the tunnel is open is `connect`, so a tenant learns nothing about the proxy.
 */
import type { Socket } from "node:net";
import { connect as connectTcp, isIP } from "node:net";
import type { SecureContext } from "node:tls";
import type { OutboundProxy } from "#config/egress-settings.ts";
import { InterimResponses } from "#runtime/interim-responses.ts";
import { ConnectFailure, encrypt, ignoreError, type Origin } from "./http-tls.ts";

/** Limit of the proxy's response head, which may carry an explanation. */
const MAX_HEAD_BYTES = 16_384;
const END_OF_HEAD = "\r\n\r\n";
const TUNNEL_STANDS = /^HTTP\/1\.[01] 2\d\d[ \r]/;

function failure(cause?: unknown): ConnectFailure {
  return new ConnectFailure("connect", cause);
}

function reachProxy({ hostname, port }: OutboundProxy, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp({ host: hostname, port, noDelay: true });
    socket.on("error", ignoreError);
    function stop(): void {
      signal.removeEventListener("abort", fail);
      socket.off("error", fail);
    }
    function fail(cause: unknown): void {
      stop();
      socket.destroy();
      reject(failure(cause));
    }
    signal.addEventListener("abort", fail, { once: true });
    socket.once("error", fail);
    socket.once("connect", () => {
      stop();
      resolve(socket);
    });
  });
}

/** Reads the proxy's response. It must end with its head, as nothing has been sent through the tunnel yet. */
function untilTunnelStands(socket: Socket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const interim = new InterimResponses();
    let head = "";
    function stop(): void {
      signal.removeEventListener("abort", fail);
      socket.off("readable", onReadable);
      socket.off("error", fail);
      socket.off("close", fail);
      socket.off("end", fail);
    }
    function fail(cause?: unknown): void {
      stop();
      socket.destroy();
      reject(failure(cause));
    }
    function onReadable(): void {
      const chunk: unknown = socket.read();
      if (!(chunk instanceof Buffer)) {
        return;
      }
      try {
        head += interim.pass(chunk)?.toString("latin1") ?? "";
      } catch (error) {
        fail(error);
        return;
      }
      const end = head.indexOf(END_OF_HEAD);
      if (end >= 0 && TUNNEL_STANDS.test(head) && head.length === end + END_OF_HEAD.length) {
        stop();
        resolve();
      } else if (end >= 0 || head.length > MAX_HEAD_BYTES) {
        fail();
      }
    }
    signal.addEventListener("abort", fail, { once: true });
    socket.on("readable", onReadable);
    socket.once("error", fail);
    socket.once("close", fail);
    socket.once("end", fail);
  });
}

function connectRequest({ authorization }: OutboundProxy, { hostname, port }: Origin): string {
  const authority = `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
  const credentials = authorization === null ? "" : `Proxy-Authorization: ${authorization}\r\n`;
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`;
}

async function encryptToProxy(
  socket: Socket,
  { hostname }: OutboundProxy,
  context: SecureContext,
  signal: AbortSignal,
): Promise<Socket> {
  try {
    return await encrypt(socket, { hostname, literal: isIP(hostname) !== 0 }, context, signal);
  } catch (error) {
    throw failure(error);
  }
}

/**
 * Connects to the proxy, at any address, and opens a tunnel to the origin. Only `signal` limits its duration.
 *
 * @throws ConnectFailure `connect`
 */
export async function openTunnel(
  proxy: OutboundProxy,
  origin: Origin,
  context: SecureContext,
  signal: AbortSignal,
): Promise<Socket> {
  if (signal.aborted) {
    throw failure(signal.reason);
  }
  const bare = await reachProxy(proxy, signal);
  const socket = proxy.secure ? await encryptToProxy(bare, proxy, context, signal) : bare;
  socket.write(connectRequest(proxy, origin));
  await untilTunnelStands(socket, signal);
  return socket;
}
