/** Prints receipts of revocations: what was revoked, which processes apply it, and whether that was in time. */
import type { Resource } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printable, printPage, printResource } from "./output.ts";

const REVOKED_COLUMNS = ["kind", "target", "client_id", "tenant_id", "version", "expired", "expires_at"];
const PROCESS_COLUMNS = ["id", "kind", "region", "state", "ms"];

/** Prints an answer; one without a receipt is printed like any object. */
export function printReceipt(context: CliContext, answer: object, options: OutputOptions): void {
  const { revoked, edges, ...rest } = answer as Resource;
  const { processes, summary, ...counts } = (edges ?? {}) as Resource;
  if (options.json === true || processes === undefined) {
    printResource(context, answer, options);
    return;
  }
  if (revoked !== undefined) {
    printPage(context, { data: revoked }, REVOKED_COLUMNS, options);
    context.stdout("\n");
  }
  printResource(context, { ...rest, edges: counts }, options);
  context.stdout("\n");
  printPage(context, { data: processes }, PROCESS_COLUMNS, options);
  context.stdout(`\n${printable(String(summary))}\n`);
}
