/** `signet dlq list | summary | groups | show | export | replay`. */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { Command } from "commander";
import type { CliContext } from "../context.ts";
import { printResource } from "../output.ts";
import { asTenant, withExamples } from "./command.ts";
import { filterOf, type FilterOptions, withFilter } from "./delivery.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import { addReplayStart } from "./replay.ts";

/** `signet dlq`. */
export function dlqCommand(context: CliContext): Command {
  const dlq = new Command("dlq").description(
    `dead letters: deliveries that failed permanently, kept for ${DEAD_LETTER_DAYS} days`,
  );

  const list = withPages(
    withFilter(
      dlq.command("list").description("list dead letters in the order of their death, newest first"),
    ),
  );
  asTenant<FilterOptions & PageChoice>(list, context, async ({ signet, options }) => {
    const filter = { ...pageOf(options), ...filterOf(options) };
    const columns = [
      "id",
      "event_type",
      "dead_lettered_at",
      "reason",
      "last_status",
      "last_error",
      "endpoint_id",
      "expires_at",
    ];
    await printList(context, signet.deadLetters.list(filter), columns, options);
  });

  const summary = dlq
    .command("summary")
    .description("show how many dead letters there are, when the oldest died, and when the first expires")
    .option("--endpoint <id>", "dead letters of this endpoint");
  asTenant<FilterOptions>(summary, context, async ({ signet, options }) => {
    printResource(context, await signet.deadLetters.summary(options.endpoint), options);
  });

  const groups = withPages(
    dlq
      .command("groups")
      .description("count dead letters by endpoint, reason and class of failure")
      .option("--endpoint <id>", "dead letters of this endpoint"),
  );
  asTenant<FilterOptions & PageChoice>(groups, context, async ({ signet, options }) => {
    const filter = { ...pageOf(options), ...given({ endpoint_id: options.endpoint }) };
    const columns = ["count", "endpoint_id", "reason", "last_error"];
    await printList(context, signet.deadLetters.groups(filter), columns, options);
  });

  const show = dlq.command("show <id>").description("show one dead letter with its event");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.deadLetters.get(target), options);
  });

  const exported = withFilter(
    dlq.command("export").description("print dead letters with their events, one JSON object per line"),
  );
  asTenant<FilterOptions>(exported, context, async ({ signet, options }) => {
    // Print the lines unchanged, so that numbers and the order of members stay as published.
    for await (const line of signet.deadLetters.export(filterOf(options)).lines()) {
      context.stdout(`${line}\n`);
    }
  });
  withExamples(exported, "signet dlq export --endpoint ep_… > dead-letters.ndjson");

  withExamples(
    addReplayStart(dlq, "replay", context),
    "signet dlq replay dlv_…",
    "signet dlq replay --endpoint ep_… --dry-run",
  );
  return dlq;
}
