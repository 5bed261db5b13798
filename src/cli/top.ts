/** `signet top`: the state of the deployment, refreshed on a terminal. */
import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import { type AdminCall, createAdminCall, type Resource } from "./admin-client.ts";
import { withExamples } from "./client/command.ts";
import { untilInterrupted } from "./client/interrupted.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printable, printPage, printResource } from "./output.ts";
import { shownTime } from "./times.ts";

const REFRESH_MS = 2_000;
/** Clears the terminal and moves the cursor to its first line. */
const CLEAR = "\u001b[2J\u001b[H";

interface TopOptions extends OutputOptions {
  readonly once?: boolean;
}

function part(overview: Resource, name: string): Resource {
  return overview[name] as Resource;
}

function list(resource: Resource, name: string): readonly Resource[] {
  return resource[name] as readonly Resource[];
}

/** Returns a value as text; a time in the terminal's time zone, as in tables. */
function localText(value: unknown): string {
  return (typeof value === "string" ? shownTime(value) : undefined) ?? String(value);
}

function line(name: string, values: Resource, names: readonly string[]): string {
  const shown = names.map((each) => `${each.replaceAll("_", " ")} ${localText(values[each])}`);
  return `${name.padEnd(12)}${shown.join("   ")}\n`;
}

/** Prints one snapshot. */
function print(context: CliContext, overview: Resource): void {
  const workers = list(overview, "workers");
  const alive = workers.filter((worker) => worker["alive"] === true).length;
  const [endpoints, rotations, checkpoints] = ["endpoints", "rotations", "checkpoints"].map((name) =>
    part(overview, name),
  ) as [Resource, Resource, Resource];
  context.stdout(`signet top  ${localText(overview["at"])}\n\n`);
  context.stdout(
    line("Workers", { ...overview, alive, known: workers.length }, ["alive", "known", "attempts_per_second"]),
  );
  context.stdout(line("Temporal", { reachable: overview["temporal_reachable"] }, ["reachable"]));
  const queues = part(overview, "queues");
  context.stdout(line("Deliveries", queues, ["waiting", "started", "retrying", "dead_letters", "expiring"]));
  context.stdout(line("Other work", queues, ["verifications", "replays_running", "replays_paused"]));
  context.stdout(line("Endpoints", endpoints, ["failing", "slow", "stopped"]));
  context.stdout(line("Due", rotations, ["credentials", "endpoint_secrets", "signing_key"]));
  context.stdout(line("Checkpoint", checkpoints, ["newest_at", "size"]));
  const tables = [
    ["Edges, apis and hubs", list(overview, "followers"), FOLLOWER_COLUMNS],
    ["Tenants behind", list(overview, "lag"), LAG_COLUMNS],
    ["Endpoints that fail or were stopped", list(endpoints, "worst"), WORST_COLUMNS],
    ["Certificates that end", list(part(overview, "certificates"), "endpoints"), CERTIFICATE_COLUMNS],
  ] as const;
  for (const [title, data, columns] of tables) {
    if (data.length > 0) {
      context.stdout(`\n${title}\n`);
      printPage(context, { data }, columns, {});
    }
  }
}

const FOLLOWER_COLUMNS = ["region", "kind", "version", "connected", "behind", "behind_ms", "lease_ms"];
const LAG_COLUMNS = [
  "tenant_id",
  "tenant_name",
  "held",
  "waiting",
  "oldest_waiting_seconds",
  "overdue",
  "most_overdue_seconds",
];
const WORST_COLUMNS = ["id", "tenant_name", "state", "disabled_reason", "since"];
const CERTIFICATE_COLUMNS = ["endpoint_id", "tenant_name", "ends_at"];

/** Repeats the snapshot until the command is interrupted. A failed reading is shown, and repeated. */
async function follow(context: CliContext, call: AdminCall): Promise<void> {
  const { interrupted, forget } = untilInterrupted();
  const abort = new AbortController();
  void interrupted.then(() => abort.abort());
  try {
    while (!abort.signal.aborted) {
      const overview = await call("GET", "/overview").catch((error: unknown) => error as Error);
      context.stdout(CLEAR);
      if (overview instanceof Error) {
        context.stdout(`${printable(overview.message)}\n`);
      } else {
        print(context, overview);
      }
      context.stdout("\nCtrl-C ends.\n");
      await sleep(REFRESH_MS, undefined, { signal: abort.signal }).catch(() => undefined);
    }
  } finally {
    forget();
  }
}

/** `signet top`. */
export function topCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const top = new Command("top")
    .description("show workers, queues, tenants that are behind and endpoints that fail, until Ctrl-C")
    .option("--once", "print one snapshot and exit, as without a terminal")
    .option("--json", "print the API's object as JSON, once")
    .action(async ({ once, ...options }: TopOptions) => {
      if (options.json !== true && once !== true && context.terminal?.screen === true) {
        await follow(context, call);
        return;
      }
      const overview = await call("GET", "/overview");
      if (options.json === true) {
        printResource(context, overview, options);
      } else {
        print(context, overview);
      }
    });
  return withExamples(top, "signet top", "signet top --once", "signet top --json");
}
