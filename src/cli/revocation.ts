/** `… revoke`: emergency revocation, from the command line. */
import { Command } from "commander";
import { type AdminCall, createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printResource } from "./output.ts";

interface RevokeOptions extends OutputOptions {
  readonly reason?: string;
}

interface RevokeCommand {
  readonly argument: string;
  readonly description: string;
  /** Path and body of the request that revokes the argument. */
  readonly request: (target: string) => { readonly path: string; readonly body?: object };
}

function addCommand(noun: Command, context: CliContext, call: AdminCall, revoke: RevokeCommand): void {
  noun
    .command(`revoke <${revoke.argument}>`)
    .description(revoke.description)
    .option("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object")
    .action(async (target: string, { reason, ...output }: RevokeOptions) => {
      const { path, body } = revoke.request(target);
      const given = reason === undefined ? body : { ...body, reason };
      printResource(context, await call("POST", path, { ...given }), output);
    });
}

/** Adds `revoke <id>` to the command of a noun that has an id. */
export function addRevoke(noun: Command, context: CliContext, path: string): Command {
  addCommand(noun, context, createAdminCall(context), {
    argument: "id",
    description: "end it at once: its tokens are refused within 250 ms, and it gets no new ones",
    request: (id) => ({ path: `/${path}/${segment(id)}/revoke` }),
  });
  return noun;
}

/** `signet token revoke` and `signet certificate revoke`: what the operators' API knows by its name alone. */
export function revocationCommands(context: CliContext): readonly Command[] {
  const call = createAdminCall(context);
  const revocable = (name: string, description: string, command: RevokeCommand): Command => {
    const noun = new Command(name).description(description);
    addCommand(noun, context, call, command);
    return noun;
  };
  return [
    revocable("token", "access tokens", {
      argument: "jti",
      description: "refuse one access token, by its jti, within 250 ms",
      request: (target) => ({ path: "/revocations", body: { kind: "jti", target } }),
    }),
    revocable("certificate", "certificates of clients", {
      argument: "sha256",
      description: "refuse a client certificate, and every token bound to it, from now on",
      request: (target) => ({ path: "/revocations", body: { kind: "cert", target } }),
    }),
  ];
}
