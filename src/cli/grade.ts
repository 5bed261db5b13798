/** `signet grade`: tests a receiver of webhooks with good and bad deliveries (docs/grader.md). */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Command } from "commander";
import type { Grade, GradeReport } from "#lib/client/api-types.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { decodeSecret } from "#lib/receiver/secret.ts";
import { connectionOf, withCommandError, type TenantOptions } from "./connection.ts";
import { withExamples } from "./client/command.ts";
import { type ClientOptions, clientSettingsOf, openClient } from "./client/open-client.ts";
import { type CliContext, CommandError } from "./context.ts";
import { EXIT, misused } from "./exit-codes.ts";
import { type OutputOptions, printableJson } from "./output.ts";

interface GradeCommandOptions extends Partial<TenantOptions>, ClientOptions {
  readonly secretFile?: string;
  readonly headerBrand: string;
}

const ENDPOINT_ID = /^ep_[0-9a-z]{1,64}$/;
const POLL_MS = 1_000;
/** Covers two runs of two minutes each, and their wait in the queue. */
const TIMEOUT_MS = 600_000;
/** IP literals only, because a name could resolve to another machine. */
const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Grades a local receiver without a service. No consent is needed, because a local receiver is the caller's own. */
async function gradeHere(
  url: URL,
  { secretFile, headerBrand }: GradeCommandOptions & { readonly secretFile: string },
  context: CliContext,
): Promise<GradeReport> {
  if (!LOOPBACK.test(url.hostname)) {
    throw misused(
      "--secret-file is for receivers on loopback. The service grades all others, because it knows that they agreed.",
    );
  }
  // Loaded here, so that no other command pays for the HTTP client's start.
  const [{ AddressPolicy }, { HttpSender }, { Signer }, { CHECK_NAMES }, { gradeReceiver }] =
    await Promise.all([
      import("#webhooks/sending/address-policy.ts"),
      import("#webhooks/sending/http-sender.ts"),
      import("#webhooks/sending/signer.ts"),
      import("#webhooks/grader/checks.ts"),
      import("#webhooks/grader/grade.ts"),
    ]);
  const secret = await withCommandError(secretFile, async () => {
    const text = (await readFile(secretFile, "utf8")).trim();
    decodeSecret(text);
    return text;
  });
  const signer = await withCommandError(
    "--header-brand",
    () => new Signer({ headerBrand, docsUrl: "https://localhost/docs" }),
  );
  const clock = systemClock;
  const policy = new AddressPolicy({
    allowedCidrs: ["127.0.0.0/8", "::1"],
    allowHttp: true,
    ownListeners: [],
  });
  const http = new HttpSender({ policy, clock, timers: machineTimers });
  const progress = progressOf(context);
  const now = clock.now();
  try {
    return await gradeReceiver(
      url.href,
      {
        gradeId: newId("grade", now, randomBytes),
        endpointId: newId("endpoint", now, randomBytes),
        secrets: { secret },
      },
      {
        http,
        signer,
        headerBrand,
        clock,
        randomBytes,
        wait: delay,
        mayContinue: async (made) => {
          progress.show(made, CHECK_NAMES.length);
          return await Promise.resolve(true);
        },
      },
    );
  } finally {
    progress.end();
    await http.close();
  }
}

/** Shows progress on a terminal, in one line that is rewritten in place and erased at the end. */
function progressOf({ stderr, terminal }: CliContext): {
  show(made: number, total: number): void;
  end(): void;
} {
  const write = (text: string): void => {
    if (terminal?.progress === true) {
      stderr(`\r${text}\u001b[K`);
    }
  };
  return { show: (made, total) => write(`${made} of ${total} deliveries made`), end: () => write("") };
}

async function untilEnded(
  client: SignetClient,
  { endpoint_id: endpointId, id }: Grade,
  context: CliContext,
): Promise<GradeReport> {
  const progress = progressOf(context);
  const endMs = systemClock.now() + TIMEOUT_MS;
  try {
    while (systemClock.now() < endMs) {
      await delay(POLL_MS);
      const grade = await client.endpoints.getGrade(endpointId, id);
      if (grade.report !== null) {
        return grade.report;
      }
      if (grade.state === "FAILED") {
        throw new CommandError(`grade ${id} failed: ${grade.failure ?? "no reason"}`);
      }
      progress.show(grade.checks_made, grade.checks_total);
    }
  } finally {
    progress.end();
  }
  throw new CommandError(`grade ${id} has not ended yet; is a worker running?`);
}

