/** `signet audit verify` and `signet audit export`: verification of the compliance log without trust in the service. */
import { createReadStream } from "node:fs";
import type { Command } from "commander";
import {
  ComplianceProofError,
  type VerifiedEntry,
  verifyEntry,
} from "#lib/transparency-log/compliance-proof.ts";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { NoteError, parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { decodeItem, type LogItem } from "#compliance/log-items.ts";
import { type KeptNote, LogProblem, verifyLog } from "#compliance/verify-log.ts";
import { messageOf } from "#runtime/thrown.ts";
import { createAdminCall, openAdminStream } from "./admin-client.ts";
import { type CliContext, CommandError } from "./context.ts";
import { EXIT, misused } from "./exit-codes.ts";
import { readNotes } from "./kept-notes.ts";
import { type OutputOptions, printResource, printVerified } from "./output.ts";

interface VerifyOptions extends OutputOptions {
  readonly vkey: readonly string[];
  readonly checkpoint?: readonly string[];
  readonly db?: string;
  readonly export?: string;
  readonly entry?: string;
}

/** Longest line of an export, in characters; entries are far shorter. */
const LINE_MAX = 1_048_576;

function decode(text: string, line: number): LogItem {
  try {
    return decodeItem(text);
  } catch (error) {
    throw new LogProblem(null, `line ${line} is not a line of an export: ${(error as Error).message}`);
  }
}

/** Decodes the lines of an export; yields the items of one chunk of the stream at a time. */
async function* decodeLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<readonly LogItem[]> {
  const decoder = new TextDecoder();
  let rest = "";
  let before = 1;
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > LINE_MAX) {
      throw new LogProblem(null, `line ${before + lines.length} is too long for an export`);
    }
    const first = before;
    yield lines.map((text, index) => decode(text, first + index));
    before += lines.length;
  }
}

function isOfNetwork(error: unknown): boolean {
  return error instanceof Error && "syscall" in error;
}

/** Loads the database client. No other command pays for its start, and the package of the command line lacks it. */
async function loadDatabase() {
  try {
    return await Promise.all([
      import("#compliance/read-log.ts"),
      import("#database/access.ts"),
      import("#database/bounded-client.ts"),
      import("#database/pool.ts"),
      import("#observability/logger.ts"),
    ]);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_MODULE_NOT_FOUND") {
      throw new CommandError("--db needs the npm package `pg`: install it beside this one.", {
        cause: error,
      });
    }
    throw error;
  }
}

async function* readDatabase(url: string): AsyncGenerator<readonly LogItem[]> {
  const [
    { readLog },
    { requireSafeAccess },
    { LONG_STATEMENT_TIMEOUT_MS: statementMs },
    { createPool },
    { createLogger },
  ] = await loadDatabase();
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url, role: "signet_audit", max: 2, log, statementMs });
  try {
    await requireSafeAccess(pool, { databaseUrl: url, development: true });
    yield* readLog(pool);
  } catch (error) {
    throw new CommandError(`--db: ${messageOf(error)}`, {
      cause: error,
      ...(isOfNetwork(error) ? { exitCode: EXIT.unavailable } : {}),
    });
  } finally {
    await pool.end();
  }
}

async function openItems(
  context: CliContext,
  { db, export: path }: VerifyOptions,
): Promise<AsyncIterable<readonly LogItem[]>> {
  if (db !== undefined) {
    return readDatabase(db);
  }
  return decodeLines(
    path === undefined
      ? await openAdminStream(context, "/audit/export")
      : (createReadStream(path) as AsyncIterable<Uint8Array>),
  );
}

async function verifyOne(
  context: CliContext,
  { entry, vkey }: VerifyOptions,
  kept: readonly KeptNote[],
): Promise<VerifiedEntry> {
  const call = createAdminCall(context);
  const get = async <T>(path: string): Promise<T> => (await call("GET", `/audit/${path}`)) as T;
  const index = Number(entry);
  if (!Number.isSafeInteger(index) || index < 0) {
    throw misused("--entry takes the index of an entry, from 0.");
  }
  return await verifyEntry(
    {
      entry: async (idx) => await get(String(idx)),
      checkpoint: async () => await get("checkpoint"),
      inclusion: async (idx, size) => await get(`proof/inclusion?idx=${idx}&size=${size}`),
      consistency: async (from, to) => await get(`proof/consistency?from=${from}&to=${to}`),
    },
    index,
    { verifierKeys: vkey, earlier: kept.map(({ note }) => note), crypto: NODE_CRYPTO },
  );
}

/** Which entries a fault is about. */
function which({ index, last }: LogProblem): string {
  return last === index ? String(index) : `one of ${index} to ${last}`;
}

function describe(problem: LogProblem): string {
  const where = problem.index === null ? "" : `\nfirst bad entry: ${which(problem)}`;
  const further = problem.further.map(({ message }) => `\nalso: ${message}`);
  return `the log is not intact: ${problem.message}${where}${further.join("")}`;
}

/** Turns the errors that a user can act on into CommandErrors; returns any other error unchanged. */
function explain(error: unknown): unknown {
  if (error instanceof LogProblem) {
    return new CommandError(describe(error), { cause: error });
  }
  const isExpected =
    error instanceof NoteError || error instanceof ComplianceProofError || isOfNetwork(error);
  return isExpected ? new CommandError((error as Error).message, { cause: error }) : error;
}

async function verify(context: CliContext, options: VerifyOptions): Promise<void> {
  if (options.db !== undefined && options.export !== undefined) {
    throw misused("Give --db or --export, not both.");
  }
  try {
    const keys = await Promise.all(
      options.vkey.map(async (text) => await parseVerifierKey(text, NODE_CRYPTO)),
    );
    const kept = await readNotes(options.checkpoint);
    const result =
      options.entry === undefined
        ? await verifyLog(await openItems(context, options), { keys, kept })
        : await verifyOne(context, options, kept);
    const what =
      "entries" in result
        ? "the log is intact and agrees with every checkpoint"
        : `entry ${result.index} is in the signed log`;
    printVerified(context, what, result, options);
  } catch (error) {
    if (options.json === true && error instanceof LogProblem) {
      const problems = [error, ...error.further].map(({ index, last, message }) => ({
        index,
        last,
        message,
      }));
      printResource(context, { intact: false, problems }, options);
    }
    throw explain(error);
  }
}

/** Adds the two commands to `signet audit`. */
export function addVerification(audit: Command, context: CliContext): void {
  audit
    .command("verify")
    .description(
      "recompute the log and compare it with every checkpoint; if it differs, exit with 1 and print the bad entries",
    )
    .requiredOption(
      "--vkey <key...>",
      "verifier key from `signet keys checkpoint-key`; if the key was changed, give the earlier ones too",
    )
    .option("--checkpoint <path...>", "checkpoints that you kept: files, or the signer's directory")
    .option("--db <url>", "read the database directly, with a login that may become signet_audit")
    .option("--export <file>", "read a file from `signet audit export`; default: ask the operators' API")
    .option("--entry <index>", "verify only this entry, by its proof")
    .option("--json", "print an object as JSON")
    .action(async (options: VerifyOptions) => await verify(context, options));

  audit
    .command("export")
    .description("print the whole log with its checkpoints, one JSON object per line")
    .action(async () => {
      const decoder = new TextDecoder();
      for await (const chunk of await openAdminStream(context, "/audit/export")) {
        context.stdout(decoder.decode(chunk, { stream: true }));
      }
    });
}
