/** Runs the `temporal` program as an operator does. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { inject } from "vitest";
import { eventually } from "./eventually.ts";
import type { World } from "./world.ts";

type Configured = Pick<World, "config">;

const run = promisify(execFile);

/**
 * A run that continues as new briefly rejects signals, another call may hold a workflow for five seconds, a namespace runs
 * one batch at a time, and a busy worker answers one query after the other.
 */
const BUSY = /workflow is closing|Workflow is busy|Max concurrent batch operations|query buffer is full/;

/** Runs one command against the world's namespace. Resolves with its output; rejects if it fails. */
export async function temporalCli({ config }: Configured, ...args: readonly string[]): Promise<string> {
  const command = async (): Promise<string> => {
    const { stdout } = await run(
      inject("temporalBinary"),
      [...args, "--address", config.temporalAddress, "--namespace", config.temporalNamespace],
      // HOME is the run's directory, so that the user's CLI settings are not read.
      { env: { PATH: process.env["PATH"] ?? "", HOME: inject("runDirectory") }, timeout: 30_000 },
    );
    return stdout;
  };
  try {
    return await command();
  } catch (error) {
    // The server has done nothing: another call held the workflow for five seconds.
    if (!String(error).includes("Workflow is busy")) {
      throw error;
    }
    return await command();
  }
}

/** Runs a schedule's workflow now. A server that says that the schedule is busy has done nothing. */
export async function triggerSchedule({ temporal }: Pick<World, "temporal">, id: string): Promise<void> {
  await eventually(async () => {
    await temporal.schedule.getHandle(id).trigger();
    return true;
  }, `the schedule ${id}`);
}

/**
 * Runs lines in bash, as if pasted, with `temporal` on the path and `TEMPORAL_ADDRESS` set. Rejects at the first that
 * fails.
 */
export async function paste(
  temporalAddress: string,
  lines: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { stdout } = await run(
    "bash",
    ["-euo", "pipefail", "-c", `temporal() { "$TEMPORAL_CLI" "$@"; }\n${lines}`],
    {
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: inject("runDirectory"),
        TEMPORAL_CLI: inject("temporalBinary"),
        TEMPORAL_ADDRESS: temporalAddress,
        ...environment,
      },
      timeout: 60_000,
    },
  );
  return stdout;
}

/**
 * Retries a command while the server rejects it with a text of {@link BUSY}, as an operator would. Rejects at any other
 * failure.
 */
export async function untilTaken(command: () => Promise<string>): Promise<string> {
  const answer = await eventually(
    async () =>
      await command().then(
        (printed) => ({ printed }),
        (error: unknown) => (BUSY.test(String(error)) ? undefined : { error }),
      ),
    "the server to accept the command",
  );
  if ("error" in answer) {
    throw answer.error;
  }
  return answer.printed;
}

/** Sends a signal to one workflow with the `temporal` program. */
export async function signalByCli(
  world: Configured,
  workflowId: string,
  name: string,
  ...args: readonly string[]
): Promise<string> {
  const command = ["workflow", "signal", "--workflow-id", workflowId, "--name", name, ...args];
  return await untilTaken(async () => await temporalCli(world, ...command));
}
