import { Command, Option } from "commander";
import { findCheckpointKey } from "#compliance/load-checkpoint-key.ts";
import { createAdminCall, type Resource, segment } from "./admin-client.ts";
import { type CliContext, CommandError } from "./context.ts";
import { withTable } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";
import { printReceipt } from "./receipt.ts";

const COLUMNS = ["kid", "purpose", "alg", "state", "created_at", "activated_at", "retired_at", "revoked_at"];

interface RotateOptions extends OutputOptions {
  readonly purpose?: string;
  readonly reason?: string;
}

/** Rewraps the keys in batches until none is left. */
async function rewrapAll(rewrap: (body: Resource) => Promise<Resource>): Promise<Resource> {
  let rewrapped = 0;
  const unreadable: unknown[] = [];
  let answer = await rewrap({});
  for (;;) {
    rewrapped += Number(answer["rewrapped"]);
    unreadable.push(...(answer["unreadable"] as unknown[]));
    if (answer["next_cursor"] === null) {
      return { kek_id: answer["kek_id"], rewrapped, unreadable };
    }
    answer = await rewrap({ cursor: answer["next_cursor"] });
  }
}

/** `signet keys list | rotate | revoke | rewrap | checkpoint-key`. */
export function keysCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const keys = new Command("keys").description("signing keys and key-encryption keys");

  withTable(keys.command("list").description("list the signing keys, newest first"))
    .option("--json", "print the API's object as JSON")
    .action(async (options: OutputOptions) => {
      printPage(context, await call("GET", "/signing-keys"), COLUMNS, options);
    });

  keys
    .command("rotate")
    .description(
      "make the next key sign once it has been published for an hour; creates one if there is none",
    )
    .addOption(
      new Option(
        "--purpose <purpose>",
        "what the key signs: access tokens (access, the default) or security events (set)",
      ).choices(["access", "set"]),
    )
    .option("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object as JSON")
    .action(async ({ purpose, reason, ...output }: RotateOptions) => {
      const body = {
        ...(purpose === undefined ? {} : { purpose }),
        ...(reason === undefined ? {} : { reason }),
      };
      printResource(context, await call("POST", "/signing-keys/rotate", body), output);
    });

  keys
    .command("revoke <kid>")
    // A thumbprint in base64url may begin with a hyphen.
    .allowUnknownOption()
    .description("emergency: immediately invalidate every token that the key signed")
    .requiredOption("--reason <text>", "for the compliance log; no personal data")
    .option("--json", "print the API's object as JSON")
    .action(async (kid: string, { reason, ...output }: OutputOptions & { readonly reason: string }) => {
      printReceipt(context, await call("POST", `/signing-keys/${segment(kid)}/revoke`, { reason }), output);
    });

  keys
    .command("rewrap")
    .description("wrap every key with the newest key-encryption key, while the service runs")
    .option("--json", "print the API's object as JSON")
    .action(async (options: OutputOptions) => {
      const result = await rewrapAll(async (body) => await call("POST", "/key-encryption/rewrap", body));
      printResource(context, result, options);
      if ((result["unreadable"] as unknown[]).length > 0) {
        throw new CommandError(
          "Some keys are wrapped by a key-encryption key that the service does not have: add it to SIGNET_KEK_PREVIOUS or to the key file.",
        );
      }
    });

  keys
    .command("checkpoint-key")
    .description(
      "print the verifier key of the compliance log's checkpoints, from SIGNET_CHECKPOINT_KEY(_FILE)",
    )
    .action(async () => {
      const key = await findCheckpointKey(context.settings());
      if (key === undefined) {
        throw new CommandError(
          "No checkpoint key: set SIGNET_CHECKPOINT_KEY or SIGNET_CHECKPOINT_KEY_FILE, as for the worker.",
        );
      }
      context.stdout(`${key.verifierKey}\n`);
    });

  return keys;
}
