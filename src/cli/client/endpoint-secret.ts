/** `signet endpoint secret list | rotate | activate | update`. */
import { Command, Option } from "commander";
import type { SecretSettings } from "#lib/client/resources/types.ts";
import type { CliContext } from "../context.ts";
import { withTable } from "../list-options.ts";
import { printPage, printResource } from "../output.ts";
import { asTenant, objectOrNull, wholeNumber, withExamples } from "./command.ts";
import { misused } from "../exit-codes.ts";
import { given } from "./given.ts";
import type { ClientOptions } from "./open-client.ts";

const COLUMNS = ["version", "state", "fingerprint", "created_at", "current_at", "signs_until", "public_key"];

interface RotateOptions extends ClientOptions {
  readonly overlap?: string;
  readonly secret?: string;
}

interface UpdateOptions extends ClientOptions {
  readonly signing?: SecretSettings["signing"];
  readonly rotationDays?: string;
  readonly recipient?: string;
}

export function endpointSecretCommand(context: CliContext): Command {
  const secret = new Command("secret").description("secrets that sign an endpoint's deliveries");

  const list = withTable(
    secret.command("list <endpoint>").description("list the versions without their values, newest first"),
  );
  asTenant(list, context, async ({ signet, target, options }) => {
    printPage(context, await signet.endpoints.secrets.list(target), COLUMNS, options);
  });

  const rotate = secret
    .command("rotate <endpoint>")
    .description("start a rotation: both secrets sign until the overlap ends")
    .option("--overlap <seconds>", "0 to 604800, default one day; 0 replaces every secret at once")
    .option("--secret <secret>", "your own secret: whsec_ and base64; by default the service generates one");
  asTenant<RotateOptions>(rotate, context, async ({ signet, target, options }) => {
    const { overlap, secret: own, ...output } = options;
    const rotation = given({
      overlap_seconds: overlap === undefined ? undefined : wholeNumber("--overlap", overlap),
      secret: own,
    });
    printResource(context, await signet.endpoints.secrets.rotate(target, rotation), output);
  });
  withExamples(rotate, "signet endpoint secret rotate ep_… --overlap 3600");

  const activate = withTable(
    secret.command("activate <endpoint>").description("make the next secret sign first, ahead of schedule"),
  );
  asTenant(activate, context, async ({ signet, target, options }) => {
    printPage(context, await signet.endpoints.secrets.activate(target), COLUMNS, options);
  });

  const update = withTable(
    secret
      .command("update <endpoint>")
      .description("change the kind of signature and the automatic rotation")
      .addOption(new Option("--signing <scheme>", "kind of signature").choices(["hmac-sha256", "ed25519"]))
      .option("--rotation-days <days>", "days between automatic rotations: 1 to 365, or never")
      .option("--recipient <jwk>", "public JWK to encrypt new secrets to: JSON, @file, or null"),
  );
  asTenant<UpdateOptions>(update, context, async ({ signet, target, options }) => {
    const { signing, rotationDays: days, recipient, ...output } = options;
    const change = given({
      signing,
      rotation_days:
        days === undefined ? undefined : days === "never" ? null : wholeNumber("--rotation-days", days),
      recipient: recipient === undefined ? undefined : await objectOrNull("--recipient", recipient),
    });
    if (Object.keys(change).length === 0) {
      throw misused("Nothing to change: give at least one setting.");
    }
    printPage(context, await signet.endpoints.secrets.update(target, change), COLUMNS, output);
  });
  return secret;
}
