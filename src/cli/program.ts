/** The `signet` command line: commands for processes, operators and tenants. */
import { Command, CommanderError } from "commander";
import { agentCommand } from "./agent.ts";
import { auditCommand } from "./audit.ts";
import { addTokenPrinting, sessionCommands } from "./client/session.ts";
import { complianceCommand } from "./client/compliance.ts";
import { deliveryCommand } from "./client/delivery.ts";
import { dlqCommand } from "./client/dlq.ts";
import { endpointCommand } from "./client/endpoint.ts";
import { eventCommand, triggerCommand } from "./client/event.ts";
import { eventTypeCommand } from "./client/event-type.ts";
import { listenCommand } from "./client/listen.ts";
import { portalCommand } from "./client/portal.ts";
import { replayCommand } from "./client/replay.ts";
import { capacityCommand } from "./capacity.ts";
import { completionCommand } from "./completion.ts";
import type { CliContext } from "./context.ts";
import { credentialCommand } from "./credential.ts";
import { devCaCommand } from "./dev-ca.ts";
import { CommandError, EXIT, EXIT_CODES, exitCodeOfError } from "./exit-codes.ts";
import { findCommand, whyCommand } from "./find.ts";
import { gradeCommand } from "./grade.ts";
import { keysCommand } from "./keys.ts";
import { operatorCommand } from "./operator.ts";
import { printable } from "./output.ts";
import { principalCommand } from "./principal.ts";
import { fieldSentences } from "./problem-text.ts";
import { PROCESS_COMMANDS, type ProcessName, type RunProcess } from "./process-commands.ts";
import { certificateCommand, revokeCommand, tokenCommand } from "./revocation.ts";
import { reconcileCommand } from "./reconcile.ts";
import { roleCommand } from "./role.ts";
import { streamCommand } from "./client/stream.ts";
import { tenantCommand } from "./tenant.ts";
import { SignetApiError } from "#lib/client/errors.ts";
import { topCommand } from "./top.ts";
import { VERSION } from "#runtime/package.ts";

export type ProcessRunners = Readonly<Record<ProcessName, RunProcess>>;

/** Returns the full command as people type it. */
function pathOf(command: Command, { program }: Pick<CliContext, "program">): string {
  const { parent } = command;
  return parent === null ? (program ?? command.name()) : `${pathOf(parent, { program })} ${command.name()}`;
}

/** Applies the output settings to every command; commander copies them only to commands that it creates itself. */
function adopt(program: Command, context: CliContext): void {
  program
    .exitOverride()
    .showHelpAfterError(`\`${pathOf(program, context)} --help\` shows the options.`)
    .configureOutput({
      writeOut: context.stdout,
      writeErr: context.stderr,
      // All other errors start with the same prefix.
      outputError: (text, write) => write(text.replace(/^error: /, "signet: ")),
    });
  for (const command of program.commands) {
    adopt(command, context);
  }
}

function addProcesses(program: Command, runners: ProcessRunners): void {
  program.commandsGroup("The service:");
  for (const { name, description, options = [] } of PROCESS_COMMANDS) {
    const command = program.command(name).description(description);
    for (const option of options) {
      command.option(option.flags, option.description);
    }
    command.action(async (given: Readonly<Record<string, unknown>>) => await runners[name](given));
  }
}

function addAll(program: Command, group: string, commands: readonly Command[]): void {
  program.commandsGroup(group);
  for (const command of commands) {
    program.addCommand(command);
  }
}

function exitCodesHelp(): string {
  return `\nExit codes:\n${EXIT_CODES.map(([code, meaning]) => `  ${code}  ${meaning}`).join("\n")}\n`;
}

/** Creates all commands; without runners, there are no commands that run a process. */
export function createProgram(context: CliContext, runners?: ProcessRunners): Command {
  const program = new Command("signet")
    .description("Short-lived signed tokens and signed webhooks")
    .version(VERSION, "--version", "show the version")
    .enablePositionalOptions()
    .addHelpText("after", exitCodesHelp());
  addAll(program, "Try it out:", [listenCommand(context), triggerCommand(context)]);
  addAll(program, "As a tenant:", [
    ...sessionCommands(context),
    addTokenPrinting(tokenCommand(context), context),
    endpointCommand(context),
    eventCommand(context),
    eventTypeCommand(context),
    deliveryCommand(context),
    dlqCommand(context),
    replayCommand(context),
    complianceCommand(context),
    streamCommand(context),
    gradeCommand(context),
    portalCommand(context),
    agentCommand(context),
  ]);
  addAll(program, "As an operator:", [
    topCommand(context),
    findCommand(context),
    whyCommand(context),
    reconcileCommand(context),
    tenantCommand(context),
    roleCommand(context),
    principalCommand(context),
    credentialCommand(context),
    revokeCommand(context),
    keysCommand(context),
    certificateCommand(context),
    operatorCommand(context),
    auditCommand(context),
    devCaCommand(context),
    capacityCommand(context),
  ]);
  if (runners !== undefined) {
    addProcesses(program, runners);
  }
  addAll(program, "This command line:", [completionCommand(program, context)]);
  adopt(program, context);
  return program;
}

/** Returns the error's message, which names invalid members by the command's flags. */
function messageFor(command: Command | undefined, error: Error): string {
  const { message } = error;
  if (!(error instanceof CommandError || error instanceof SignetApiError) || error.problem === undefined) {
    return message;
  }
  const sentences = fieldSentences(command, error.problem);
  const { detail } = error.problem;
  return sentences === undefined || typeof detail !== "string"
    ? message
    : message.replace(detail, () => sentences);
}

/**
 * Runs one command line.
 *
 * @param argv arguments after the program's name
 * @returns the exit code (exit-codes.ts)
 */
export async function runCommandLine(
  argv: readonly string[],
  context: CliContext,
  runners?: ProcessRunners,
): Promise<number> {
  let running: Command | undefined;
  const program = createProgram(context, runners).hook("preAction", (_program, command) => {
    running = command;
  });
  try {
    await program.parseAsync([...argv], { from: "user" });
    return EXIT.ok;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Commander has already printed the error.
      return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    }
    const code = exitCodeOfError(error);
    if (code === undefined) {
      throw error;
    }
    const lines = messageFor(running, error as Error)
      .split("\n")
      .map(printable);
    context.stderr(`signet: ${lines.join("\n")}\n`);
    return code;
  }
}
