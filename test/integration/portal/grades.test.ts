/** The portal's pages on grades: requested, followed and read, with the same scopes as the API's routes. */
import { randomBytes } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { CHECK_NAMES } from "#webhooks/grader/checks.ts";
import { FINDINGS } from "#webhooks/grader/findings.ts";
import type { GradeReport } from "#webhooks/grader/grade.ts";
import { useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write"];

let tenant: Tenant;
let visitor: PortalVisitor;

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

async function insertGrade(endpoint: string, state: string, columns: Readonly<Record<string, unknown>> = {}) {
  const id = newId("grade", Date.now(), randomBytes);
  const { report = null, failure = null, checks_made: made = 0 } = columns;
  await sql(
    api,
    `INSERT INTO endpoint_grades (id, tenant_id, endpoint_id, state, report, failure, checks_made, created_at, finished_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, now(), CASE WHEN $4 IN ('COMPLETED', 'FAILED') THEN now() END)`,
    [id, tenant.tenantId, endpoint, state, report, failure, made],
  );
  return id;
}

const REPORT: GradeReport = {
  score: 45,
  findings: [
    { code: "accepts_stale", ...FINDINGS.accepts_stale, checks: ["stale"] },
    { code: "large_body", ...FINDINGS.large_body, checks: ["large_body"] },
  ],
  not_observed: [{ code: "duplicates_processed", advice: "Answer <processed>." }],
  checks: CHECK_NAMES.map((name) =>
    name === "valid_again"
      ? { name, expected: "accept", verdict: "not_performed", status: null, error: null, duration_ms: null }
      : name === "large_body"
        ? { name, expected: "accept", verdict: "failed", status: null, error: "timeout", duration_ms: 10_001 }
        : {
            name,
            expected: "accept",
            verdict: name === "stale" ? "failed" : "passed",
            status: 200,
            error: null,
            duration_ms: 7,
          },
  ),
};

test("a running grade shows its progress, and a finished one how far it got", async () => {
  const { id } = await createEndpoint(api, tenant);
  const running = await insertGrade(id, "RUNNING", { checks_made: 7 });
  const page = await visitor.get(`/portal/endpoints/${id}/grades/${running}`);
  expect(page.text).toContain("7 of 19 deliveries sent.");
  expect(page.text).toContain('<progress id="bar" value="7" max="19">');
  const progress = { checks_made: 7, checks_total: 19, report: null };
  expect(await tenant.get(`/v1/webhooks/endpoints/${id}/grades/${running}`)).toMatchObject({
    body: progress,
  });
  const ended = await insertGrade(id, "COMPLETED", { report: JSON.stringify(REPORT) });
  expect(await tenant.get(`/v1/webhooks/endpoints/${id}/grades/${ended}`)).toMatchObject({
    body: { checks_made: 18, checks_total: 19 },
  });
});

test("a grade is requested once, and its page waits for it", async () => {
  const { id } = await createEndpoint(api, tenant);
  const list = await visitor.get(`/portal/endpoints/${id}/grades`);
  expect(list.text).toContain("Grade the receiver");
  expect(list.text).toContain("No grades yet");
  const once = randomBytes(16).toString("base64url");
  const started = await visitor.post(`/portal/endpoints/${id}/grades`, { once });
  expect(started.status).toBe(303);
  const path = started.headers.get("location") ?? "";
  const [grade] = rows(await tenant.get(`/v1/webhooks/endpoints/${id}/grades`));
  expect(grade).toMatchObject({ state: "QUEUED", score: null });
  expect(path).toBe(`/portal/endpoints/${id}/grades/${String(grade?.["id"])}`);
  const page = await visitor.get(path);
  expect(page.text).toContain("hx-trigger");
  expect(page.text).toContain("waiting");
  // A second request must wait, which its page says.
  const second = await visitor.post(`/portal/endpoints/${id}/grades`);
  expect(second).toMatchObject({ status: 409 });
  expect(second.text).toContain("is being graded");
  expect(rows(await tenant.get(`/v1/webhooks/endpoints/${id}/grades`))).toHaveLength(1);
});

test("an endpoint that is not active cannot be graded: there is no button, and requests are rejected", async () => {
  const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
  const { text } = await visitor.get(`/portal/endpoints/${id}/grades`);
  expect(text).toContain("Only an active endpoint can be graded");
  expect(text).not.toContain(`action="/portal/endpoints/${id}/grades"`);
  expect(await visitor.post(`/portal/endpoints/${id}/grades`)).toMatchObject({ status: 409 });
});

test("a report shows the faults, how to fix them, and the verdict of every check", async () => {
  const { id } = await createEndpoint(api, tenant);
  const grade = await insertGrade(id, "COMPLETED", { report: JSON.stringify(REPORT) });
  const { text, status } = await visitor.get(`/portal/endpoints/${id}/grades/${grade}`);
  expect(status).toBe(200);
  for (const said of [
    "<strong>45</strong> of 100",
    FINDINGS.accepts_stale.problem,
    FINDINGS.large_body.advice,
    "<code>duplicates_processed</code>",
    "Answer &lt;processed&gt;.",
    "no answer in time",
    "10001 ms",
    "1 of 19 checks could not be performed",
    "Grade again",
  ]) {
    expect(text).toContain(said);
  }
  expect(text).not.toContain("hx-trigger");
  expect(text.match(/role="row"/g)).toHaveLength(1 + CHECK_NAMES.length);
  expect(text.match(/>passed</g)).toHaveLength(16);
  const list = await visitor.get(`/portal/endpoints/${id}/grades`);
  expect(list.text).toContain("45 of 100");
  const endpoint = await visitor.get(`/portal/endpoints/${id}`);
  expect(endpoint.text).toContain(`href="/portal/endpoints/${id}/grades/${grade}"`);
  expect(endpoint.text).toContain("45 of 100");
});

test("a failed grade shows why", async () => {
  const { id } = await createEndpoint(api, tenant);
  const grade = await insertGrade(id, "FAILED", { failure: "endpoint_not_active" });
  const { text } = await visitor.get(`/portal/endpoints/${id}/grades/${grade}`);
  expect(text).toContain("was disabled, was deleted or got another URL");
  const [newest] = rows(await tenant.get(`/v1/webhooks/endpoints/${id}/grades`));
  expect(newest).toMatchObject({ state: "FAILED", failure: "endpoint_not_active", score: null });
});

test("past grades are listed newest first, page by page", async () => {
  const { id } = await createEndpoint(api, tenant);
  const made: string[] = [];
  for (let count = 0; count < 3; count += 1) {
    made.unshift(await insertGrade(id, "FAILED", { failure: "interrupted" }));
  }
  const sorted = made.toSorted().toReversed();
  const first = await tenant.get(`/v1/webhooks/endpoints/${id}/grades?limit=2`);
  expect(rows(first).map((row) => row["id"])).toEqual(sorted.slice(0, 2));
  const cursor = encodeURIComponent(String(first.body["next_cursor"]));
  const rest = await tenant.get(`/v1/webhooks/endpoints/${id}/grades?limit=2&cursor=${cursor}`);
  expect(rows(rest).map((row) => row["id"])).toEqual(sorted.slice(2));
  expect(rest.body["next_cursor"]).toBeNull();
});

test("a session with read scopes sees neither grades nor links to them", async () => {
  const { id } = await createEndpoint(api, tenant);
  await insertGrade(id, "COMPLETED", { report: JSON.stringify(REPORT) });
  const reader = await signInToPortal(api, tenant.token, { scopes: ["webhooks:read"] });
  const { text } = await reader.get(`/portal/endpoints/${id}`);
  expect(text).not.toContain("/grades");
  expect(await reader.get(`/portal/endpoints/${id}/grades`)).toMatchObject({ status: 403 });
});
