/** The `signet` command line: processes and the operators' nouns. */
import { Command, CommanderError } from "commander";
import { ConfigError } from "../config.ts";
import { agentCommand } from "./agent.ts";
import { type CliContext, CommandError } from "./context.ts";
import { auditCommand } from "./audit.ts";
import { credentialCommand } from "./credential.ts";
import { devCaCommand } from "./dev-ca.ts";
import { gradeCommand } from "./grade.ts";
import { operatorCommand } from "./operator.ts";
import { keysCommand } from "./keys.ts";
import { principalCommand } from "./principal.ts";
import { revocationCommands } from "./revocation.ts";
import { roleCommand } from "./role.ts";
import { tenantCommand } from "./tenant.ts";

const EXIT_OK = 0;
export const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

/** A command that runs a process: what it does, and how it is started. */
export interface ProcessCommand {
  readonly name: string;
  readonly description: string;
  readonly options?: readonly { readonly flags: string; readonly description: string }[];
  /** Gets the options by name. */
  readonly run: (options: Readonly<Record<string, unknown>>) => Promise<void>;
}

/** Passes the output settings on to every command: commander copies them only to those it makes itself. */
function adopt(program: Command, context: CliContext): void {
  program.exitOverride().configureOutput({ writeOut: context.stdout, writeErr: context.stderr });
  for (const command of program.commands) {
    adopt(command, context);
  }
}

function createProgram(context: CliContext, processes: readonly ProcessCommand[]): Command {
  const program = new Command("signet").description("Short-lived signed tokens and signed webhooks");
  for (const { name, description, options = [], run } of processes) {
    const command = program.command(name).description(description);
    for (const option of options) {
      command.option(option.flags, option.description);
    }
    command.action(async (given: Readonly<Record<string, unknown>>) => await run(given));
  }
  program.addCommand(agentCommand(context));
  program.addCommand(gradeCommand(context));
  program.addCommand(tenantCommand(context));
  program.addCommand(roleCommand(context));
  program.addCommand(principalCommand(context));
  program.addCommand(credentialCommand(context));
  program.addCommand(keysCommand(context));
  for (const command of revocationCommands(context)) {
    program.addCommand(command);
  }
  program.addCommand(devCaCommand(context));
  program.addCommand(operatorCommand(context));
  program.addCommand(auditCommand(context));
  adopt(program, context);
  return program;
}

/**
 * Runs one command line.
 *
 * @param argv what stands behind the program's name
 * @returns the exit code: 0, 1 when the command failed, 2 when it was not understood
 */
export async function runCommandLine(
  argv: readonly string[],
  context: CliContext,
  processes: readonly ProcessCommand[] = [],
): Promise<number> {
  try {
    await createProgram(context, processes).parseAsync([...argv], { from: "user" });
    return EXIT_OK;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has printed what it has to say.
      return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
    }
    if (error instanceof CommandError || error instanceof ConfigError) {
      context.stderr(`signet: ${error.message}\n`);
      return EXIT_FAILED;
    }
    throw error;
  }
}
