/** Ports are looked at before anything starts, so that a taken one is a sentence and not a stack trace. */
import { connect, createServer } from "node:net";
import { hasCode, startUpError } from "./start-up-error.ts";

export interface PortUse {
  /** Who wants it, for the message: "the embedded PostgreSQL". */
  readonly what: string;
  readonly host: string;
  readonly port: number;
  /** The setting that moves it. */
  readonly setting: string;
}

/** Whether nothing listens on the port, and this process may. */
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

/** @throws SignetError `UNAVAILABLE` when the port is taken: which, by which setting it moves, what to do */
export async function requireFreePort({ what, host, port, setting }: PortUse): Promise<void> {
  if (!(await isPortFree(host, port))) {
    throw startUpError(
      `port ${port} on ${host} is taken, and ${what} needs it: stop the program that has it, or set ${setting} to a free port`,
    );
  }
}
