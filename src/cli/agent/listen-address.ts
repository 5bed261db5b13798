/** The agent's listen address: local only, because every caller that reaches the agent gets tokens. */
import { isIPv4 } from "node:net";
import { listen } from "#config/setting.ts";

const UNIX_PREFIX = "unix:";
/** The longest path that fits a socket address on every system (sun_path minus its terminator), in bytes. */
const UNIX_PATH_MAX = 103;

export type AgentAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/**
 * Parses `127.0.0.1:8085`, `[::1]:8085` or `unix:/run/signet/agent.sock`. Rejects host names, because they may
 * resolve to another address later.
 *
 * @throws Error that describes the fault
 */
export function parseAgentAddress(text: string): AgentAddress {
  if (text.startsWith(UNIX_PREFIX)) {
    const path = text.slice(UNIX_PREFIX.length);
    if (!path.startsWith("/") || Buffer.byteLength(path) > UNIX_PATH_MAX) {
      throw new Error(`a unix socket needs an absolute path of at most ${UNIX_PATH_MAX} bytes`);
    }
    return { kind: "unix", path };
  }
  const { host, port } = listen(text);
  if (host !== "::1" && !(isIPv4(host) && host.startsWith("127."))) {
    throw new Error(
      `${host} is not a loopback address: the agent gives tokens to every caller that reaches it`,
    );
  }
  return { kind: "tcp", host, port };
}
