/** A tenant's commands that follow, export, hold credentials and manage streams: the real binary against a real service. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { runProcess } from "#test/support/processes.ts";
import { signetProgram, startSignet } from "#test/support/signet-command.ts";
import { SAFE_SUMMARY, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import { useTenantCommands } from "#test/support/tenant-commands.ts";

allowMinutes(3);

const api = useSharedApi({ worker: true });

const { terminal, signet, json } = useTenantCommands(api, [
  ...WEBHOOK_SCOPES,
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "ssf:read",
  "ssf:manage",
]);

interface Identified {
  readonly id: string;
}

/** Creates a disabled endpoint, whose events become dead letters at once. */
async function deadEndpoint(type: string, team: string): Promise<string> {
  const url = `http://127.0.0.1:${await freePort()}/hook`;
  const metadata = JSON.stringify({ team });
  const line = ["endpoint", "create", url, "--events", type, "--metadata", metadata, "--rate-limit", "5"];
  const created = await json<Identified>(...line);
  expect(created).toMatchObject({ rate_limit: 5 });
  await json("endpoint", "disable", created.id);
  return created.id;
}

test("stream commands manage streams of security events", async () => {
  interface Stream {
    readonly stream_id: string;
    readonly endpoint_id: string;
  }
  const url = `http://127.0.0.1:${await freePort()}/hook`;
  const push = ["--push", url, "--authorization", "-", "--events", "session-revoked"];
  const made = await signet(["stream", "create", ...push, "--json"], {}, "Bearer of-the-receiver\n");
  expect(made).toMatchObject({ code: 0, stderr: "" });
  const { stream_id: id, endpoint_id: endpoint } = JSON.parse(made.stdout) as Stream;
  const revoked = "https://schemas.openid.net/secevent/caep/event-type/session-revoked";
  expect(await json("stream", "show", id)).toMatchObject({
    events_delivered: [revoked],
    delivery: { endpoint_url: url },
  });
  expect(await json("endpoint", "show", endpoint)).toMatchObject({
    authentication: { type: "header", name: "Authorization" },
  });
  const polled = await json<Stream>("stream", "create", "--description", "polled");
  expect(await json<readonly Stream[]>("stream", "list")).toMatchObject([
    { stream_id: id },
    { stream_id: polled.stream_id, description: "polled" },
  ]);
  const table = await signet(["stream", "list"]);
  expect(table.stdout).toMatch(
    /^STREAM_ID +METHOD +ENDPOINT_URL +EVENTS .*\nssf_\w+ +push +http\S+ +session-r/,
  );
  expect(await json("stream", "update", polled.stream_id, "--events", revoked)).toMatchObject({
    description: "polled",
    events_requested: [revoked],
  });
  const change = ["--set", "paused", "--reason", "maintenance"];
  expect(await json("stream", "status", polled.stream_id, ...change)).toMatchObject({ status: "paused" });
  expect(await json("stream", "status", polled.stream_id)).toEqual({
    stream_id: polled.stream_id,
    status: "paused",
    reason: "maintenance",
  });
  const quiet = { code: 0, stdout: "", stderr: "" };
  const { clientId, principalId, tenantId } = terminal.current.client;
  for (const subject of [clientId, principalId, tenantId, "AbCdEf0123456789-_AbCd"]) {
    expect(await signet(["stream", "subject", "remove", id, subject])).toEqual(quiet);
  }
  expect(await signet(["stream", "subject", "add", id, clientId])).toEqual(quiet);
  const removed = await sql(api, "SELECT subject FROM ssf_removed_subjects WHERE stream_id = $1", [id]);
  const iss = api.publicUrl;
  expect(removed.map(({ subject }) => JSON.parse(String(subject)) as object)).toEqual(
    expect.arrayContaining([
      { format: "iss_sub", iss, sub: principalId },
      { format: "opaque", id: tenantId },
      { format: "jwt_id", iss, jti: "AbCdEf0123456789-_AbCd" },
    ]),
  );
  expect(removed).toHaveLength(3);
  expect(await signet(["stream", "verify", id, "--state", "here"])).toEqual(quiet);
  for (const wrong of [
    ["create", "--events", "x"],
    ["create", "--authorization", "x"],
    ["update", id],
  ]) {
    expect(await signet(["stream", ...wrong])).toMatchObject({ code: 2, stdout: "" });
  }
  expect(await signet(["stream", "delete", id])).toEqual(quiet);
  expect(await signet(["stream", "show", id])).toMatchObject({ code: 3 });
});

