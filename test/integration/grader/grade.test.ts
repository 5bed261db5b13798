/** The grader finds the faults of a receiver, and none in a correct one. */
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHook as createFastifyHook } from "#docs/examples/receiver-fastify.ts";
import { createHook as createNodeHook } from "#docs/examples/receiver-node.ts";
import type { HttpSender } from "#webhooks/sending/http-sender.ts";
import { Signer } from "#webhooks/sending/signer.ts";
import type { Clock } from "#domain/clock.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import { CHECK_NAMES } from "#webhooks/grader/checks.ts";
import { FINDINGS } from "#webhooks/grader/findings.ts";
import { type GradeLimits, type GradeReport, gradeReceiver } from "#webhooks/grader/grade.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import {
  acceptByHand,
  acceptWithLibrary,
  type Handler,
  processing,
  type ReadBody,
  startReceiver,
} from "#test/support/graded-receiver.ts";
import { createTestSender } from "../delivery/http-fixtures.ts";

const TIMEOUT_MS = 240_000;
const secret = generateSecret(randomBytes);
const signer = new Signer({ headerBrand: "Service", docsUrl: "https://signet.example/docs" });
let http: HttpSender;

beforeAll(() => {
  http = createTestSender();
});

afterAll(async () => {
  await http.close();
});

interface Graded {
  readonly handle: Handler;
  readonly read?: ReadBody;
  readonly limits?: Partial<GradeLimits>;
  readonly clock?: Clock;
}

async function gradeUrl(
  url: string,
  { limits, clock = systemClock }: Pick<Graded, "limits" | "clock"> = {},
): Promise<GradeReport> {
  const now = Date.now();
  const subject = {
    gradeId: newId("grade", now, randomBytes),
    endpointId: newId("endpoint", now, randomBytes),
    secrets: { secret },
  };
  return await gradeReceiver(url, subject, {
    http,
    signer,
    headerBrand: "Service",
    clock,
    randomBytes,
    wait: delay,
    limits: { pauseMs: 0, dripMs: 120, ...limits },
  });
}

async function grade({ handle, read, ...options }: Graded): Promise<GradeReport> {
  const receiver = await startReceiver(handle, read);
  try {
    return await gradeUrl(receiver.url, options);
  } finally {
    await receiver.close();
  }
}

function codesOf({ findings }: GradeReport): string[] {
  return findings.map(({ code }) => code).toSorted();
}

/** Reads only the first chunk. */
const readFirst: ReadBody = async (request) => {
  for await (const chunk of request) {
    return chunk as Buffer;
  }
  return Buffer.alloc(0);
};

function standardWebhooks(): Handler {
  const webhook = new Webhook(secret);
  return processing(
    ({ headers, body }) => {
      webhook.verify(body, headers as Record<string, string>);
      return headers["webhook-id"] as string;
    },
    { echo: false },
  );
}

