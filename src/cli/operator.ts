import { Command, Option } from "commander";
import { OPERATOR_ROLES } from "#domain/operator-roles.ts";
import { type AdminCall, createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { misused } from "./exit-codes.ts";
import { type ListOptions, listQuery, withListOptions } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";
import { addReasoned } from "./reason.ts";

interface SettingsOptions extends OutputOptions {
  readonly role?: string;
  readonly sanUri?: string;
  readonly certificateThumbprint?: readonly string[];
}

function settingsBody({ role, sanUri, certificateThumbprint }: SettingsOptions) {
  return {
    ...(role === undefined ? {} : { role }),
    ...(sanUri === undefined ? {} : { san_uri: sanUri }),
    ...(certificateThumbprint === undefined ? {} : { certificate_thumbprints: certificateThumbprint }),
  };
}

function roleOption(): Option {
  return new Option("--role <role>", "role of the operator").choices(OPERATOR_ROLES);
}

function withCertificateOptions(command: Command): Command {
  return command
    .option("--san-uri <uri>", "spiffe:// URI in the operator's certificate")
    .option(
      "--certificate-thumbprint <sha256...>",
      "SHA-256 of the operator's certificate, 64 hexadecimal digits",
    )
    .option("--json", "print the API's object as JSON");
}

/** `signet operator create | update | revoke | list | show | token`. */
export function operatorCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const operator = new Command("operator").description("people and programs that may use the operators' API");
  addChanges(operator, context, call);

  withListOptions(operator.command("list").description("list operators, newest first")).action(
    async (options: ListOptions) => {
      const page = await call("GET", `/operators${listQuery(options)}`);
      printPage(context, page, ["id", "name", "role", "state", "created_at"], options);
    },
  );

  operator
    .command("show <id>")
    .description("show one operator")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("GET", `/operators/${segment(id)}`), options);
    });

  operator.addCommand(tokenCommand(context, call));
  return operator;
}

function addChanges(operator: Command, context: CliContext, call: AdminCall): void {
  withCertificateOptions(
    operator
      .command("create <name>")
      .description("add an operator; give it a token with `token create`, or a certificate")
      .addOption(roleOption().makeOptionMandatory()),
  ).action(async (name: string, options: SettingsOptions) => {
    printResource(context, await call("POST", "/operators", { name, ...settingsBody(options) }), options);
  });

  withCertificateOptions(
    operator
      .command("update <id>")
      .description("change an operator's role or certificates")
      .addOption(roleOption()),
  ).action(async (id: string, options: SettingsOptions) => {
    const change = settingsBody(options);
    if (Object.keys(change).length === 0) {
      throw misused("Nothing to change: give at least one setting.");
    }
    printResource(context, await call("PATCH", `/operators/${segment(id)}`, change), options);
  });

  addReasoned(operator, context, call, {
    usage: "revoke <id>",
    description: "permanently revoke an operator with all its tokens and certificates",
    request: (id) => ({ path: `/operators/${segment(id)}/revoke` }),
  });
}

/** `signet operator token create | revoke | list`. */
function tokenCommand(context: CliContext, call: AdminCall): Command {
  const token = new Command("token").description("tokens of operators");

  token
    .command("create <operator>")
    .description("create a token for an operator; it is shown only once")
    .option("--days <number>", "lifetime in days, 1 to 366", Number)
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, { days, ...output }: OutputOptions & { readonly days?: number }) => {
      const body = days === undefined ? {} : { expires_in_days: days };
      printResource(context, await call("POST", `/operators/${segment(id)}/tokens`, body), output);
    });

  token
    .command("revoke <operator> <token>")
    .description("revoke one token of an operator, by the token's id")
    .action(async (id: string, tokenId: string) => {
      await call("DELETE", `/operators/${segment(id)}/tokens/${segment(tokenId)}`);
    });

  withListOptions(
    token.command("list <operator>").description("list an operator's tokens, newest first"),
  ).action(async (id: string, options: ListOptions) => {
    const page = await call("GET", `/operators/${segment(id)}/tokens${listQuery(options)}`);
    printPage(context, page, ["id", "prefix", "expires_at", "last_used_at", "revoked_at"], options);
  });

  return token;
}
