/** `signet credential own …`: a tenant manages its own credentials. Operators use `signet credential` itself. */
import { Command } from "commander";
import type { CreatedCredential, NewCredential } from "#lib/client/api-types.ts";
import type { CliContext } from "../context.ts";
import { withTable } from "../list-options.ts";
import { type OutputOptions, printPage, printResource } from "../output.ts";
import { asTenant, objectArgument, wholeNumber, withExamples } from "./command.ts";
import { misused } from "../exit-codes.ts";
import { leakedText, type LeakOptions, withLeakInput } from "../leak.ts";
import { printReceipt } from "../receipt.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

interface CreateOptions extends ClientOptions {
  readonly principal?: string;
  readonly sanUri?: string;
  readonly certificateThumbprint?: readonly string[];
  readonly workload?: boolean;
  readonly jwks?: string;
  readonly overlap?: string;
}

interface ReasonOptions extends ClientOptions, LeakOptions {
  readonly reason?: string;
}

interface SigningOptions extends ClientOptions {
  readonly overlap?: string;
  readonly version?: string;
  readonly reason?: string;
}

function overlapOf({ overlap }: { readonly overlap?: string }): number | undefined {
  return overlap === undefined ? undefined : wholeNumber("--overlap", overlap);
}

/** Converts the options to the binding of a new credential. */
async function bindingOf(options: CreateOptions): Promise<NewCredential> {
  const { sanUri, certificateThumbprint, workload, jwks } = options;
  const credential: object = given({
    san_uri: sanUri,
    certificate_thumbprints: certificateThumbprint,
    rotation_mode: workload === true ? "workload" : undefined,
    jwks: jwks === undefined ? undefined : await objectArgument("--jwks", jwks),
  });
  return credential;
}

function withBinding(command: Command): Command {
  return command
    .option("--san-uri <uri>", "spiffe:// URI in the client's certificate")
    .option(
      "--certificate-thumbprint <sha256...>",
      "SHA-256 of the client's certificate, 64 hexadecimal digits",
    )
    .option("--workload", "no secret; the client authenticates with its certificate or its keys")
    .option("--jwks <json>", "the client's public keys as a JWK set, for --workload: JSON, @file, or -");
}

/** Prints a new credential, and a warning on standard error that its secret is shown only once. */
function printCreated(context: CliContext, created: CreatedCredential, options: ClientOptions): void {
  printResource(context, created, options);
  if (options.json !== true && created.client_secret !== undefined) {
    context.stderr("The secret is shown only once. `signet login --client-id …` saves it.\n");
  }
}

/** Prints a credential and, as a table, the versions of its secret. */
export function printCredential(
  context: CliContext,
  { versions, ...shown }: Readonly<Record<string, unknown>>,
  options: OutputOptions,
): void {
  if (options.json === true) {
    printResource(context, { ...shown, versions }, options);
    return;
  }
  printResource(context, shown, options);
  context.stdout("\n");
  const columns = ["version", "state", "issued_at", "due_at", "acked_at", "last_used_at", "retire_by"];
  printPage(context, { data: versions }, columns, options);
}

function addReads(own: Command, context: CliContext): void {
  const list = withPages(own.command("list").description("list the tenant's credentials, newest first"));
  asTenant<PageChoice>(list, context, async ({ signet, options }) => {
    const columns = [
      "id",
      "state",
      "client_id",
      "due_at",
      "overdue",
      "ends_at",
      "created_at",
      "principal_id",
    ];
    await printList(context, signet.credentials.list(pageOf(options)), columns, options);
  });
  const show = withTable(
    own
      .command("show <id>")
      .description("show one credential by its id or client id (cl_…), with the versions of its secret"),
  );
  asTenant(show, context, async ({ signet, target, options }) => {
    printCredential(context, { ...(await signet.credentials.get(target)) }, options);
  });
}

