/** The connection that a process or hub keeps to one hub. */
import type { Logger } from "#observability/logger.ts";
import { KeptConnection, type KeptOptions } from "#runtime/kept-connection.ts";
import type { HubConnection, OpenHubConnection } from "./hub-messages.ts";

export interface KeptHubOptions extends Pick<KeptOptions<HubConnection>, "onOpen" | "timers"> {
  readonly open: OpenHubConnection;
  readonly onMessage: (text: string) => void;
  /** Called when the connection in use is lost. */
  readonly onLost: (error: unknown) => void;
  readonly log: Logger;
}

/** Returns a connection to a hub, which `start` opens. */
export function keepHubConnection(
  hub: string,
  { open, onMessage, onOpen, onLost, timers, log }: KeptHubOptions,
): KeptConnection<HubConnection> {
  /** Of the last warning since a connection was open. Attempts are many, and mostly fail alike. */
  let said: string | undefined;
  const kept = new KeptConnection<HubConnection>({
    open: async ({ signal, isCurrent, onLost: onClose }) => {
      const onPong = (): void => {
        if (isCurrent()) {
          kept.heard();
        }
      };
      return await open(
        hub,
        {
          onMessage: (text) => {
            if (isCurrent()) {
              kept.heard();
              onMessage(text);
            }
          },
          onPong,
          onClose,
        },
        signal,
      );
    },
    close: (connection) => connection.close(),
    probe: (connection) => connection.ping?.(),
    onOpen: (connection) => {
      said = undefined;
      onOpen(connection);
    },
    onLost: (error) => {
      log.warn({ err: error, hub }, "the connection to a hub is lost");
      onLost(error);
    },
    onFailed: (error) => {
      const { message } = error as Error;
      if (message !== said) {
        said = message;
        log.warn({ err: error, hub }, "a hub cannot be reached");
      }
    },
    timers,
  });
  return kept;
}
