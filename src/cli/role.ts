import { Command } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type ListOptions, listQuery, withListOptions } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";

interface CreateOptions extends OutputOptions {
  readonly tenant: string;
  readonly scopes: string;
}

type UpdateOptions = Omit<CreateOptions, "tenant">;

function scopeList(scopes: string): string[] {
  return scopes.split(/\s+/).filter((scope) => scope !== "");
}

/** `signet role create | update | list | show`. */
export function roleCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const role = new Command("role").description("named sets of scopes");

  role
    .command("create <name>")
    .description("add a role to a tenant")
    .requiredOption("--tenant <id>", "tenant of the role")
    .requiredOption("--scopes <scopes>", 'scopes, for instance "webhooks:read webhooks:write"')
    .option("--json", "print the API's object as JSON")
    .action(async (name: string, options: CreateOptions) => {
      const body = { name, scopes: scopeList(options.scopes) };
      printResource(context, await call("POST", `/tenants/${segment(options.tenant)}/roles`, body), options);
    });

  role
    .command("update <id>")
    .description("replace a role's scopes; principals keep theirs until they are reprovisioned")
    .requiredOption("--scopes <scopes>", 'scopes, for instance "webhooks:read webhooks:write"')
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: UpdateOptions) => {
      const body = { scopes: scopeList(options.scopes) };
      printResource(context, await call("PATCH", `/roles/${segment(id)}`, body), options);
    });

  withListOptions(
    role
      .command("list")
      .description("list a tenant's roles, newest first")
      .requiredOption("--tenant <id>", "tenant of the roles"),
  ).action(async (options: ListOptions & { readonly tenant: string }) => {
    const page = await call("GET", `/tenants/${segment(options.tenant)}/roles${listQuery(options)}`);
    printPage(context, page, ["id", "name", "scopes", "created_at"], options);
  });

  role
    .command("show <id>")
    .description("show one role")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("GET", `/roles/${segment(id)}`), options);
    });

  return role;
}
