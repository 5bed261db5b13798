/** `signet revoke` and `… revoke`: emergency revocation. */
import { Command, Option } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { withExamples } from "./client/command.ts";
import { leakedText, type LeakOptions, withLeakInput } from "./leak.ts";
import type { OutputOptions } from "./output.ts";
import { addReasoned, type ReasonedCommand } from "./reason.ts";
import { printReceipt } from "./receipt.ts";

interface RevokeOptions extends OutputOptions, LeakOptions {
  readonly reason?: string;
  readonly hold?: boolean;
  readonly wait?: string;
}

/** `signet revoke`: revokes whatever leaked, of any tenant. */
export function revokeCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const command = new Command("revoke")
    .description("revoke what leaked, immediately: the service finds the object")
    .argument(
      "[leaked]",
      "cl_… or crd_… of a credential, a key id, the SHA-256 of a certificate, or the jti of a token",
    )
    // A thumbprint in base64url may begin with a hyphen.
    .allowUnknownOption();
  withLeakInput(command)
    .option("--hold", "also pause the tenant's deliveries and freeze its endpoints' secrets")
    .option("--reason <text>", "for the compliance log; no personal data; required for a key id")
    .addOption(
      new Option("--wait <whom>", "whom the receipt waits for, at most 250 ms").choices([
        "all",
        "region",
        "none",
      ]),
    )
    .option("--json", "print the API's object as JSON")
    .action(async (leaked: string | undefined, { reason, hold, wait, json, ...input }: RevokeOptions) => {
      const body = {
        target: await leakedText(context, leaked, input),
        ...(reason === undefined ? {} : { reason }),
        ...(hold === true ? { scope: "tenant" } : {}),
      };
      const path = wait === undefined ? "/revocations" : `/revocations?wait=${wait}`;
      printReceipt(context, await call("POST", path, body), json === undefined ? {} : { json });
    });
  return withExamples(
    command,
    "signet revoke cl_… --reason leaked",
    "signet revoke --secret-stdin --reason leaked < secret.txt",
    "signet revoke --token-stdin < token.txt",
  );
}

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
