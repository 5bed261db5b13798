/** Commands that take a `--reason`: what operators end, and begin again. */
import type { Command } from "commander";
import type { AdminCall } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printResource } from "./output.ts";

export interface ReasonedCommand {
  /** Its name and its one argument, as in `revoke <id>`. */
  readonly usage: string;
  readonly description: string;
  /** The argument may begin with a hyphen, as what is written in base64url may. */
  readonly hyphens?: boolean;
  /** Takes `--hold`, which also lets the tenant's deliveries wait. */
  readonly holds?: boolean;
  /** Path and body of the request about the argument. */
  readonly request: (target: string) => { readonly path: string; readonly body?: object };
}

interface ReasonOptions extends OutputOptions {
  readonly reason?: string;
  readonly hold?: boolean;
}

/** Adds the command to its noun: it posts the request, with the reason if there is one. */
export function addReasoned(
  noun: Command,
  context: CliContext,
  call: AdminCall,
  { usage, description, hyphens = false, holds, request }: ReasonedCommand,
): void {
  const command = noun.command(usage).allowUnknownOption(hyphens);
  if (holds === true) {
    command.option(
      "--hold",
      "also let the tenant's deliveries wait, and keep its endpoints' secrets as they are",
    );
  }
  command
    .description(description)
    .option("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object")
    .action(async (target: string, { reason, hold, ...output }: ReasonOptions) => {
      const { path, body } = request(target);
      const given = {
        ...body,
        ...(reason === undefined ? {} : { reason }),
        ...(hold === true ? { scope: "tenant" } : {}),
      };
      printResource(context, await call("POST", path, given), output);
    });
}
