/** `signet find` and `signet why`: look-ups of operators across tenants. */
import { Command } from "commander";
import { createAdminCall, segment } from "./admin-client.ts";
import { withExamples } from "./client/command.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printable, printPage, printResource } from "./output.ts";
import { shownTime } from "./times.ts";

interface FindOptions extends OutputOptions {
  readonly limit?: string;
}

/** `signet find`. */
export function findCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const find = new Command("find")
    .description(
      "find a tenant, principal, credential, endpoint, event, delivery or replay job, in all tenants",
    )
    .argument("<text>", "an id, or three or more characters of a name, a client id or a URL")
    .option("--limit <number>", "maximum items, 1 to 50")
    .option("--json", "print the API's object as JSON")
    .action(async (text: string, { limit, ...options }: FindOptions) => {
      const query = new URLSearchParams({ q: text, ...(limit === undefined ? {} : { limit }) });
      const page = await call("GET", `/find?${query.toString()}`);
      printPage(context, page, ["kind", "id", "label", "state", "tenant_id", "tenant_name"], options);
    });
  return withExamples(find, "signet find acme", "signet find cl_…", "signet find dlv_… --json");
}

/** Returns a text with its times in the terminal's time zone, as tables have them. */
function inLocalTime(text: string): string {
  return text.replaceAll(
    /(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g,
    (utc, day: string, time: string) => shownTime(`${day}T${time}Z`) ?? utc,
  );
}

/** `signet why`. */
export function whyCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const why = new Command("why")
    .description("explain in words what happened, what waits for what, until when, and what to do")
    .argument("<id>", "id of a delivery, an endpoint, an event, a replay job or a tenant")
    .option("--json", "print the API's object as JSON")
    .action(async (id: string, options: OutputOptions) => {
      const answer = await call("GET", `/why/${segment(id)}`);
      if (options.json === true) {
        printResource(context, answer, options);
        return;
      }
      context.stdout(`${printable(inLocalTime(String(answer["summary"])))}\n`);
    });
  return withExamples(why, "signet why dlv_…", "signet why ten_… --json");
}
