/** Operators' commands with a `--reason`, such as suspend and resume. */
import type { Command } from "commander";
import type { AdminCall } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import type { OutputOptions } from "./output.ts";
import { printReceipt } from "./receipt.ts";

export interface ReasonedCommand {
  /** Name of the command and its one argument, for instance `revoke <id>`. */
  readonly usage: string;
  readonly description: string;
  /** True if the argument may begin with a hyphen, like base64url text. */
  readonly hyphens?: boolean;
  /** True if the command has `--hold`, which also pauses the tenant's deliveries. */
  readonly holds?: boolean;
  /** Returns path and body of the request for the argument. */
  readonly request: (target: string) => { readonly path: string; readonly body?: object };
}

interface ReasonOptions extends OutputOptions {
  readonly reason?: string;
  readonly hold?: boolean;
}

/** Adds the command, which posts the request with the optional reason. */
export function addReasoned(
  noun: Command,
  context: CliContext,
  call: AdminCall,
  { usage, description, hyphens = false, holds, request }: ReasonedCommand,
): void {
  const command = noun.command(usage).allowUnknownOption(hyphens);
  if (holds === true) {
    command.option("--hold", "also pause the tenant's deliveries and freeze its endpoints' secrets");
  }
  command
    .description(description)
    .option("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object as JSON")
    .action(async (target: string, { reason, hold, ...output }: ReasonOptions) => {
      const { path, body } = request(target);
      const given = {
        ...body,
        ...(reason === undefined ? {} : { reason }),
        ...(hold === true ? { scope: "tenant" } : {}),
      };
      printReceipt(context, await call("POST", path, given), output);
    });
}
