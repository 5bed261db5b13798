/** Runs one command line in this process: its settings, its terminal and its exit code. */
import { EXIT } from "#cli/exit-codes.ts";
import { lightFetch } from "#cli/light-fetch.ts";
import { writerTo } from "#cli/output.ts";
import { type ProcessRunners, runCommandLine } from "#cli/program.ts";
import {
  clientSettingsFromProcess,
  type Config,
  operatorSettingsFromProcess,
  settingWarningsFromProcess,
  startedByNpx,
  wantsColour,
} from "#config/config.ts";
import { SignetError } from "#domain/errors.ts";
import { requireServerNames } from "#lib/server-identity.ts";
import type { Logger } from "#observability/logger.ts";
import { acceptInterimResponses } from "#runtime/interim-responses.ts";
import { NPX_SIGNET } from "#runtime/package.ts";

/** Loads the logger of a server, and warns of variables that are no settings. */
export async function createServerLog(level: Config["logLevel"]): Promise<Logger> {
  const log = await createLog(level);
  for (const warning of settingWarningsFromProcess()) {
    log.warn(warning);
  }
  return log;
}

/** Loads the logger. Commands that only call the API start without it. */
export async function createLog(level: Config["logLevel"]): Promise<Logger> {
  const { createLogger } = await import("#observability/logger.ts");
  return createLogger({ level });
}

/**
 * Runs the command line of this process, and sets or uses its exit code.
 *
 * @param runners run the service; without them, there are no commands for it
 */
export async function runHere(runners?: ProcessRunners): Promise<void> {
  const { stdout, stderr, argv } = process;
  acceptInterimResponses();
  requireServerNames();
  // The reader closed the pipe, as `head` does.
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") {
      stderr.write(`signet: the output cannot be written: ${error.message}\n`);
    }
    process.exit(EXIT.failed);
  });
  let warned = false;
  /** Warns at the first use of the settings: commands without settings have nothing to mistype. */
  const warning = <T>(load: () => T): (() => T) => {
    return () => {
      for (const text of warned ? [] : settingWarningsFromProcess(true)) {
        stderr.write(`signet: ${text}\n`);
      }
      warned = true;
      return load();
    };
  };
  try {
    const code = await runCommandLine(
      argv.slice(2),
      {
        settings: warning(operatorSettingsFromProcess),
        clientSettings: warning(clientSettingsFromProcess),
        stdout: writerTo(stdout),
        stderr: writerTo(stderr),
        fetch: lightFetch,
        program: startedByNpx() ? NPX_SIGNET : "signet",
        terminal: {
          colour: wantsColour(stdout.isTTY),
          columns: stdout.isTTY ? stdout.columns : undefined,
          progress: stderr.isTTY,
          screen: stdout.isTTY,
        },
      },
      runners,
    );
    process.exitCode = code;
    if (code !== EXIT.ok) {
      // Connections that were opened before the failure would keep the process alive.
      process.exit();
    }
  } catch (error) {
    if (error instanceof SignetError) {
      // Written for people: the problem and its fix.
      writerTo(stderr)(`signet: ${error.message}\n`);
    } else {
      (await createLog("info")).fatal({ err: error }, "could not start");
    }
    // Connections that were opened before the failure would keep the process alive.
    process.exit(EXIT.failed);
  }
}