/** Returns the client: from the given files, otherwise from a profile like other tenants' commands. */
async function clientOf(options: GradeCommandOptions, context: CliContext): Promise<SignetClient> {
  const { url, credentialFile } = options;
  const scopes = ["webhooks:read", "webhooks:write"];
  if (url === undefined && credentialFile === undefined) {
    return (await openClient(context, options, scopes)).signet;
  }
  if (url === undefined || credentialFile === undefined) {
    throw misused("--url and --credential-file must be given together; without both, a profile is used.");
  }
  const report = (line: string): void => context.stderr(`signet grade: ${line}\n`);
  const settings = await connectionOf({ ...options, url, credentialFile }, report);
  const { apiRegionUrls: regionUrls } = clientSettingsOf(context);
  return await withCommandError("--url", () => new SignetClient({ ...settings, regionUrls, scopes }));
}

/** Grades the tenant's endpoint with that URL or id. */
async function gradeThere(
  target: string,
  options: GradeCommandOptions,
  context: CliContext,
): Promise<GradeReport> {
  const client = await clientOf(options, context);
  if (ENDPOINT_ID.test(target)) {
    return await untilEnded(client, await client.endpoints.grade(target), context);
  }
  const { href } = new URL(target);
  for await (const endpoint of client.endpoints.list({ limit: 100 })) {
    if (endpoint.url === href) {
      return await untilEnded(client, await client.endpoints.grade(endpoint.id), context);
    }
  }
  throw new CommandError(`No endpoint has the URL ${href}; \`signet endpoint list\` shows your endpoints.`, {
    exitCode: EXIT.notFound,
  });
}

function print(report: GradeReport, { json }: OutputOptions, { stdout }: CliContext): void {
  if (json === true) {
    stdout(`${printableJson(report, 2)}\n`);
    return;
  }
  stdout(`score ${report.score} of 100\n`);
  for (const { severity, code, checks, problem, advice } of report.findings) {
    stdout(`\n${severity}: ${problem} [${code}: ${checks.join(", ")}]\n  ${advice}\n`);
  }
  const missed = report.checks.filter(({ verdict }) => verdict === "not_performed");
  if (missed.length > 0) {
    stdout(`\nnot performed: ${missed.map(({ name }) => name).join(", ")}\n`);
  }
  for (const { code, advice } of report.not_observed) {
    stdout(`\nnot observed: ${code}\n  ${advice}\n`);
  }
}

async function runGrade(target: string, options: GradeCommandOptions, context: CliContext): Promise<void> {
  if (!ENDPOINT_ID.test(target) && !URL.canParse(target)) {
    throw misused(`${target} is neither a URL nor the id of an endpoint.`);
  }
  const { secretFile } = options;
  const report =
    secretFile === undefined
      ? await gradeThere(target, options, context)
      : await gradeHere(new URL(target), { ...options, secretFile }, context);
  print(report, options, context);
  if (report.findings.length > 0) {
    const { length } = report.findings;
    throw new CommandError(`${length} ${length === 1 ? "finding" : "findings"}.`);
  }
}

/** `signet grade`. */
export function gradeCommand(context: CliContext): Command {
  const command = new Command("grade")
    .description("test a receiver of webhooks with good and bad deliveries, and report its faults")
    .argument("<receiver>", "id or URL of an ACTIVE endpoint; with --secret-file, a URL on loopback")
    .option("--profile <name>", "profile that `signet login` saved")
    .option("--url <address>", "address of the service, instead of a profile; with --credential-file")
    .option("--credential-file <file>", "file with the credential; rewritten when its secret is rotated")
    .option("--cert <file>", "client certificate for mutual TLS, PEM")
    .option("--key <file>", "key of the client certificate, PEM")
    .option("--ca <file>", "CA of the service's certificate, PEM")
    .option(
      "--secret-file <file>",
      "file with the endpoint's secret, to grade a receiver on loopback without a service",
    )
    .option("--header-brand <word>", "brand in header names, for grading without a service", "Service")
    .option("--json", "print the report as JSON")
    .action(async (receiver: string, options: GradeCommandOptions) => {
      await runGrade(receiver, options, context);
    });
  return withExamples(
    command,
    "signet grade ep_…",
    "signet grade https://hooks.example.com/signet --json",
    "signet grade http://127.0.0.1:9000/ --secret-file secret.txt",
  );
}