test("dlq export prints every letter as it was published, filtered by endpoint and metadata", async () => {
  const endpoint = await deadEndpoint("export.letter", "export");
  const token = (await signet(["token"])).stdout.trim();
  const data = '{"big":1152921504606846977,"exact":1.0,"b":1,"a":2}';
  const published = await api.request("/v1/events", {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: `{"type":"export.letter","data":${data}}`,
  });
  expect(published.status).toBe(202);
  for (const chosen of [["--endpoint", endpoint], ["--metadata", "team=export"], []]) {
    const run = await signet(["dlq", "export", ...chosen]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    expect(run.stdout).toMatch(/^[^\n]+\n$/);
    expect(run.stdout).toContain(`"data":${data}`);
  }
  expect(await signet(["dlq", "export", "--metadata", "team=other"])).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
  });
  expect(await json<{ data: Identified[] }>("endpoint", "list", "--metadata", "team=export")).toMatchObject({
    data: [{ id: endpoint }],
  });
  const listed = await json<{ data: Identified[] }>("delivery", "list", "--metadata", "team=export");
  expect(listed.data).toHaveLength(1);
  expect(await signet(["dlq", "list", "--metadata", "team"])).toMatchObject({ code: 2, stdout: "" });
});

test("a reader that closes the pipe early causes no crash", async () => {
  await deadEndpoint("left.early", "early");
  const events = Array.from({ length: 40 }, () => ({
    type: "left.early",
    data: { text: "x".repeat(50_000) },
  }));
  const token = (await signet(["token"])).stdout.trim();
  const published = await api.request("/v1/events", {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect(published.status).toBe(202);
  const program = signetProgram();
  const { directory, environment } = terminal.current;
  const errors = join(directory, "errors");
  const output = await runProcess({
    command: [
      "bash",
      "-c",
      `"${process.execPath}" "${program.path}" dlq export 2>"${errors}" | head -c 10; cat "${errors}"`,
    ],
    cwd: directory,
    environment: { PATH: "/usr/bin:/bin", ...program.environment, ...environment },
  });
  expect(output).toBe('{"id":"dlv');
});

test("delivery tail prints the selected changes until it has --count of them", async () => {
  const endpoint = await deadEndpoint("tail.dead", "tail");
  const running = startSignet(
    ["delivery", "tail", "--state", "DEAD_LETTERED", "--endpoint", endpoint, "--count", "1", "--json"],
    terminal.current.environment,
  );
  let over = false;
  const ended = running.ended.finally(() => (over = true));
  // It does not print earlier changes, so publish until it ends.
  await eventually(async () => {
    await json("event", "publish", "tail.other", "--data", "{}");
    await json("event", "publish", "tail.dead", "--data", "{}");
    return over;
  }, "the first line");
  const run = await ended;
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(run.stdout)).toMatchObject({ endpoint_id: endpoint, state: "DEAD_LETTERED" });
  expect(await signet(["delivery", "tail", "--count", "some"])).toMatchObject({ code: 2 });
});

test("a tenant lists, shows, creates, rotates and revokes its own credentials", async () => {
  const made = await json<Identified & { client_secret: string }>("credential", "own", "create");
  expect(made.client_secret).toMatch(/^sgn_/);
  const table = await signet(["credential", "own", "list"]);
  expect(table.stdout).toMatch(/^ID +STATE +CLIENT_ID +DUE_AT +OVERDUE +ENDS_AT +CREATED_AT +PRINCIPAL_ID\n/);
  expect(table.stdout).toContain(made.id);
  const shown = await json<{ versions: object[] }>("credential", "own", "show", made.id);
  expect(shown).toMatchObject({ id: made.id, versions: [{ version: 1 }] });
  expect(JSON.stringify(shown)).not.toContain(made.client_secret);

  const next = await signet(["credential", "own", "rotate", made.id, "--overlap", "60"]);
  expect(next).toMatchObject({ code: 0, stderr: expect.stringContaining("only once") as string });
  const id = /^id +(crd_\w+)$/m.exec(next.stdout)?.[1] ?? "";
  expect(await json("credential", "own", "show", made.id)).toMatchObject({ replaced_by: id });

  const signing = await json("credential", "own", "signing-secret", "create", id);
  expect(signing).toMatchObject({ version: 1, state: "GOOD" });
  expect(await json("credential", "own", "require-signature", id, "on")).toMatchObject({
    signature_required: true,
  });
  expect(await signet(["credential", "own", "require-signature", id, "maybe"])).toMatchObject({ code: 2 });
  await json("credential", "own", "require-signature", id, "off");
  expect(await json("credential", "own", "signing-secret", "revoke", id)).toMatchObject({
    data: [{ version: 1, state: "REVOKED" }],
  });
  expect(await json("credential", "own", "revoke", id, "--reason", "tried")).toHaveProperty("revocation_id");
  expect(await json("credential", "own", "show", id)).toMatchObject({ state: "REVOKED" });
  expect(await signet(["credential", "own", "revoke", "crd_000000000000000000000000"])).toMatchObject({
    code: 3,
  });
});

test("a tenant revokes what leaked, and gives a secret on standard input only", async () => {
  const made = await json<Identified & { client_id: string; client_secret: string }>(
    "credential",
    "own",
    "create",
  );
  const revoke = ["credential", "own", "revoke"];
  expect(await signet([...revoke, made.client_secret])).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.not.stringContaining(made.client_secret) as string,
  });
  for (const line of [[], ["--secret-stdin"], [made.client_id, "--secret-stdin"]]) {
    expect(await signet([...revoke, ...line])).toMatchObject({ code: 2 });
  }
  const run = await signet(
    [...revoke, "--secret-stdin", "--reason", "leaked"],
    {},
    `${made.client_secret}\n`,
  );
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(run.stdout).toMatch(new RegExp(`^KIND +TARGET .*\\ncredential +${made.id} +${made.client_id} `));
  expect(run.stdout).toMatch(
    /\nID +KIND +REGION +STATE +MS\napi-[0-9a-f]{8} +api +- +(applied|lease_expired) +(\d+|-)\n/,
  );
  expect(run.stdout).toMatch(SAFE_SUMMARY);
  expect(run.stdout).not.toContain(made.client_secret);
  expect(await json("credential", "own", "show", made.client_id)).toMatchObject({ state: "REVOKED" });
  expect(await signet([...revoke, "cl_000000000000000000000000"])).toMatchObject({ code: 3 });
});

