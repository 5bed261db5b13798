/** `signet replay [deliveries] | start | missing | watch | list | show | items | pause | resume | cancel`. */
import { setTimeout as delay } from "node:timers/promises";
import { Command, Option } from "commander";
import type { NewReplay, ReplayItem, ReplayJob, ReplayOutcomes } from "#lib/client/api-types.ts";
import type { ReplayPace, ReplaySelection } from "#lib/client/resources/types.ts";
import type { SignetClient } from "#lib/client/signet-client.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { printResource } from "../output.ts";
import { timeOption } from "../times.ts";
import { asTenant, wholeNumber, withExamples, words } from "./command.ts";
import { given } from "./given.ts";
import { filterOf, type FilterOptions, withFilter } from "./delivery.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

const ASK_AGAIN_MS = 500;
/** Counting the outcomes reads every delivery of the job. */
const OUTCOMES_AGAIN_MS = 1_000;
const BAR_WIDTH = 30;
const NO_WAIT = "wait for the end of the job only, not for what becomes of each delivery";

type Outcome = NonNullable<ReplayItem["outcome"]>;

interface StartOptions extends ClientOptions {
  readonly rate?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  /** False for `--no-wait`. */
  readonly wait?: boolean;
}

interface MissingOptions extends StartOptions {
  readonly since: string;
  readonly until?: string;
}

function isOver({ state }: ReplayJob): boolean {
  return state === "COMPLETED" || state === "CANCELLED";
}

/** Returns a line that shows the job's progress. */
export function progressLine({ state, total, done, failed, skipped, listing }: ReplayJob): string {
  const part = total === 0 ? 1 : (done + failed + skipped) / total;
  const filled = Math.round(part * BAR_WIDTH);
  const bar = "#".repeat(filled) + "-".repeat(BAR_WIDTH - filled);
  const figures = `${done} of ${listing ? "at least " : ""}${total} replayed, ${skipped} skipped, ${failed} failed`;
  return `[${bar}] ${Math.floor(part * 100)} %  ${figures}${state === "RUNNING" ? "" : `  ${state}`}`;
}

/** Follows a job until it ends; shows a progress bar on a terminal. The job does not depend on its followers. */
async function follow(signet: SignetClient, id: string, context: CliContext): Promise<ReplayJob> {
  const bar = context.terminal?.progress === true;
  for (;;) {
    const job = await signet.replays.get(id);
    if (bar) {
      context.stderr(`\r${progressLine(job)}\u001b[K${isOver(job) ? "\n" : ""}`);
    }
    if (isOver(job)) {
      return job;
    }
    await delay(ASK_AGAIN_MS);
  }
}

/** Waits until every replay has an outcome. On a terminal, it shows how many have none. */
async function followOutcomes(
  signet: SignetClient,
  id: string,
  context: CliContext,
): Promise<ReplayOutcomes> {
  const bar = context.terminal?.progress === true;
  let isTold = bar;
  for (;;) {
    const outcomes = await signet.replays.outcomes(id);
    const { delivered, retrying, failed, waiting } = outcomes;
    if (bar) {
      const end = waiting === 0 ? "\n" : "";
      context.stderr(
        `\r${delivered} delivered, ${retrying} retrying, ${failed} failed, ${waiting} waiting\u001b[K${end}`,
      );
    }
    if (waiting === 0) {
      return outcomes;
    }
    if (!isTold) {
      isTold = true;
      context.stderr(`${waiting} have no outcome yet. --no-wait does not wait for them.\n`);
    }
    await delay(OUTCOMES_AGAIN_MS);
  }
}

/** Returns why the job's first failed item failed. */
async function firstFailure(signet: SignetClient, id: string): Promise<string> {
  const { data } = await signet.replays.items(id, { state: "FAILED", limit: 1 }).page();
  const reason = data[0]?.reason ?? null;
  return reason === null ? "" : ` (${reason})`;
}

/** Fails the command if the job was cancelled, an item failed, or nothing was replayed, so that scripts notice. */
async function checkResult(
  { id, total, done, failed, state }: ReplayJob,
  signet: SignetClient,
): Promise<void> {
  if (state === "CANCELLED") {
    throw new CommandError(`${id} was cancelled.`);
  }
  if (failed > 0) {
    const why = await firstFailure(signet, id);
    throw new CommandError(`${failed} could not be replayed${why}: signet replay items ${id} --state FAILED`);
  }
  if (state === "COMPLETED" && done === 0) {
    throw new CommandError(
      total === 0
        ? "Nothing was replayed: nothing matches."
        : `Nothing was replayed, ${total} skipped. See why: signet replay items ${id}`,
    );
  }
}

