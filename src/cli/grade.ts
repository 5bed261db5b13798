/** `signet grade`: tries a receiver of webhooks with good and bad deliveries (docs/grader.md). */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Command } from "commander";
import type { Grade, GradeReport } from "../client/grades.ts";
import { SignetClient } from "../client/signet-client.ts";
import { createAddressPolicy } from "../delivery/address-policy.ts";
import { createHttpSender } from "../delivery/http-sender.ts";
import { createSigner } from "../delivery/signer.ts";
import { systemClock } from "../domain/clock.ts";
import { newId } from "../domain/ids.ts";
import { gradeReceiver } from "../grader/grade.ts";
import { decodeSecret } from "../receiver/secret.ts";
import { connectionOf, mendable, type TenantOptions } from "./connection.ts";
import { type CliContext, CommandError } from "./context.ts";
import type { OutputOptions } from "./output.ts";

interface GradeCommandOptions extends Partial<TenantOptions>, OutputOptions {
  readonly secretFile?: string;
  readonly headerBrand: string;
}

const POLL_MS = 1_000;
/** Two runs of two minutes, and a queue before them. */
const PATIENCE_MS = 600_000;
/** Literals: a name could stand for another machine. */
const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|\[::1\])$/;

/** Without a service, which would have to know who has agreed: a receiver on this machine is the caller's own. */
async function gradeHere(url: URL, options: GradeCommandOptions): Promise<GradeReport> {
  const { secretFile, headerBrand } = options;
  if (secretFile === undefined) {
    throw new CommandError("--secret-file names the file with the endpoint's secret, whsec_…");
  }
  const secret = await mendable(secretFile, async () => {
    const text = (await readFile(secretFile, "utf8")).trim();
    decodeSecret(text);
    return text;
  });
  const signer = await mendable("--header-brand", () =>
    createSigner({ headerBrand, docsUrl: "https://localhost/docs" }),
  );
  const clock = systemClock;
  const policy = createAddressPolicy({
    allowedCidrs: ["127.0.0.0/8", "::1"],
    allowHttp: true,
    ownListeners: [],
  });
  const http = createHttpSender({ policy, clock });
  const now = clock.now();
  try {
    return await gradeReceiver(
      url.href,
      {
        gradeId: newId("grade", now, randomBytes),
        endpointId: newId("endpoint", now, randomBytes),
        secrets: { secret },
      },
      { http, signer, headerBrand, clock, randomBytes, wait: delay },
    );
  } finally {
    await http.close();
  }
}

async function untilEnded(
  client: SignetClient,
  { endpoint_id: endpointId, id }: Grade,
): Promise<GradeReport> {
  const endMs = systemClock.now() + PATIENCE_MS;
  while (systemClock.now() < endMs) {
    await delay(POLL_MS);
    const grade = await client.endpoints.getGrade(endpointId, id);
    if (grade.report !== null) {
      return grade.report;
    }
    if (grade.state === "FAILED") {
      throw new CommandError(`grade ${id} has failed: ${grade.failure ?? "no reason"}`);
    }
  }
  throw new CommandError(`grade ${id} has not ended yet; is a worker running?`);
}

/** Of the tenant's endpoint with that URL. */
async function gradeThere(url: URL, options: TenantOptions, context: CliContext): Promise<GradeReport> {
  const report = (line: string): void => context.stderr(`signet grade: ${line}\n`);
  const settings = await connectionOf(options, report);
  const client = await mendable(
    "--url",
    () => new SignetClient({ ...settings, scopes: ["webhooks:read", "webhooks:write"] }),
  );
  return await mendable("grade", async () => {
    for await (const endpoint of client.endpoints.list()) {
      if (endpoint.url === url.href) {
        return await untilEnded(client, await client.endpoints.grade(endpoint.id));
      }
    }
    throw new CommandError(`there is no endpoint with the URL ${url.href}`);
  });
}

function print(report: GradeReport, { json }: OutputOptions, { stdout }: CliContext): void {
  if (json === true) {
    stdout(`${JSON.stringify(report, null, 2)}\n`);
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
  const url = await mendable(target, () => new URL(target));
  const { url: service, credentialFile } = options;
  let report: GradeReport;
  if (service !== undefined && credentialFile !== undefined) {
    report = await gradeThere(url, { ...options, url: service, credentialFile }, context);
  } else if (LOOPBACK.test(url.hostname)) {
    report = await gradeHere(url, options);
  } else {
    throw new CommandError(
      "--url and --credential-file: a receiver elsewhere is graded by the service, which knows that it has agreed",
    );
  }
  print(report, options, context);
  if (report.findings.length > 0) {
    throw new CommandError(`${report.findings.length} found`);
  }
}

/** `signet grade`. */
export function gradeCommand(context: CliContext): Command {
  return new Command("grade")
    .description("try a receiver of webhooks with good and bad deliveries, and say what it gets wrong")
    .argument("<receiver>", "its URL: of an ACTIVE endpoint, or on loopback")
    .option("--url <address>", "where the service is")
    .option("--credential-file <file>", "the credential; rewritten when its secret is rotated")
    .option("--cert <file>", "client certificate of mutual TLS, PEM")
    .option("--key <file>", "its key, PEM")
    .option("--ca <file>", "authority of the service's certificate, PEM")
    .option(
      "--secret-file <file>",
      "the endpoint's secret, to grade a receiver on loopback without a service",
    )
    .option("--header-brand <word>", "the word for Service in header names, without a service", "Service")
    .option("--json", "print the report as JSON")
    .action(async (receiver: string, options: GradeCommandOptions) => {
      await runGrade(receiver, options, context);
    });
}
