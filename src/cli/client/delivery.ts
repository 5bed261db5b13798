/** `signet delivery list | tail | show | stats | retry | resend | cancel`. */
import { Command, Option } from "commander";
import { USAGE_DAYS } from "#domain/delivery.ts";
import type { DeliveryFilter } from "#lib/client/resources/types.ts";
import type { Attempt, DeliveryState } from "#lib/client/api-types.ts";
import type { CliContext } from "../context.ts";
import { type TimeRange, withTable, withTimeRange } from "../list-options.ts";
import { printable, printPage, printResource } from "../output.ts";
import { asTenant, membersOf, wholeNumber, withExamples } from "./command.ts";
import { addTail } from "./delivery-tail.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

const STATES = ["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"];
const ERRORS = ["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"];

/** Columns of a table of usage. */
export const USAGE_COLUMNS = [
  "day",
  "events",
  "deliveries",
  "delivered",
  "dead_lettered",
  "attempts",
  "failed_attempts",
  "bytes",
];

/** Options that filter deliveries and dead letters. */
export interface FilterOptions extends ClientOptions, TimeRange {
  readonly endpoint?: string;
  readonly event?: string;
  readonly eventType?: string;
  readonly lastError?: string;
  readonly lastStatus?: string;
  readonly reason?: string;
  readonly metadata?: readonly string[];
}

type DeliveryListOptions = FilterOptions & PageChoice & { readonly state?: DeliveryState };

/** Adds the filter options. */
export function withFilter(command: Command): Command {
  return withTimeRange(
    command
      .option("--endpoint <id>", "filter by endpoint")
      .option("--event <id>", "filter by event")
      .option("--event-type <type>", "filter by event type"),
  )
    .addOption(
      new Option("--last-error <class>", "filter by the error class of the last attempt").choices(ERRORS),
    )
    .option("--last-status <status>", "filter by the HTTP status of the last attempt")
    .addOption(
      new Option("--reason <reason>", "filter by the reason why it is a dead letter").choices([
        "attempts_exhausted",
        "endpoint_disabled",
      ]),
    )
    .option("--metadata <key=value...>", "filter by a member of the endpoint's metadata, compared as text");
}

/** Converts the options to the API's filter. */
export function filterOf(options: FilterOptions): DeliveryFilter {
  const { endpoint, event, eventType, from, to, lastError, lastStatus, reason, metadata } = options;
  return given({
    endpoint_id: endpoint,
    event_id: event,
    event_type: eventType,
    from,
    to,
    last_error: lastError,
    last_status: lastStatus === undefined ? undefined : wholeNumber("--last-status", lastStatus),
    reason,
    metadata: membersOf("--metadata", metadata),
  }) as DeliveryFilter;
}

function stateOption(): Option {
  return new Option("--state <state>", "filter by state").choices(STATES);
}

function addStats(delivery: Command, context: CliContext): void {
  const stats = withTable(
    delivery
      .command("stats")
      .description("show hourly numbers of the last 24 hours; up to 30 seconds old")
      .option("--endpoint <id>", "deliveries to this endpoint only"),
  );
  asTenant<ClientOptions & { readonly endpoint?: string }>(stats, context, async ({ signet, options }) => {
    const data = await signet.deliveries.stats(given({ endpoint_id: options.endpoint }));
    const columns = [
      "hour",
      "total",
      "delivered",
      "dead_lettered",
      "attempts",
      "failed_attempts",
      "latency_p50_ms",
      "latency_p95_ms",
      "complete",
    ];
    printPage(context, { data }, columns, options);
  });
  withExamples(stats, "signet delivery stats", "signet delivery stats --endpoint ep_… --json");
}

/** Prints the kept part of each response's body, indented, under the attempt's numbers. */
function printBodies(context: CliContext, attempts: readonly Attempt[]): void {
  for (const { cycle, attempt, status, response_body: body } of attempts) {
    if (body !== null && body !== "") {
      const lines = body.split(/\r?\n/).map((line) => `  ${printable(line)}\n`);
      context.stdout(`\ncycle ${cycle}, attempt ${attempt}, status ${status}\n${lines.join("")}`);
    }
  }
}

function addUsage(delivery: Command, context: CliContext): void {
  const usage = withTable(
    delivery
      .command("usage")
      .description(
        `show events, deliveries and attempts by UTC day; of the last ${USAGE_DAYS} days by default`,
      )
      .option("--from <day>", "first day, for instance 2025-11-01")
      .option("--to <day>", "last day"),
  );
  asTenant<ClientOptions & { readonly from?: string; readonly to?: string; readonly wide?: boolean }>(
    usage,
    context,
    async ({ signet, options }) => {
      const data = await signet.deliveries.usage(given({ from: options.from, to: options.to }));
      printPage(context, { data }, USAGE_COLUMNS, options);
    },
  );
}

function addShow(delivery: Command, context: CliContext): void {
  const show = withTable(
    delivery
      .command("show <id>")
      .description("show one delivery and its attempts")
      .option("--body", "also print the bodies of the responses, up to 4 KiB each"),
  );
  type Options = ClientOptions & { readonly body?: boolean; readonly wide?: boolean };
  asTenant<Options>(show, context, async ({ signet, target, options }) => {
    const found = await signet.deliveries.get(target);
    const attempts = await signet.deliveries.attempts(target);
    if (options.json === true) {
      printResource(context, { ...found, attempts }, options);
      return;
    }
    printResource(context, found, options);
    context.stdout("\n");
    const columns = ["cycle", "attempt", "resend", "started_at", "duration_ms", "status", "error"];
    printPage(context, { data: attempts }, columns, options);
    if (options.body === true) {
      printBodies(context, attempts);
    }
  });
  withExamples(show, "signet delivery show dlv_… --body");
}

/** `signet delivery`. */
export function deliveryCommand(context: CliContext): Command {
  const delivery = new Command("delivery").description("deliveries of events to endpoints");

  const list = withPages(
    withFilter(
      delivery.command("list").description("list deliveries, newest first").addOption(stateOption()),
    ),
  );
  asTenant<DeliveryListOptions>(list, context, async ({ signet, options }) => {
    const filter = { ...pageOf(options), ...filterOf(options), ...given({ state: options.state }) };
    const columns = [
      "id",
      "state",
      "event_type",
      "created_at",
      "attempt_count",
      "last_status",
      "next_attempt_at",
      "endpoint_id",
    ];
    await printList(context, signet.deliveries.list(filter), columns, options);
  });
  withExamples(
    list,
    "signet delivery list --state RETRYING --from 2h",
    "signet delivery list --event evt_… --json",
    "signet delivery list --metadata team=ml",
  );
  addTail(delivery, context, stateOption());
  addShow(delivery, context);
  addStats(delivery, context);
  addUsage(delivery, context);

  const retry = delivery
    .command("retry <id>")
    .description("make the next attempt now, in place of the scheduled one");
  asTenant(retry, context, async ({ signet, target, options }) => {
    printResource(context, await signet.deliveries.retry(target), options);
  });

  const resend = delivery
    .command("resend <id>")
    .description("send a delivered, cancelled or expired delivery again, in a new cycle");
  asTenant(resend, context, async ({ signet, target, options }) => {
    printResource(context, await signet.deliveries.resend(target), options);
  });

  const cancel = delivery.command("cancel <id>").description("cancel a delivery: no more attempts");
  asTenant(cancel, context, async ({ signet, target, options }) => {
    printResource(context, await signet.deliveries.cancel(target), options);
  });
  return delivery;
}
