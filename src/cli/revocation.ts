/** `… revoke`: emergency revocation. */
import { Command } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { addReasoned, type ReasonedCommand } from "./reason.ts";

/** Adds `revoke <id>` to a noun's command. */
export function addRevoke(noun: Command, context: CliContext, path: string): Command {
  addReasoned(noun, context, createAdminCall(context), {
    usage: "revoke <id>",
    description: "revoke immediately: current tokens are rejected within 250 ms, and no new ones are issued",
    holds: true,
    request: (id) => ({ path: `/${path}/${segment(id)}/revoke` }),
  });
  return noun;
}

function revocable(noun: Command, context: CliContext, command: ReasonedCommand): Command {
  addReasoned(noun, context, createAdminCall(context), command);
  return noun;
}

/** `signet token`, with `revoke` for operators, who identify a token only by its jti. */
export function tokenCommand(context: CliContext): Command {
  const token = new Command("token")
    .description("print an access token; operators revoke one with `revoke`")
    // Options after `revoke` belong to `revoke`.
    .enablePositionalOptions();
  return revocable(token, context, {
    usage: "revoke <jti>",
    hyphens: true,
    description: "revoke one access token by its jti; it is rejected within 250 ms",
    request: (target) => ({ path: "/revocations", body: { kind: "jti", target } }),
  });
}

/** `signet certificate revoke`. */
export function certificateCommand(context: CliContext): Command {
  return revocable(new Command("certificate").description("certificates of clients"), context, {
    usage: "revoke <sha256>",
    description: "revoke a client certificate and every token bound to it",
    request: (target) => ({ path: "/revocations", body: { kind: "cert", target } }),
  });
}
