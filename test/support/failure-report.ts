/** What a person needs after a failed test: the last requests with their answers, and the log of each process. */
import { appendFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, type RunnerTestFile, type RunnerTestSuite } from "vitest";
import { maskSecrets } from "#observability/logger.ts";
import { type Answer, readAnswer } from "./answer.ts";

const REQUESTS_KEPT = 20;
const BODY_KEPT = 2_000;
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** Members and parameters whose values `maskSecrets` cannot recognize. */
const SECRET_MEMBER = /("(?:client_secret|secret|token|access_token|private_key)"\s*:\s*")[^"]*/g;
const SECRET_PARAMETER = /\b((?:client_secret|client_assertion|token|access_token|link|csrf)=)[^&\s"]*/g;

/** A service or process under test. */
export interface Observed {
  readonly name: string;
  /** Returns all that it has logged or printed. */
  readonly log: () => string;
  readonly requests?: RequestTrail;
  /** Forgets the log. Only shared services need it. */
  readonly forget?: () => void;
}

/** What the running test file observes, with the length of each log that is already written. */
const observed = new Map<Observed, number>();

/** Adds a service or process to the report of each failure in the running test file, without what it did before. */
export function observe(one: Observed): void {
  one.forget?.();
  one.requests?.clear();
  observed.set(one, 0);
}

interface Exchange {
  readonly request: string;
  answer: string;
}

function withoutSecrets(text: string): string {
  return maskSecrets(text)
    .replaceAll(SECRET_MEMBER, "$1[redacted]")
    .replaceAll(SECRET_PARAMETER, "$1[redacted]");
}

function shortened(text: string): string {
  return text.length > BODY_KEPT ? `${text.slice(0, BODY_KEPT)}… (${text.length} characters)` : text;
}

function bodyText(body: RequestInit["body"]): string {
  if (body === undefined || body === null) {
    return "";
  }
  const text = typeof body === "string" || body instanceof URLSearchParams;
  return text ? ` ${shortened(body.toString())}` : " (not text)";
}

function answerText({ status, body, headers, text }: Answer): string {
  const parts = [status, body["code"] ?? body["error"], headers.get("x-request-id"), shortened(text)];
  return parts
    .filter((part) => typeof part === "number" || (typeof part === "string" && part !== ""))
    .join(" ");
}

/** The last requests to a service, with their answers. */
export class RequestTrail {
  #exchanges: Exchange[] = [];

  /** Sends a request, reads the whole answer, and keeps both. Headers are not kept. */
  async send(url: string, init: RequestInit = {}): Promise<Answer> {
    const request = `${init.method ?? "GET"} ${url}${bodyText(init.body)}`;
    const exchange: Exchange = { request, answer: "no answer yet" };
    this.#exchanges.push(exchange);
    if (this.#exchanges.length > REQUESTS_KEPT) {
      this.#exchanges.shift();
    }
    try {
      const answer = await readAnswer(await fetch(url, init));
      exchange.answer = answerText(answer);
      return answer;
    } catch (error) {
      exchange.answer = String(error);
      throw error;
    }
  }

  /** Forgets them. */
  clear(): void {
    this.#exchanges = [];
  }

  /** Returns a line per request and answer, without secrets. */
  lines(): string[] {
    return this.#exchanges.flatMap(({ request, answer }) => [
      withoutSecrets(request),
      `  → ${withoutSecrets(answer)}`,
    ]);
  }
}

/** Returns the path of a test file's log, from the repository. */
function logPath({ name }: RunnerTestFile): string {
  return join(".signet", "test-logs", `${name}.log`);
}

/** Appends what is new in the logs. Returns the file's path, or undefined if it is empty. */
function writeLogs(file: RunnerTestFile): string | undefined {
  const path = join(REPOSITORY, logPath(file));
  mkdirSync(dirname(path), { recursive: true });
  for (const [one, written] of observed) {
    const log = one.log();
    if (log.length > written) {
      appendFileSync(path, `=== ${one.name}\n${maskSecrets(log.slice(written)).trimEnd()}\n`);
      observed.set(one, log.length);
    }
  }
  return [...observed.values()].some((written) => written > 0) ? logPath(file) : undefined;
}

/** Prints the report of a failed test or hook. */
function report(file: RunnerTestFile, name: string): void {
  const lines = [`signet: failed: ${name}`];
  for (const { name: service, requests } of observed.keys()) {
    const sent = requests?.lines() ?? [];
    if (sent.length > 0) {
      lines.push(`The last requests to ${service}, with their answers:`, ...sent.map((line) => `  ${line}`));
    }
  }
  const log = writeLogs(file);
  console.error([...lines, log === undefined ? "Nothing was logged." : `Log: ${log}`].join("\n"));
}

/** Returns the suites whose own hooks have failed. */
function failedSuites(suite: Readonly<RunnerTestSuite>): Readonly<RunnerTestSuite>[] {
  const within = suite.tasks.flatMap((task) => (task.type === "suite" ? failedSuites(task) : []));
  return (suite.result?.errors ?? []).length > 0 ? [suite, ...within] : within;
}

/** Reports each failure of the test file that is about to run. */
export function reportFailures(): void {
  // oxlint-disable-next-line no-empty-pattern -- vitest requires a destructured first argument
  beforeAll(({}, { file }) => {
    observed.clear();
    // What an earlier run left.
    rmSync(join(REPOSITORY, logPath(file)), { force: true });
  });
  beforeEach(({ task, onTestFailed }) => {
    onTestFailed(() => report(task.file, task.fullName));
  });
  // oxlint-disable-next-line no-empty-pattern -- vitest requires a destructured first argument
  afterAll(({}, suite) => {
    for (const failed of failedSuites(suite)) {
      report(suite.file, `a hook of ${failed.fullName}`);
    }
  });
}
