import { Command } from "commander";
import { createAdminCall } from "./admin-client.ts";
import { addVerification } from "./audit-verify.ts";
import type { CliContext } from "./context.ts";
import { type ListOptions, listQuery, withListOptions } from "./list-options.ts";
import { printPage } from "./output.ts";

interface AuditOptions extends ListOptions {
  readonly tenant?: string;
  readonly type?: string;
  readonly actor?: string;
  readonly from?: string;
  readonly to?: string;
}

/** `signet audit list | verify | export`. */
export function auditCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const audit = new Command("audit").description("the compliance log: who changed what");

  withListOptions(
    audit
      .command("list")
      .description("list entries, newest first")
      .option("--tenant <id>", "entries about this tenant")
      .option("--type <type>", "entries of this type, for instance role.changed")
      .option("--actor <actor>", "entries by this actor, for instance operator:opr_… or operator:bootstrap")
      .option("--from <time>", "at or after this time, RFC 3339")
      .option("--to <time>", "before this time, RFC 3339"),
  ).action(async ({ tenant, type, actor, from, to, ...options }: AuditOptions) => {
    const filters = { tenant_id: tenant, type, actor, from, to };
    const page = await call("GET", `/audit${listQuery(options, filters)}`);
    printPage(context, page, ["index", "at", "type", "actor", "tenant_id", "target"], options);
  });

  addVerification(audit, context);
  return audit;
}