test("an operator revokes what leaked", async () => {
  const { environment } = api;
  const { client } = terminal.current;
  const token = (await signet(["token"])).stdout.trim();
  const revoke = ["revoke", "--token-stdin", "--reason", "leaked"];
  const run = await startSignet(revoke, environment, token).ended;
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(run.stdout).toMatch(new RegExp(`^KIND +TARGET .*\\njti +\\S+ +${client.clientId} `));
  expect(await startSignet(revoke, environment, `${token}x`).ended).toMatchObject({ code: 1, stdout: "" });
  expect(await startSignet(["revoke", token], environment).ended).toMatchObject({
    code: 2,
    stderr: expect.not.stringContaining(token) as string,
  });
  const made = await json<Identified & { client_id: string }>("credential", "own", "create");
  const shown = await startSignet(["credential", "show", made.client_id, "--json"], environment).ended;
  expect(JSON.parse(shown.stdout)).toMatchObject({ id: made.id });
  for (const line of [
    ["revoke", made.client_id],
    ["credential", "revoke", made.client_id],
  ]) {
    expect(await startSignet(line, environment).ended).toMatchObject({ code: 0, stderr: "" });
  }
});

test("an invalid command line points to the help, and --version prints the version", async () => {
  expect(await signet(["endpoint", "lst"])).toMatchObject({
    code: 2,
    stdout: "",
    stderr:
      "signet: unknown command 'lst'\n(Did you mean list?)\n`signet endpoint --help` shows the options.\n",
  });
  expect(await signet(["credential", "list"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("`signet credential list --help`") as string,
  });
  expect((await signet(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\S*\n$/);
});
