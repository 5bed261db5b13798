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

function revocable(noun: Command, context: CliContext, command: ReasonedCommand): Command {
  addReasoned(noun, context, createAdminCall(context), command);
  return noun;
}

/** `signet token`, with `revoke` for operators: they know a token by its name alone. */
export function tokenCommand(context: CliContext): Command {
  const token = new Command("token")
    .description("print an access token; `revoke`, for operators, ends one")
    // What stands behind `revoke` belongs to that.
    .enablePositionalOptions();
  return revocable(token, context, {
    usage: "revoke <jti>",
    hyphens: true,
    description: "refuse one access token, by its jti, within 250 ms",
    request: (target) => ({ path: "/revocations", body: { kind: "jti", target } }),
  });
}

/** `signet certificate revoke`. */
export function certificateCommand(context: CliContext): Command {
  return revocable(new Command("certificate").description("certificates of clients"), context, {
    usage: "revoke <sha256>",
    description: "refuse a client certificate, and every token bound to it, from now on",
    request: (target) => ({ path: "/revocations", body: { kind: "cert", target } }),
  });
}
