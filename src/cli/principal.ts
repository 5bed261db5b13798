import { Command, Option } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type ListOptions, listQuery, withListOptions } from "./list-options.ts";
import { type OutputOptions, printPage, printResource } from "./output.ts";
import { addRevoke } from "./revocation.ts";

interface CreateOptions extends OutputOptions {
  readonly tenant: string;
  readonly role: string;
  readonly region: string;
  readonly environment: string;
}

/** `signet principal create | reprovision | list | show`. */
export function principalCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const principal = new Command("principal").description("services that hold credentials");

  principal
    .command("create <name>")
    .description("add a principal with the current scopes of its role")
    .requiredOption("--tenant <id>", "tenant of the principal")
    .requiredOption("--role <id>", "role of the same tenant")
    .requiredOption("--region <region>", "region, for instance eu, eu-west-1 or global")
    .addOption(
      new Option("--environment <environment>", "environment of the principal")
        .choices(["production", "development"])
        .makeOptionMandatory(),
    )
    .option("--json", "print the API's object as JSON")
    .action(async (name: string, { tenant, role, region, environment, ...output }: CreateOptions) => {
      const body = { name, role_id: role, region, environment };
      printResource(context, await call("POST", `/tenants/${segment(tenant)}/principals`, body), output);
    });

  principal
    .command("reprovision <id>")
    .description("give a principal the current scopes of its role")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("POST", `/principals/${segment(id)}/reprovision`), options);
    });

  withListOptions(
    principal
      .command("list")
      .description("list a tenant's principals, newest first")
      .requiredOption("--tenant <id>", "tenant of the principals"),
  ).action(async (options: ListOptions & { readonly tenant: string }) => {
    const page = await call("GET", `/tenants/${segment(options.tenant)}/principals${listQuery(options)}`);
    printPage(context, page, ["id", "name", "environment", "region", "scopes"], options);
  });

  principal
    .command("show <id>")
    .description("show one principal")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      printResource(context, await call("GET", `/principals/${segment(id)}`), options);
    });

  return addRevoke(principal, context, "principals");
}
