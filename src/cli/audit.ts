import { Command } from "commander";
import { createAdminCall } from "./admin-client.ts";
import { addVerification } from "./audit-verify.ts";
import type { CliContext } from "./context.ts";
import {
  type ListOptions,
  listQuery,
  type TimeRange,
  withListOptions,
  withTimeRange,
} from "./list-options.ts";
import { printPage } from "./output.ts";

interface AuditOptions extends ListOptions, TimeRange {
  readonly tenant?: string;
  readonly type?: string;
  readonly actor?: string;
}

/** `signet audit list | verify | export`. */
export function auditCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const audit = new Command("audit").description("the compliance log: who changed what");

  withListOptions(
    withTimeRange(
      audit
        .command("list")
        .description("list entries, newest first")
        .option("--tenant <id>", "entries about this tenant")
        .option("--type <type>", "entries of this type, for instance role.changed")
        .option(
          "--actor <actor>",
          "entries by this actor, for instance operator:opr_… or operator:bootstrap",
        ),
    ),
  ).action(async ({ tenant, type, actor, from, to, ...options }: AuditOptions) => {
    const filters = { tenant_id: tenant, type, actor, from, to };
    const page = await call("GET", `/audit${listQuery(options, filters)}`);
    printPage(context, page, ["index", "at", "type", "actor", "tenant_id", "target"], options);
  });

  addVerification(audit, context);
  return audit;
}
