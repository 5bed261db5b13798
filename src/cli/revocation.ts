/** `… revoke`: emergency revocation, from the command line. */
import { Command } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { addReasoned, type ReasonedCommand } from "./reason.ts";

/** Adds `revoke <id>` to the command of a noun that has an id. */
export function addRevoke(noun: Command, context: CliContext, path: string): Command {
  addReasoned(noun, context, createAdminCall(context), {
    usage: "revoke <id>",
    description: "end it at once: its tokens are refused within 250 ms, and it gets no new ones",
    holds: true,
    request: (id) => ({ path: `/${path}/${segment(id)}/revoke` }),
  });
  return noun;
}

/** `signet token revoke` and `signet certificate revoke`: what the operators' API knows by its name alone. */
export function revocationCommands(context: CliContext): readonly Command[] {
  const call = createAdminCall(context);
  const revocable = (name: string, description: string, command: ReasonedCommand): Command => {
    const noun = new Command(name).description(description);
    addReasoned(noun, context, call, command);
    return noun;
  };
  return [
    revocable("token", "access tokens", {
      usage: "revoke <jti>",
      description: "refuse one access token, by its jti, within 250 ms",
      request: (target) => ({ path: "/revocations", body: { kind: "jti", target } }),
    }),
    revocable("certificate", "certificates of clients", {
      usage: "revoke <sha256>",
      description: "refuse a client certificate, and every token bound to it, from now on",
      request: (target) => ({ path: "/revocations", body: { kind: "cert", target } }),
    }),
  ];
}
