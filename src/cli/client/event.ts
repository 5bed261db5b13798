/** `signet event publish | list | show` and `signet trigger`. */
import { Command } from "commander";
import { IDEMPOTENCY_HOURS } from "#domain/idempotency.ts";
import { SignetApiError } from "#lib/client/errors.ts";
import type { SignetClient } from "#lib/client/signet-client.ts";
import type { CliContext } from "../context.ts";
import { type TimeRange, withTimeRange } from "../list-options.ts";
import { printPage, printResource } from "../output.ts";
import { timeOption } from "../times.ts";
import { asTenant, objectArgument, withExamples } from "./command.ts";
import { given } from "./given.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

/** Data to send if neither the command line nor the catalogue has any. */
const GREETING = { message: "Hello from signet trigger." };

interface PublishOptions extends ClientOptions {
  readonly data: string;
  readonly id?: string;
  readonly occurredAt?: string;
  readonly idempotencyKey?: string;
}

interface EventListOptions extends PageChoice, TimeRange {
  readonly id?: string;
  readonly eventType?: string;
}

interface TriggerOptions extends ClientOptions {
  readonly data?: string;
}

/** `signet event`. */
export function eventCommand(context: CliContext): Command {
  const event = new Command("event").description("published events");

  const publish = event
    .command("publish <type>")
    .description("publish an event to every endpoint that subscribes to it")
    .requiredOption("--data <json>", "JSON object, sent unchanged; @file, or - for standard input")
    .option(
      "--id <id>",
      `your own id of the event; an event with the same id is published once within ${IDEMPOTENCY_HOURS} hours`,
    )
    .addOption(timeOption("--occurred-at <time>", "when it happened"))
    .option(
      "--idempotency-key <key>",
      `publish once within ${IDEMPOTENCY_HOURS} hours, even if the command runs again with this key`,
    );
  asTenant<PublishOptions>(publish, context, async ({ signet, target, options }) => {
    const { data, id, occurredAt, idempotencyKey, ...output } = options;
    const body = {
      type: target,
      data: await objectArgument("--data", data),
      ...given({ id, occurred_at: occurredAt }),
    };
    printResource(context, await signet.events.publish(body, given({ idempotencyKey })), output);
  });
  withExamples(
    publish,
    `signet event publish pipeline.failed --data '{"run":7}'`,
    "signet event publish pipeline.failed --data @event.json --idempotency-key run-7",
  );

  const list = withPages(
    withTimeRange(
      event
        .command("list")
        .description("list events, newest first")
        .option("--id <id>", "events with this id of the publisher")
        .option("--event-type <type>", "events of this type"),
    ),
  );
  asTenant<EventListOptions>(list, context, async ({ signet, options }) => {
    const { id, eventType, from, to } = options;
    const filter = given({ ...pageOf(options), id, event_type: eventType, from, to });
    const columns = ["id", "type", "created_at", "deliveries", "source_id"];
    await printList(context, signet.events.list(filter), columns, options);
  });

  const show = event.command("show <id>").description("show one event with its data");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.events.get(target), options);
  });
  return event;
}

/** Returns the first example in the catalogue; undefined if there is none or the caller may not read it. */
async function exampleOf(signet: SignetClient, type: string): Promise<object | undefined> {
  try {
    return (await signet.eventTypes.get(type)).examples[0];
  } catch (error) {
    if (
      error instanceof SignetApiError &&
      (error.status === 404 || error.status === 403 || error.status === 422)
    ) {
      return undefined;
    }
    throw error;
  }
}

/** `signet trigger`. */
export function triggerCommand(context: CliContext): Command {
  const trigger = new Command("trigger")
    .description("publish a sample event and print its deliveries")
    .argument("<type>", "event type, for instance pipeline.failed")
    .option(
      "--data <json>",
      "JSON object, @file, or -; default: the type's example from the catalogue, or a greeting",
    );
  asTenant<TriggerOptions>(trigger, context, async ({ signet, target, options }) => {
    const data =
      options.data === undefined
        ? ((await exampleOf(signet, target)) ?? GREETING)
        : await objectArgument("--data", options.data);
    const event = await signet.events.publish({ type: target, data });
    const { data: deliveries } = await signet.deliveries.list({ event_id: event.id, limit: 100 }).page();
    if (options.json === true) {
      printResource(context, { ...event, data: deliveries }, options);
      return;
    }
    context.stdout(
      `${event.id}  ${event.type}  to ${event.deliveries} endpoint${event.deliveries === 1 ? "" : "s"}\n`,
    );
    if (deliveries.length === 0) {
      context.stderr(
        "No endpoint receives events of this type. `signet listen` adds one; `signet endpoint list` shows the others.\n",
      );
      return;
    }
    printPage(context, { data: deliveries, next_cursor: null }, ["id", "endpoint_id", "state"], options);
  });
  return withExamples(
    trigger,
    "signet trigger pipeline.failed",
    `signet trigger pipeline.failed --data '{"run":7}'`,
  );
}
