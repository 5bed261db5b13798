/** `signet delivery tail`: prints one line for each change of a delivery. */
import type { Command, Option } from "commander";
import type { Delivery } from "#lib/client/api-types.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { colourOfState, type Paint, painter } from "../colours.ts";
import type { CliContext } from "../context.ts";
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import { printable, printableJson } from "../output.ts";
import { asTenant, type Invocation, wholeNumber, withExamples } from "./command.ts";
import { untilInterrupted } from "./interrupted.ts";
import type { ClientOptions } from "./open-client.ts";

interface TailOptions extends ClientOptions {
  readonly endpoint?: string;
  readonly eventType?: string;
  readonly state?: string;
  readonly count?: string;
}

function answerOf({ last_status: status, last_error: error }: Delivery): string {
  return status === null ? (error ?? "-") : String(status);
}

function lineOf(delivery: Delivery, now: Date, paint: Paint): string {
  const { id, event_type: type, endpoint_id: endpoint, state, attempt_count: attempts } = delivery;
  const next = delivery.next_attempt_at === null ? "" : `  next ${delivery.next_attempt_at}`;
  const at = now.toISOString().slice(11, 19);
  const shown = paint(colourOfState(state), state.padEnd(13));
  const attempted = `attempts ${attempts}/${ATTEMPT_MAX}  last ${answerOf(delivery)}`;
  return `${at}  ${id}  ${shown}  ${printable(`${type}  to ${endpoint}  ${attempted}${next}`)}`;
}

function isWanted(delivery: Delivery, { endpoint, eventType, state }: TailOptions): boolean {
  return (
    (endpoint === undefined || delivery.endpoint_id === endpoint) &&
    (eventType === undefined || delivery.event_type === eventType) &&
    (state === undefined || delivery.state === state)
  );
}

async function tail({ signet, options }: Invocation<TailOptions>, context: CliContext): Promise<void> {
  const paint = painter(context.terminal?.colour === true);
  let left = options.count === undefined ? Infinity : wholeNumber("--count", options.count);
  const { interrupted, forget } = untilInterrupted();
  const abort = new AbortController();
  void interrupted.then(() => abort.abort());
  try {
    for await (const delivery of signet.deliveries.stream({ signal: abort.signal })) {
      if (left > 0 && isWanted(delivery, options)) {
        const line =
          options.json === true
            ? printableJson(delivery)
            : lineOf(delivery, new Date(systemClock.now()), paint);
        context.stdout(`${line}\n`);
        left -= 1;
      }
      if (left <= 0) {
        return;
      }
    }
  } catch (error) {
    if (!abort.signal.aborted) {
      throw error;
    }
  } finally {
    forget();
  }
}

/** Adds the command `tail`. It filters on the client, because the service streams all deliveries of the tenant. */
export function addTail(noun: Command, context: CliContext, state: Option): void {
  const command = noun
    .command("tail")
    .description("print deliveries as they change, until Ctrl-C; checks the newest 200 once a second")
    .option("--endpoint <id>", "filter by endpoint")
    .option("--event-type <type>", "filter by event type")
    .addOption(state)
    .option("--count <number>", "stop after this number of lines");
  asTenant<TailOptions>(command, context, async (invocation) => await tail(invocation, context));
  withExamples(command, "signet delivery tail", "signet delivery tail --state DEAD_LETTERED --json");
}