function addChanges(own: Command, context: CliContext): void {
  const create = withBinding(
    own
      .command("create")
      .description("add a credential; its secret is shown only once")
      .option("--principal <id>", "principal of the credential; default: the caller's own"),
  );
  asTenant<CreateOptions>(create, context, async ({ signet, options }) => {
    const body = { ...(await bindingOf(options)), ...given({ principal_id: options.principal }) };
    printCreated(context, await signet.credentials.create(body), options);
  });
  withExamples(
    create,
    "signet credential own create",
    "signet credential own create --json > credential.json",
  );

  const rotate = withBinding(
    own
      .command("rotate <id>")
      .description("create a credential that replaces another, which expires when the overlap ends")
      .option("--overlap <seconds>", "remaining lifetime of the old one, default one day; 0 ends it now"),
  );
  asTenant<CreateOptions>(rotate, context, async ({ signet, target, options }) => {
    const body = {
      replaces: target,
      ...(await bindingOf(options)),
      ...given({ overlap_seconds: overlapOf(options) }),
    };
    printCreated(context, await signet.credentials.create(body), options);
  });
  withExamples(rotate, "signet credential own rotate crd_… --overlap 3600");

  const revoke = own
    .command("revoke [leaked]")
    // A thumbprint in base64url may begin with a hyphen.
    .allowUnknownOption()
    .description(
      "revoke a credential permanently, by its id, cl_…, certificate, or what leaked; its tokens are rejected within 250 ms",
    );
  withLeakInput(revoke).option("--reason <text>", "for the compliance log; no personal data");
  asTenant<ReasonOptions>(revoke, context, async ({ signet, args, options }) => {
    const leaked = await leakedText(context, args[0], options);
    const reason = given({ reason: options.reason });
    // An earlier version of the service has only this route.
    const revoked = leaked.startsWith("crd_")
      ? signet.credentials.revoke(leaked, reason)
      : signet.credentials.revokeLeaked(leaked, reason);
    printReceipt(context, await revoked, options);
  });
  withExamples(
    revoke,
    "signet credential own revoke cl_… --reason leaked",
    "signet credential own revoke --secret-stdin < secret.txt",
  );
  const require = own
    .command("require-signature <id> <on|off>")
    .description("require a signature for publishing; with `on`, a token alone is not enough");
  asTenant(require, context, async ({ signet, target, args, options }) => {
    const wanted = args[1];
    if (wanted !== "on" && wanted !== "off") {
      throw misused("require-signature takes on or off.");
    }
    printResource(context, await signet.credentials.requireSignature(target, wanted === "on"), options);
  });
}

const VERSION_COLUMNS = [
  "version",
  "state",
  "fingerprint",
  "created_at",
  "last_used_at",
  "ends_at",
  "revoked_at",
];

function signingSecretCommand(context: CliContext): Command {
  const secret = new Command("signing-secret").description(
    "secrets that a credential signs its publish requests with",
  );
  const list = withTable(
    secret.command("list <credential>").description("list the versions without their values"),
  );
  asTenant(list, context, async ({ signet, target, options }) => {
    printPage(context, { data: await signet.credentials.signingSecrets(target) }, VERSION_COLUMNS, options);
  });
  const create = secret
    .command("create <credential>")
    .description("create the first or the next version; it is shown only once")
    .option(
      "--overlap <seconds>",
      "remaining lifetime of the old version, default one day; 0 ends all others",
    );
  asTenant<SigningOptions>(create, context, async ({ signet, target, options }) => {
    const created = await signet.credentials.createSigningSecret(
      target,
      given({ overlapSeconds: overlapOf(options) }),
    );
    printResource(context, created, options);
  });
  const revoke = withTable(
    secret
      .command("revoke <credential>")
      .description("revoke versions immediately and erase them")
      .option("--version <number>", "version to revoke; default: all")
      .option("--reason <text>", "for the compliance log; no personal data"),
  );
  asTenant<SigningOptions>(revoke, context, async ({ signet, target, options }) => {
    const version = options.version === undefined ? undefined : wholeNumber("--version", options.version);
    const data = await signet.credentials.revokeSigningSecrets(
      target,
      given({ version, reason: options.reason }),
    );
    printPage(context, { data }, VERSION_COLUMNS, options);
  });
  return secret;
}

/** Adds `own` to `signet credential`. */
export function addOwn(credential: Command, context: CliContext): Command {
  const own = new Command("own").description("a tenant's own credentials, through the tenants' API");
  addReads(own, context);
  addChanges(own, context);
  own.addCommand(signingSecretCommand(context));
  return credential.addCommand(own);
}
