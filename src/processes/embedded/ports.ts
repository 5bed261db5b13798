/** Checks ports before anything starts, so that a taken one is reported in a sentence, not a stack trace. */
import { connect, createServer } from "node:net";
import { hasCode, startUpError } from "./start-up-error.ts";

export interface PortUse {
  /** User of the port, for the message: "the embedded PostgreSQL". */
  readonly what: string;
  readonly host: string;
  readonly port: number;
  /** The setting that changes it. */
  readonly setting: string;
}

/** Whether the port is free for this process. */
export async function isPortFree(host: string, port: number): Promise<boolean> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error) => {
      if (hasCode(error, "EADDRINUSE", "EACCES")) {
        resolve(false);
      } else {
        reject(error);
      }
    });
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** Whether something accepts connections on the port. */
export async function isListening(host: string, port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ host, port });
    socket.once("error", () => resolve(false));
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** @throws SignetError `UNAVAILABLE` if the port is taken; the message names its setting and the fix */
export async function requireFreePort({ what, host, port, setting }: PortUse): Promise<void> {
  if (!(await isPortFree(host, port))) {
    throw startUpError(
      `port ${port} on ${host} is taken, and ${what} needs it: stop the program that has it, or set ${setting} to a free port`,
    );
  }
}
