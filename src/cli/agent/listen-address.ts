/** Where the agent may listen: on this machine only. Whoever can ask it gets tokens. */
import { isIPv4 } from "node:net";
import { listen } from "../../config/setting.ts";

const UNIX_PREFIX = "unix:";
/** The longest path that a socket address holds on every system (sun_path less its end). */
const UNIX_PATH_MAX = 103;

export type AgentAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/**
 * Reads `127.0.0.1:8085`, `[::1]:8085` or `unix:/run/signet/agent.sock`. Names are refused: what they stand for may
 * change.
 *
 * @throws Error that says what is wrong
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
    throw new Error(`${host} is not a loopback address: the agent hands tokens to whoever reaches it`);
  }
  return { kind: "tcp", host, port };
}
