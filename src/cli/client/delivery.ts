/** `signet delivery list | tail | show | stats | retry | resend | cancel`. */
import { Command, Option } from "commander";
import type { DeliveryFilter } from "../../lib/client/resources/deliveries.ts";
import type { DeliveryState } from "../../lib/client/api-types.ts";
import type { CliContext } from "../context.ts";
import { printPage, printResource } from "../output.ts";
import { asTenant, membersOf, wholeNumber, withExamples } from "./command.ts";
import { addTail } from "./delivery-tail.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

const STATES = ["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"];
const ERRORS = ["status", "timeout", "connect", "tls", "dns", "refused", "aborted", "authentication"];

/** Options that filter deliveries and dead letters. */
export interface FilterOptions extends ClientOptions {
  readonly endpoint?: string;
  readonly event?: string;
  readonly eventType?: string;
  readonly from?: string;
  readonly to?: string;
  readonly lastError?: string;
  readonly lastStatus?: string;
  readonly reason?: string;
  readonly metadata?: readonly string[];
}

type DeliveryListOptions = FilterOptions & PageChoice & { readonly state?: DeliveryState };

/** Adds the filter options. */
export function withFilter(command: Command): Command {
  return command
    .option("--endpoint <id>", "filter by endpoint")
    .option("--event <id>", "filter by event")
    .option("--event-type <type>", "filter by event type")
    .option("--from <time>", "at or after this time, RFC 3339")
    .option("--to <time>", "before this time, RFC 3339")
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
  const stats = delivery
    .command("stats")
    .description("show hourly numbers of the last 24 hours; up to 30 seconds old")
    .option("--endpoint <id>", "deliveries to this endpoint only");
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
      "event_type",
      "endpoint_id",
      "state",
      "attempt_count",
      "last_status",
      "next_attempt_at",
    ];
    await printList(context, signet.deliveries.list(filter), columns, options);
  });
  withExamples(
    list,
    "signet delivery list --state RETRYING --endpoint ep_…",
    "signet delivery list --event evt_… --json",
    "signet delivery list --metadata team=ml",
  );
  addTail(delivery, context, stateOption());

  const show = delivery.command("show <id>").description("show one delivery and its attempts");
  asTenant(show, context, async ({ signet, target, options }) => {
    const found = await signet.deliveries.get(target);
    const attempts = await signet.deliveries.attempts(target);
    if (options.json === true) {
      printResource(context, { ...found, attempts }, options);
      return;
    }
    printResource(context, found, options);
    context.stdout("\n");
    const columns = [
      "cycle",
      "attempt",
      "resend",
      "started_at",
      "duration_ms",
      "status",
      "error",
      "response_body",
    ];
    printPage(context, { data: attempts }, columns, options);
  });

  addStats(delivery, context);

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
