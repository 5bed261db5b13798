/** Commands that take a `--reason`: what operators end, and begin again. */
import type { Command } from "commander";
import type { AdminCall } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printResource } from "./output.ts";

export interface ReasonedCommand {
  /** Its name and its one argument, as in `revoke <id>`. */
  readonly usage: string;
  readonly description: string;
  /** Path and body of the request about the argument. */
  readonly request: (target: string) => { readonly path: string; readonly body?: object };
}

/** Adds the command to its noun: it posts the request, with the reason if there is one. */
export function addReasoned(
  noun: Command,
  context: CliContext,
  call: AdminCall,
  { usage, description, request }: ReasonedCommand,
): void {
  noun
    .command(usage)
    .description(description)
    .option("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object")
    .action(async (target: string, { reason, ...output }: OutputOptions & { readonly reason?: string }) => {
      const { path, body } = request(target);
      const given = reason === undefined ? body : { ...body, reason };
      printResource(context, await call("POST", path, { ...given }), output);
    });
}
