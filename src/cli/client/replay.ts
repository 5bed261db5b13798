/** `signet replay start | missing | watch | list | show | items | pause | resume | cancel`. */
import { setTimeout as delay } from "node:timers/promises";
import { Command, Option } from "commander";
import type { ReplayItem, ReplayJob } from "../../lib/client/api-types.ts";
import type { ReplayPace, ReplaySelection } from "../../lib/client/resources/replays.ts";
import type { SignetClient } from "../../lib/client/signet-client.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { printResource } from "../output.ts";
import { timeOption } from "../times.ts";
import { asTenant, wholeNumber, withExamples } from "./command.ts";
import { given } from "./given.ts";
import { filterOf, type FilterOptions, withFilter } from "./delivery.ts";
import { pageOf, printList, type PageChoice, withPages } from "./list.ts";
import type { ClientOptions } from "./open-client.ts";

const ASK_AGAIN_MS = 500;
const BAR_WIDTH = 30;

interface StartOptions extends ClientOptions {
  readonly rate?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
}

interface MissingOptions extends StartOptions {
  readonly since: string;
  readonly until?: string;
}

function isOver({ state }: ReplayJob): boolean {
  return state === "COMPLETED" || state === "CANCELLED";
}

/** Returns a line that shows the job's progress. */
export function progressLine({ state, total, done, failed, skipped }: ReplayJob): string {
  const part = total === 0 ? 1 : (done + failed + skipped) / total;
  const filled = Math.round(part * BAR_WIDTH);
  const bar = "#".repeat(filled) + "-".repeat(BAR_WIDTH - filled);
  const figures = `${done} of ${total} replayed, ${skipped} skipped, ${failed} failed`;
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

/** Fails the command if the job was cancelled or an item failed, so that scripts notice. */
function checkResult({ id, failed, state }: ReplayJob): void {
  if (state === "CANCELLED") {
    throw new CommandError(`${id} was cancelled.`);
  }
  if (failed > 0) {
    throw new CommandError(`${failed} could not be replayed: signet replay items ${id} --state FAILED`);
  }
}

async function finish(
  job: ReplayJob,
  { signet, options }: { readonly signet: SignetClient; readonly options: StartOptions },
  context: CliContext,
): Promise<void> {
  if (options.detach === true) {
    printResource(context, job, options);
    return;
  }
  const ended = await follow(signet, job.id, context);
  printResource(context, ended, options);
  checkResult(ended);
}

function paceOf({ rate }: StartOptions): ReplayPace {
  return given({ rate_per_second: rate === undefined ? undefined : wholeNumber("--rate", rate) });
}

function withJob(command: Command): Command {
  return command
    .option("--dry-run", "only count the events")
    .option("--rate <number>", "maximum replays per second")
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
        .description("replay dead letters, by id or by filter, and follow the job until it ends")
        .option("--all", "all dead letters"),
    ),
  );
  type Options = StartOptions & FilterOptions & { readonly all?: boolean };
  asTenant<Options>(start, context, async ({ signet, args, options }) => {
    const choice = choiceOf((args[0] ?? []) as unknown as readonly string[], options);
    if (options.dryRun === true) {
      printResource(context, { dry_run: true, total: await signet.deadLetters.countReplay(choice) }, options);
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
      printResource(
        context,
        { dry_run: true, total: await signet.endpoints.countMissing(target, choice) },
        options,
      );
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
  const show = replay.command("show <id>").description("show one job");
  asTenant(show, context, async ({ signet, target, options }) => {
    printResource(context, await signet.replays.get(target), options);
  });
  const watch = replay.command("watch <id>").description("follow a job until it ends");
  asTenant(watch, context, async ({ signet, target, options }) => {
    const ended = await follow(signet, target, context);
    printResource(context, ended, options);
    checkResult(ended);
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
      ),
  );
  asTenant<PageChoice & Pick<Partial<ReplayItem>, "state">>(
    items,
    context,
    async ({ signet, target, options }) => {
      const filter = { ...pageOf(options), ...given({ state: options.state }) };
      const members = ["position", "delivery_id", "event_id", "state", "reason"];
      await printList(context, signet.replays.items(target, filter), members, options);
    },
  );
}

/** `signet replay`. */
export function replayCommand(context: CliContext): Command {
  const replay = new Command("replay").description("jobs that replay dead letters; they survive restarts");
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