describe("a correct receiver gets full marks", () => {
  const receivers: readonly (readonly [string, () => Handler])[] = [
    ["with our library", () => processing(acceptWithLibrary(secret))],
    [
      "with our library, without reporting what it verified",
      () => processing(acceptWithLibrary(secret), { echo: false }),
    ],
    ["with the stock standardwebhooks package", standardWebhooks],
    ["written by hand from the description of sha256=", () => processing(acceptByHand(secret))],
  ];

  it.each(receivers)(
    "%s",
    async (_name, handle) => {
      const report = await grade({ handle: handle() });
      expect(report).toMatchObject({ score: 100, findings: [] });
      expect(report.checks.map(({ name }) => name)).toEqual(CHECK_NAMES);
      expect(report.checks.every(({ verdict }) => verdict === "passed")).toBe(true);
    },
    TIMEOUT_MS,
  );

  it.each([
    ["node:http", "", createNodeHook],
    ["Fastify", "/hook", createFastifyHook],
  ] as const)(
    "from the example for %s, which does not process grading requests as events",
    async (_name, path, createHook) => {
      const events: string[] = [];
      const hook = createHook(secret, async ({ type }) => void events.push(String(type)));
      const server = "server" in hook ? hook.server : hook;
      if ("ready" in hook) {
        await hook.ready();
      }
      await new Promise<void>((resolve) => {
        server.listen(0, "127.0.0.1", resolve);
      });
      const report = await gradeUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
      server.closeAllConnections();
      server.close();
      expect(report).toMatchObject({ score: 100, findings: [], not_observed: [] });
      expect(events).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it("with a list of what could not be observed", async () => {
    const silent = await grade({ handle: standardWebhooks() });
    expect(silent.not_observed.map(({ code }) => code)).toEqual([
      "duplicates_processed",
      "id_header_trusted",
    ]);
    const echoing = await grade({ handle: processing(acceptWithLibrary(secret)) });
    expect(echoing.not_observed).toEqual([]);
  });
});

const library = (): ((request: Parameters<Handler>[0]) => string | null) => acceptWithLibrary(secret);
const correct = (): Handler => processing(library());

/** Like `correct`, with other answers to rejected requests. */
function answering(change: (status: number) => Awaited<ReturnType<Handler>>): Handler {
  const handle = correct();
  return async (request) => {
    const answer = await handle(request);
    return answer.status === 200 ? answer : change(answer.status);
  };
}

function late(handle: Handler, ms: number): Handler {
  return async (request) => {
    await delay(ms);
    return await handle(request);
  };
}

function blockedByBad(): Handler {
  const handle = correct();
  let blocked = false;
  return async (request) => {
    const answer = await handle(request);
    blocked ||= answer.status !== 200;
    return blocked && answer.status === 200 ? { status: 429 } : answer;
  };
}

function refusingDuplicates(): Handler {
  const handle = correct();
  return async (request) => {
    const answer = await handle(request);
    return answer.body === '{"processed":false}' ? { status: 409 } : answer;
  };
}

const startsWith = (given: string, expected: string): boolean => expected.startsWith(given);

/** Receivers with one fault each, and all its findings. */
const FAULTY: readonly (readonly [string, Graded, readonly string[]])[] = [
  [
    "accepts every request",
    { handle: processing(({ body }) => (JSON.parse(body.toString()) as { id: string }).id) },
    [
      "accepts_future",
      "accepts_stale",
      "accepts_unsigned",
      "accepts_wrong_signature",
      "timestamp_header_trusted",
    ],
  ],
  [
    "verifies a signature only if there is one",
    {
      handle: processing(
        acceptByHand(secret, {
          signature: ({ headers }) => headers["x-service-signature-256"] as string | undefined,
        }),
      ),
    },
    ["accepts_unsigned"],
  ],
  [
    "compares only as many bytes as the given signature has",
    { handle: processing(acceptByHand(secret, { same: startsWith })) },
    ["accepts_truncated_signature"],
  ],
  [
    "verifies the re-serialised body",
    {
      handle: processing(
        acceptByHand(secret, { signed: (body) => JSON.stringify(JSON.parse(body.toString())) }),
      ),
    },
    ["body_reserialised"],
  ],
  [
    "does not check the age",
    { handle: processing(acceptWithLibrary(secret, { toleranceSeconds: 1e9 })) },
    ["accepts_stale"],
  ],
  [
    "accepts timestamps in the future",
    { handle: processing(acceptWithLibrary(secret, { futureSeconds: 1e9 })) },
    ["accepts_future"],
  ],
  [
    "trusts the timestamp in the header",
    { handle: processing(acceptByHand(secret, { checkHeaderTime: false })) },
    ["timestamp_header_trusted"],
  ],
  [
    "trusts the event id in the header",
    { handle: processing(acceptByHand(secret, { idFrom: "header" })) },
    ["id_header_trusted"],
  ],
  [
    "does not remember events",
    {
      handle: processing((request) => {
        library()(request);
        return null;
      }),
    },
    ["duplicates_processed"],
  ],
  ["rejects duplicates", { handle: refusingDuplicates() }, ["refuses_duplicates", "refuses_retries"]],
  [
    "uses the event's time as the signature's",
    {
      handle: processing((request) => {
        const { timestamp } = JSON.parse(request.body.toString()) as { timestamp: string };
        const id = library()(request);
        if (Date.parse(timestamp) < Date.now() - 300_000) {
          throw new TypeError("old");
        }
        return id;
      }),
    },
    ["refuses_older_events"],
  ],
  [
    "allows one minute instead of five",
    { handle: processing(acceptWithLibrary(secret, { toleranceSeconds: 60 })) },
    ["clock_too_strict"],
  ],
  [
    "finds headers in only one spelling",
    {
      handle: processing((request) => {
        if (!request.rawHeaders.includes("X-Service-Signature-256")) {
          throw new TypeError("none");
        }
        return library()(request);
      }),
    },
    ["header_case"],
  ],
  [
    "knows only one signature",
    {
      handle: processing((request) => {
        const { "x-service-signature-256-alt": _alternative, ...headers } = request.headers;
        return acceptByHand(secret)({ ...request, headers });
      }),
    },
    ["ignores_second_signature"],
  ],
  [
    "answers late",
    {
      handle: late(correct(), 300),
      limits: { slowMs: 250 },
    },
    ["slow_answer"],
  ],
  [
    "accepts at most 100 kB",
    {
      handle: (() => {
        const handle = correct();
        return (request) => (request.body.length > 100_000 ? { status: 413 } : handle(request));
      })(),
    },
    ["large_body"],
  ],
  [
    "reads only the first chunk of the body",
    { handle: correct(), read: readFirst },
    ["large_body", "slow_body"],
  ],
  ["redirects", { handle: () => ({ status: 307, headers: { Location: "/elsewhere" } }) }, ["redirects"]],
  [
    "answers 500 to rejected requests",
    { handle: answering(() => ({ status: 500 })) },
    ["wrong_refusal_status"],
  ],
  [
    "answers 410 to rejected requests",
    { handle: answering(() => ({ status: 410 })) },
    ["wrong_refusal_status"],
  ],
  ["blocks all requests after bad ones", { handle: blockedByBad() }, ["broken_by_bad_requests"]],
  ["refuses everything", { handle: () => ({ status: 401 }) }, ["refuses_valid"]],
  [
    "hangs",
    {
      handle: async () => await new Promise<never>(() => undefined),
      limits: { deadlineMs: 300 },
    },
    ["unreachable"],
  ],
];

describe("the grader finds the fault of a receiver that", () => {
  it.each(FAULTY)(
    "%s",
    async (_name, faulty, codes) => {
      const report = await grade(faulty);
      expect(codesOf(report)).toEqual(codes);
      expect(report.score).toBeLessThan(100);
    },
    TIMEOUT_MS,
  );

  it("covers every finding that has a text", () => {
    const found = new Set(FAULTY.flatMap(([, , codes]) => codes));
    expect([...found].toSorted()).toEqual(Object.keys(FINDINGS).toSorted());
  });
});

describe("a grade", () => {
  it("is 0 if signatures are not compared, with one finding", async () => {
    const report = await grade({ handle: processing(acceptByHand(secret, { same: () => true })) });
    const checks = ["wrong_signature", "truncated_signature", "rewritten_body"];
    expect(report).toMatchObject({ score: 0, findings: [{ code: "accepts_wrong_signature", checks }] });
  });

  it("stops at its time limit and reports the checks not performed", async () => {
    let nowMs = Date.now();
    const handle = correct();
    const report = await grade({
      handle: (request) => {
        nowMs += 400;
        return handle(request);
      },
      limits: { overallMs: 700 },
      clock: { now: () => nowMs },
    });
    expect(report.checks.filter(({ verdict }) => verdict !== "not_performed")).toHaveLength(2);
    expect(report.checks).toHaveLength(CHECK_NAMES.length);
  });

  it("sends at most 20 requests, all of type signet.grade", async () => {
    const types: unknown[] = [];
    const handle = correct();
    await grade({
      handle: (request) => {
        types.push((JSON.parse(request.body.toString()) as { type: string }).type);
        return handle(request);
      },
    });
    expect(types.length).toBeLessThanOrEqual(20);
    expect(new Set(types)).toEqual(new Set(["signet.grade"]));
  });
});