/** Fails the command if a replay failed again, or nothing was delivered. */
export function checkOutcomes(id: string, { delivered, retrying, failed }: ReplayOutcomes): void {
  const items = `signet replay items ${id} --outcome`;
  if (failed > 0) {
    throw new CommandError(`${failed} failed again: ${items} FAILED`);
  }
  if (delivered === 0) {
    throw new CommandError(
      retrying === 0
        ? `Nothing was delivered: ${items} CANCELLED`
        : `Nothing was delivered yet, ${retrying} are retried: ${items} RETRYING`,
    );
  }
}

async function finish(
  job: ReplayJob,
  { signet, options }: { readonly signet: SignetClient; readonly options: StartOptions },
  context: CliContext,
): Promise<void> {
  if (options.detach === true) {
    printResource(context, job, options);
    if (isOver(job)) {
      await checkResult(job, signet);
    }
    return;
  }
  await followToResult(job.id, { signet, options }, context);
}

/** Prints a job with what its replays have come to since. */
function printJob(
  job: ReplayJob,
  outcomes: ReplayOutcomes,
  options: ClientOptions,
  context: CliContext,
): void {
  printResource(
    context,
    options.json === true ? { ...job, outcomes } : { ...job, ...prefixed(outcomes) },
    options,
  );
}

function prefixed(outcomes: ReplayOutcomes): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(outcomes).map(([name, count]) => [`since_${name}`, count as number]),
  );
}

async function followToResult(
  id: string,
  { signet, options }: { readonly signet: SignetClient; readonly options: StartOptions },
  context: CliContext,
): Promise<void> {
  const ended = await follow(signet, id, context);
  const waits = options.wait !== false && ended.state === "COMPLETED";
  const outcomes = waits ? await followOutcomes(signet, id, context) : await signet.replays.outcomes(id);
  printJob(ended, outcomes, options, context);
  await checkResult(ended, signet);
  if (waits) {
    checkOutcomes(id, outcomes);
  }
}

function paceOf({ rate }: StartOptions): ReplayPace {
  return given({ rate_per_second: rate === undefined ? undefined : wholeNumber("--rate", rate) });
}

function withJob(command: Command): Command {
  return command
    .option("--dry-run", "only count the events")
    .option("--rate <number>", "maximum replays per second")
    .option("--no-wait", NO_WAIT)
    .option("--detach", "do not wait for the end of the job");
}

function choiceOf(
  ids: readonly string[],
  options: FilterOptions & { readonly all?: boolean },
): ReplaySelection {
  const filter = filterOf(options);
  const filtered = Object.keys(filter).length > 0;
  if (ids.length > 0 && !filtered && options.all !== true) {
    return { ids };
  }
  if (ids.length > 0 || (!filtered && options.all !== true)) {
    throw misused("Give ids of dead letters, or filters, or --all.");
  }
  return { filter };
}

/** Adds `start` to a noun; `signet dlq replay` is the same command. */
export function addReplayStart(noun: Command, name: string, context: CliContext): Command {
  const start = withJob(
    withFilter(
      noun
        .command(`${name} [ids...]`)
        .description("replay dead letters, by id or by filter, and follow the job until each has an outcome")
        .option("--all", "all dead letters"),
    ),
  );
  type Options = StartOptions & FilterOptions & { readonly all?: boolean };
  asTenant<Options>(start, context, async ({ signet, args, options }) => {
    const choice = choiceOf((args[0] ?? []) as unknown as readonly string[], options);
    if (options.dryRun === true) {
      printResource(context, await signet.deadLetters.countReplay(choice), options);
      return;
    }
    await finish(
      await signet.deadLetters.replayAll({ ...choice, ...paceOf(options) }),
      { signet, options },
      context,
    );
  });
  return start;
}

const STATES = ["dead_lettered", "retrying", "delivered", "cancelled", "expired"];

function statesOf(value: string | undefined): NewReplay["states"] {
  if (value === undefined) {
    return undefined;
  }
  const states = words(value.toLowerCase());
  const unknown = states.find((state) => !STATES.includes(state));
  if (unknown !== undefined || states.length === 0) {
    throw misused(`--state takes any of ${STATES.join(",")}.`);
  }
  return states.map((state) => state.toUpperCase()) as NewReplay["states"];
}

interface RecoveryOptions extends StartOptions, FilterOptions {
  readonly all?: boolean;
  readonly since?: string;
  readonly state?: string;
}

function recoveryOf(options: RecoveryOptions): Pick<NewReplay, "states" | "filter"> {
  const { since, from } = options;
  if (since !== undefined && from !== undefined) {
    throw misused("Give either --since or --from.");
  }
  const filter = filterOf(since === undefined ? options : { ...options, from: since });
  if (Object.keys(filter).length === 0 && options.all !== true) {
    throw misused("Give filters, or --all.");
  }
  return { ...given({ states: statesOf(options.state) }), filter };
}

