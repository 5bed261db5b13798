/**
 * Opens the connections of the sender. It resolves every name and checks every address itself. The checked address is
 * the one that is used, so no second resolution can change it (DNS rebinding).
 */
import type { Socket } from "node:net";
import { connect as connectTcp } from "node:net";
import type { SecureContext } from "node:tls";
import type { Timer, Timers } from "#domain/clock.ts";
import type { OutboundProxy } from "#config/egress-settings.ts";
import type { AddressPolicy } from "./address-policy.ts";
import { openTunnel } from "./http-proxy.ts";
import type { HostResolver } from "./http-resolver.ts";
import { ConnectFailure, encrypt, ignoreError, type Origin } from "./http-tls.ts";

/** Dependencies of a connection. */
export interface ConnectServices {
  readonly policy: Pick<AddressPolicy, "allowsConnection">;
  readonly resolve: HostResolver;
  /** Whether one of our own URLs resolves to this address and port. */
  readonly isOwnAddress?: (address: string, port: number) => Promise<boolean>;
  readonly timers: Timers;
  readonly secureContext: SecureContext;
  /** Resolves and connects instead of us, and has to check the addresses itself. */
  readonly proxy: OutboundProxy | null;
}

/** How long one address may be silent before the next is tried in parallel (RFC 8305, 5, recommends 250 ms). */
const NEXT_ADDRESS_MS = 300;
const MAX_ADDRESSES = 8;

async function allowedAddresses(origin: Origin, dependencies: ConnectServices): Promise<readonly string[]> {
  const { hostname, port } = origin;
  let addresses: readonly string[] = [hostname];
  if (!origin.literal) {
    try {
      addresses = await dependencies.resolve(hostname);
    } catch (error) {
      throw new ConnectFailure("dns", error);
    }
  }
  if (addresses.length === 0) {
    throw new ConnectFailure("dns");
  }
  // One of our own addresses disqualifies all, because the same party controls the others.
  if (!addresses.every((address) => dependencies.policy.allowsConnection({ hostname, address, port }))) {
    throw new ConnectFailure("refused");
  }
  const { isOwnAddress } = dependencies;
  const own = addresses.map(async (address) => (await isOwnAddress?.(address, port)) === true);
  // While our own names are unknown, any address may be ours.
  const areOwn = await Promise.all(own).catch((error: unknown) => {
    throw new ConnectFailure("refused", error);
  });
  if (areOwn.includes(true)) {
    throw new ConnectFailure("refused");
  }
  if ((await origin.admitAddresses?.(addresses)) === false) {
    throw new ConnectFailure("refused");
  }
  return addresses.slice(0, MAX_ADDRESSES);
}

/**
 * Connects to the first address that answers. A slow address stays in the race. `net.connect` with several addresses
 * would drop it after 250 ms. A receiver that takes 8 s to accept would be unreachable.
 */
function connectFirst(
  addresses: readonly string[],
  port: number,
  timers: Timers,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const sockets = new Set<Socket>();
    let next = 0;
    let timer: Timer | undefined;

    function settle(winner: Socket | null, cause?: unknown): void {
      timers.cancel(timer);
      signal.removeEventListener("abort", onAbort);
      next = addresses.length;
      for (const socket of sockets) {
        if (socket !== winner) {
          socket.destroy();
        }
      }
      if (winner === null) {
        reject(new ConnectFailure("connect", cause));
      } else {
        resolve(winner);
      }
    }
    function onAbort(): void {
      settle(null, signal.reason);
    }
    function tryNext(): void {
      timers.cancel(timer);
      const host = addresses[next];
      if (host === undefined) {
        return;
      }
      next += 1;
      const socket = connectTcp({ host, port, noDelay: true });
      sockets.add(socket);
      socket.on("error", ignoreError);
      socket.once("connect", () => {
        settle(socket);
      });
      socket.once("error", (error) => {
        sockets.delete(socket);
        tryNext();
        if (sockets.size === 0) {
          settle(null, error);
        }
      });
      if (next < addresses.length) {
        timer = timers.after(NEXT_ADDRESS_MS, tryNext);
      }
    }

    signal.addEventListener("abort", onAbort, { once: true });
    tryNext();
  });
}

async function connectDirectly(
  origin: Origin,
  dependencies: ConnectServices,
  signal: AbortSignal,
): Promise<Socket> {
  const addresses = await allowedAddresses(origin, dependencies);
  if (signal.aborted) {
    throw new ConnectFailure("connect", signal.reason);
  }
  const socket = await connectFirst(addresses, origin.port, dependencies.timers, signal);
  const { hostname, port } = origin;
  const address = socket.remoteAddress;
  if (address === undefined || !dependencies.policy.allowsConnection({ hostname, address, port })) {
    socket.destroy();
    throw new ConnectFailure(address === undefined ? "connect" : "refused");
  }
  return socket;
}

/** Checks what is possible if a proxy resolves the name: a literal address, but not a name. */
async function connectThroughProxy(
  proxy: OutboundProxy,
  origin: Origin,
  dependencies: ConnectServices,
  signal: AbortSignal,
): Promise<Socket> {
  const { hostname, port } = origin;
  if (origin.literal && !dependencies.policy.allowsConnection({ hostname, address: hostname, port })) {
    throw new ConnectFailure("refused");
  }
  return await openTunnel(proxy, origin, dependencies.secureContext, signal);
}

/**
 * Resolves, checks, connects and, for https, encrypts. Only `signal` limits its duration.
 *
 * @throws ConnectFailure
 */
export async function openConnection(
  origin: Origin,
  dependencies: ConnectServices,
  signal: AbortSignal,
): Promise<Socket> {
  const { proxy } = dependencies;
  const socket =
    proxy === null
      ? await connectDirectly(origin, dependencies, signal)
      : await connectThroughProxy(proxy, origin, dependencies, signal);
  const context = origin.secureContext ?? dependencies.secureContext;
  return origin.secure ? await encrypt(socket, origin, context, signal) : socket;
}