/** Adds `deliveries`, which is also `signet replay` with options only. */
function addDeliveries(replay: Command, context: CliContext): void {
  const deliveries = withJob(
    withFilter(
      replay
        .command("deliveries", { isDefault: true })
        .description(
          "attempt retries now, and start new cycles for other deliveries; `signet replay` with options is the same",
        )
        .option("--all", "all deliveries in these states")
        .addOption(timeOption("--since <time>", "accepted at or after this time"))
        .option("--state <states>", `one or more of ${STATES.join(",")}; by default dead_lettered,retrying`),
    ),
  );
  asTenant<RecoveryOptions>(deliveries, context, async ({ signet, options }) => {
    const which = recoveryOf(options);
    if (options.dryRun === true) {
      printResource(context, await signet.replays.count(which), options);
      return;
    }
    const job = await signet.replays.create({ ...which, ...paceOf(options) });
    await finish(job, { signet, options }, context);
  });
  withExamples(
    deliveries,
    "signet replay --endpoint ep_… --since 2h --state retrying",
    "signet replay --endpoint ep_… --since 2026-11-20T02:00:00Z --state dead_lettered,retrying,delivered --dry-run",
  );
}

function addMissing(replay: Command, context: CliContext): void {
  const missing = withJob(
    replay
      .command("missing <endpoint>")
      .description("deliver the events that an endpoint subscribes to but never received")
      .addOption(timeOption("--since <time>", "events at or after this time").makeOptionMandatory())
      .addOption(timeOption("--until <time>", "events before this time")),
  );
  asTenant<MissingOptions>(missing, context, async ({ signet, target, options }) => {
    const choice = { since: options.since, ...given({ until: options.until }) };
    if (options.dryRun === true) {
      printResource(context, await signet.endpoints.countMissing(target, choice), options);
      return;
    }
    const job = await signet.endpoints.replayMissing(target, { ...choice, ...paceOf(options) });
    await finish(job, { signet, options }, context);
  });
  withExamples(missing, "signet replay missing ep_… --since 2h --dry-run");
}

function addReads(replay: Command, context: CliContext): void {
  const list = withPages(replay.command("list").description("list jobs, newest first"));
  const columns = ["id", "kind", "state", "total", "done", "skipped", "failed", "created_at"];
  asTenant<PageChoice>(list, context, async ({ signet, options }) => {
    await printList(context, signet.replays.list(pageOf(options)), columns, options);
  });
  const show = replay.command("show <id>").description("show one job and what its replays have come to");
  asTenant(show, context, async ({ signet, target, options }) => {
    const [job, outcomes] = await Promise.all([signet.replays.get(target), signet.replays.outcomes(target)]);
    printJob(job, outcomes, options, context);
  });
  const watch = replay
    .command("watch <id>")
    .description("follow a job until each of its deliveries has an outcome")
    .option("--no-wait", NO_WAIT);
  asTenant<StartOptions>(watch, context, async ({ signet, target, options }) => {
    await followToResult(target, { signet, options }, context);
  });
  const items = withPages(
    replay
      .command("items <id>")
      .description("list the items of a job and their states, in order")
      .addOption(
        new Option("--state <state>", "filter by state").choices([
          "WAITING",
          "DONE",
          "SKIPPED",
          "FAILED",
          "CANCELLED",
        ]),
      )
      .addOption(
        new Option("--outcome <outcome>", "filter by what the replay has come to").choices([
          "DELIVERED",
          "RETRYING",
          "FAILED",
          "CANCELLED",
          "WAITING",
        ]),
      ),
  );
  asTenant<PageChoice & { readonly state?: ReplayItem["state"]; readonly outcome?: Outcome }>(
    items,
    context,
    async ({ signet, target, options }) => {
      const filter = { ...pageOf(options), ...given({ state: options.state, outcome: options.outcome }) };
      const members = ["position", "delivery_id", "event_id", "state", "reason", "outcome"];
      await printList(context, signet.replays.items(target, filter), members, options);
    },
  );
}

/** `signet replay`. */
export function replayCommand(context: CliContext): Command {
  const replay = new Command("replay").description("jobs that replay deliveries; they survive restarts");
  addDeliveries(replay, context);
  withExamples(
    addReplayStart(replay, "start", context),
    "signet replay start dlv_…",
    "signet replay start --endpoint ep_… --reason endpoint_disabled --dry-run",
    "signet replay start --event-type pipeline.failed --rate 20",
  );
  addMissing(replay, context);
  addReads(replay, context);
  const changes = [
    ["pause", "pause a job"],
    ["resume", "resume a paused job"],
    ["cancel", "cancel a job; finished replays are kept"],
  ] as const;
  for (const [name, description] of changes) {
    asTenant(
      replay.command(`${name} <id>`).description(description),
      context,
      async ({ signet, target, options }) => {
        printResource(context, await signet.replays[name](target), options);
      },
    );
  }
  return replay;
}
