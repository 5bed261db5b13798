/** A tenant's commands: the real binary against a real service. */
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { provision } from "#test/support/factories.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import { openLink } from "#test/support/portal.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { useTenantCommands } from "#test/support/tenant-commands.ts";

allowMinutes(4);

const api = useSharedApi({ worker: true });

const { terminal, signet, json } = useTenantCommands(api, [
  ...WEBHOOK_SCOPES,
  "compliance:read",
  "portal:sign_in",
]);

interface Identified {
  readonly id: string;
  readonly state: string;
}

interface Page<Item> {
  readonly data: readonly Item[];
  readonly next_cursor: string | null;
}

/** An address that does not answer. */
async function deadAddress(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}/hook`;
}

test("endpoint commands print the API's object with --json, and a table without", async () => {
  const created = await json<Identified & { readonly secret: string }>(
    "endpoint",
    "create",
    await deadAddress(),
    "--events",
    "pipeline.failed, pipeline.completed",
    "--metadata",
    '{"team":"ml"}',
    "--header",
    "X-Team: ml",
    "--require-echo",
  );
  expect(created).toMatchObject({
    state: "PENDING",
    events: ["pipeline.failed", "pipeline.completed"],
    metadata: { team: "ml" },
    headers: { "X-Team": "ml" },
    require_echo: true,
  });
  expect(created.secret).toMatch(/^whsec_/);
  const { id } = created;

  const change = ["--description", "first", "--metadata", "null", "--no-require-echo"];
  expect(await json("endpoint", "update", id, ...change)).toMatchObject({
    description: "first",
    metadata: null,
    require_echo: false,
    headers: { "X-Team": "ml" },
  });
  expect(await json("endpoint", "show", id)).not.toHaveProperty("secret");
  const table = await signet(["endpoint", "list"]);
  expect(table.stdout).toMatch(
    /^ID +STATE +HEALTH +URL +EVENTS +CREATED_AT +DISABLED_REASON\nep_\w+ +PENDING +unknown +http:/,
  );

  expect(await json<Page<Identified>>("endpoint", "secret", "list", id)).toMatchObject({
    data: [{ version: 1, state: "CURRENT" }],
  });
  const rotated = await json("endpoint", "secret", "rotate", id, "--overlap", "60");
  expect(rotated).toMatchObject({ endpoint_id: id, version: 2, state: "NEXT" });
  expect((await signet(["endpoint", "secret", "activate", id])).stdout).toMatch(/^VERSION +STATE/);

  expect(await json("endpoint", "disable", id)).toMatchObject({
    state: "DISABLED",
    disabled_reason: "tenant",
  });
  expect(await signet(["endpoint", "disable", id])).toMatchObject({
    code: 5,
    stderr: expect.stringMatching(/^signet: INVALID_STATE: .* \(request req_\w+\)\n$/) as string,
  });
  expect(await json("endpoint", "enable", id)).toMatchObject({ state: "PENDING" });
  expect(await signet(["endpoint", "delete", id])).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(await signet(["endpoint", "show", id])).toMatchObject({
    code: 3,
    stdout: "",
    stderr: expect.stringMatching(/^signet: NOT_FOUND: /) as string,
  });
});

test("a list is read page by page, or to its end with an object per line", async () => {
  for (const name of ["list.a", "list.b", "list.c"]) {
    await json("event-type", "create", name, "--description", `about ${name}`);
  }
  const page = await signet(["event-type", "list", "--limit", "2"]);
  expect(page.stdout).toMatch(/list\.a[\s\S]*list\.b/);
  const cursor = /^For the next page: --cursor (\S+)\n$/.exec(page.stderr)?.[1] ?? "";
  expect((await signet(["event-type", "list", "--cursor", cursor])).stdout).toContain("list.c");
  const all = await signet(["event-type", "list", "--limit", "1", "--all", "--json"]);
  const names = all.stdout
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { name: string }).name);
  expect(names).toEqual(["list.a", "list.b", "list.c"]);
});

test("text written by others cannot control the reader's terminal", async () => {
  await json("event-type", "create", "hostile.text", "--description", "\u001b[2Jgone\u009b31m");
  const shown = await signet(["event-type", "show", "hostile.text"]);
  expect(shown.stdout).toContain("\\u001b[2Jgone\\u009b31m");
  // oxlint-disable-next-line no-control-regex
  expect(shown.stdout).not.toMatch(/[\u001b\u009b]/);
  await json("event-type", "update", "hostile.text", "--archived");
  expect(
    (await json<Page<{ name: string }>>("event-type", "list")).data.map(({ name }) => name),
  ).not.toContain("hostile.text");
  expect(await json("event-type", "update", "hostile.text", "--no-archived")).toMatchObject({
    archived_at: null,
  });
});

test("trigger sends the catalogue's example, or the given data", async () => {
  await json("event-type", "create", "trigger.example", "--example", '{"run":42}');
  const example = await json<Identified>("trigger", "trigger.example");
  expect(await json("event", "show", example.id)).toMatchObject({ data: { run: 42 } });
  const given = await signet(["trigger", "trigger.unknown", "--data", "-", "--json"], {}, '{"from":"stdin"}');
  const { id } = JSON.parse(given.stdout) as Identified;
  expect(await json("event", "show", id)).toMatchObject({ type: "trigger.unknown", data: { from: "stdin" } });
  const alone = await signet(["trigger", "trigger.unknown"]);
  expect(alone.stderr).toContain("No endpoint receives events of this type");
});

test("publishing twice with one idempotency key publishes once", async () => {
  const line = [
    "event",
    "publish",
    "once.only",
    "--data",
    "{}",
    "--idempotency-key",
    "run-7",
    "--id",
    "own-1",
  ];
  expect(await json(...line)).toEqual(await json(...line));
});

test("a dead letter is found, exported, counted and replayed as a job", async () => {
  const create = ["endpoint", "create", await deadAddress(), "--events", "dead.letter"];
  const { id: endpoint } = await json<Identified>(...create);
  await json("endpoint", "disable", endpoint);
  await json("event", "publish", "dead.letter", "--data", '{"run":1}');
  const letters = await eventually(async () => {
    const { data } = await json<Page<Identified>>("dlq", "list", "--endpoint", endpoint);
    return data.length === 1 ? data : undefined;
  }, "the dead letter");
  expect(letters).toMatchObject([{ reason: "endpoint_disabled", event_type: "dead.letter" }]);
  const [letter] = letters;
  const exported = await signet(["dlq", "export", "--endpoint", endpoint]);
  expect(JSON.parse(exported.stdout)).toMatchObject({ id: letter?.id, event: { data: { run: 1 } } });
  expect(await json("dlq", "replay", "--endpoint", endpoint, "--dry-run")).toEqual({
    dry_run: true,
    total: 1,
    would_fail: 1,
  });
  expect(await json("dlq", "summary", "--endpoint", endpoint)).toMatchObject({ total: 1 });
  expect(await signet(["dlq", "replay"])).toMatchObject({ code: 2 });

  const job = await json<Identified>("replay", "start", letter?.id ?? "", "--detach");
  const ended = await signet(["replay", "watch", job.id, "--json"]);
  expect(JSON.parse(ended.stdout)).toMatchObject({ id: job.id, state: "COMPLETED", total: 1, failed: 1 });
  expect(ended).toMatchObject({ code: 1 });
  expect(ended.stderr).toContain("1 could not be replayed (endpoint_disabled)");
  expect(await json("replay", "items", job.id)).toMatchObject({
    data: [{ delivery_id: letter?.id, state: "FAILED", reason: "endpoint_disabled" }],
  });
  expect((await signet(["replay", "list"])).stdout).toContain(job.id);
  expect(await signet(["replay", "pause", job.id])).toMatchObject({ code: 5 });
  expect((await signet(["replay", "show", job.id])).stdout).toMatch(/since_delivered +0/);
});

test("deliveries are selected by state and age, and a job that can do nothing fails", async () => {
  const create = ["endpoint", "create", await deadAddress(), "--events", "dead.again"];
  const { id: endpoint } = await json<Identified>(...create);
  await json("endpoint", "disable", endpoint);
  await json("event", "publish", "dead.again", "--data", '{"run":1}');
  const chosen = ["replay", "--endpoint", endpoint, "--since", "2h"];
  await eventually(
    async () => (await json<{ total: number }>(...chosen, "--dry-run")).total === 1,
    "the dead letter",
  );
  const nothing = await signet([...chosen, "--state", "retrying,delivered"]);
  expect(nothing).toMatchObject({ code: 1 });
  expect(nothing.stderr).toContain("Nothing was replayed");
  expect(await signet(["replay"])).toMatchObject({ code: 2 });
  expect(await signet([...chosen, "--state", "queued"])).toMatchObject({ code: 2 });
  expect(await signet(["replay", "--all", "--since", "yesterday"])).toMatchObject({ code: 2 });
  expect(await signet([...chosen, "--state", "dead_lettered"])).toMatchObject({ code: 1 });

  const { data } = await json<Page<Identified>>("delivery", "list", "--endpoint", endpoint);
  const id = data[0]?.id ?? "";
  await json("delivery", "cancel", id);
  const skipped = await signet(["dlq", "replay", id]);
  expect(skipped).toMatchObject({ code: 1 });
  expect(skipped.stderr).toContain("Nothing was replayed, 1 skipped");
  expect(await signet(["delivery", "resend", id])).toMatchObject({ code: 5 });
});

test("a replay waits until each delivery has an outcome, unless --no-wait says otherwise", async () => {
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  const create = ["endpoint", "create", receiver.url, "--events", "dead.then.fixed"];
  const { id: endpoint } = await json<Identified>(...create);
  await json("endpoint", "disable", endpoint);
  await json("event", "publish", "dead.then.fixed", "--data", '{"run":1}');
  // Its deliveries wait until a ping is acknowledged.
  await json("endpoint", "enable", endpoint);
  const job = await signet(["dlq", "replay", "--endpoint", endpoint, "--no-wait", "--json"]);
  expect(job).toMatchObject({ code: 0 });
  const { id, outcomes } = JSON.parse(job.stdout) as Identified & { readonly outcomes: object };
  expect(outcomes).toMatchObject({ delivered: 0, waiting: 1 });
  const watched = signet(["replay", "watch", id, "--json"]);
  receiver.answer([{ kind: "answer" }]);
  await json("endpoint", "verify", endpoint);
  const ended = await watched;
  expect(ended).toMatchObject({ code: 0 });
  expect(JSON.parse(ended.stdout)).toMatchObject({ outcomes: { delivered: 1, waiting: 0 } });
  await receiver.close();
});

describe("a command's credential", () => {
  const credentialJson = (): string => {
    const { clientId: client_id, clientSecret: client_secret } = terminal.current.client;
    return JSON.stringify({ client_id, client_secret, version: 1 });
  };
  const noCredential = { SIGNET_CLIENT_ID: "", SIGNET_CLIENT_SECRET: "" };

  test("is missing until a working login, whose files only the owner can read", async () => {
    const { client, directory } = terminal.current;
    const refused = await signet(["whoami"], noCredential);
    expect(refused).toMatchObject({ code: 4, stdout: "" });
    expect(refused.stderr).toContain("signet login");

    const wrong = JSON.stringify({ client_id: client.clientId, client_secret: `${client.clientSecret}x` });
    const failed = await signet(["login", "--credential-file", "-"], noCredential, wrong);
    expect(failed).toMatchObject({ code: 4, stdout: "" });
    expect(failed.stderr).not.toContain(client.clientSecret);
    expect(await readdir(join(directory, "config")).catch(() => [])).toEqual([]);

    const done = await signet(["login", "--credential-file", "-"], noCredential, credentialJson());
    expect(done).toMatchObject({ code: 0, stderr: "" });
    expect(done.stdout).not.toContain(client.clientSecret);
    for (const file of await readdir(join(directory, "config"))) {
      expect((await stat(join(directory, "config", file))).mode & 0o777, file).toBe(0o600);
    }
    expect((await stat(join(directory, "config"))).mode & 0o777).toBe(0o700);

    const shown = await signet(["whoami", "--json"], { ...noCredential, SIGNET_API_URL: "" });
    expect(JSON.parse(shown.stdout)).toMatchObject({
      url: api.publicUrl,
      credential: "profile default",
      tenant: client.tenantId,
      client_id: client.clientId,
    });
    expect((await signet(["logout"], noCredential)).code).toBe(0);
    expect((await signet(["whoami"], noCredential)).code).toBe(4);
  });

  test("of a named profile wins over the environment, and the name cannot leave the directory", async () => {
    const { client } = terminal.current;
    const login = ["login", "--profile", "second", "--client-id", client.clientId];
    expect((await signet(login, {}, `${client.clientSecret}\n`)).code).toBe(0);
    const shown = await signet(["whoami", "--profile", "second", "--json"], { SIGNET_CLIENT_ID: "cl_other" });
    expect(JSON.parse(shown.stdout)).toMatchObject({ credential: "profile second" });
    expect(await signet(["whoami", "--profile", "../second"])).toMatchObject({ code: 2 });
    expect(await signet(["whoami", "--profile", "third"])).toMatchObject({ code: 4 });
  });

  test("is the demo tenant's in development, never in production", async () => {
    const file = join(terminal.current.directory, "demo.json");
    await writeFile(file, credentialJson(), { mode: 0o600 });
    const shown = await signet(["whoami", "--json"], noCredential);
    expect(JSON.parse(shown.stdout)).toMatchObject({ credential: `the demo tenant of ${file}` });
    expect(await signet(["whoami"], { ...noCredential, SIGNET_ENV: "production" })).toMatchObject({
      code: 4,
    });
    await rm(file);
  });

  test("is not sent to another machine over plain http", async () => {
    const run = await signet(["whoami"], { SIGNET_API_URL: "http://signet.example" });
    expect(run).toMatchObject({ code: 1 });
    expect(run.stderr).toContain("plain http");
  });
});

test("token prints a working access token with the requested scopes", async () => {
  const token = (await signet(["token", "--scope", "webhooks:read"])).stdout.trim();
  const answer = await api.request("/v1/webhooks/endpoints", {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(answer.status).toBe(200);
  expect(await json("token", "--scope", "webhooks:read")).toMatchObject({ scope: "webhooks:read" });
  const denied = await signet(["token", "--scope", "credentials:write"]);
  expect(denied.code).not.toBe(0);
  expect(denied.stderr).toContain("INVALID_SCOPE");
});

describe("exit codes", () => {
  test.each([
    [2, ["endpoint", "create"]],
    [2, ["event", "publish", "a.b", "--data", "{"]],
    [2, ["event", "publish", "a.b", "--data", "[]"]],
    [2, ["delivery", "list", "--state", "LOST"]],
    [2, ["endpoint", "list", "--limit", "many"]],
    [2, ["endpoint", "update", "ep_1"]],
    [1, ["event", "publish", "not a type", "--data", "{}"]],
    [1, ["event", "publish", "a.b", "--data", "@/nonexistent"]],
    [3, ["delivery", "show", "dlv_000000000000000000000000"]],
    [3, ["endpoint", "show", "../events"]],
  ])("%d for %j, with the error only on standard error", async (code, line) => {
    const run = await signet(line);
    expect(run).toMatchObject({ code, stdout: "" });
    expect(run.stderr).not.toBe("");
    expect(run.stderr).not.toMatch(/^ +at /m);
  });

  test("4 for a wrong credential and for a missing scope", async () => {
    expect(await signet(["endpoint", "list"], { SIGNET_CLIENT_SECRET: "wrong" })).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^signet: INVALID_CLIENT: /) as string,
    });
    const reader = await provision(api, { scopes: ["webhooks:read"] });
    const as = { SIGNET_CLIENT_ID: reader.clientId, SIGNET_CLIENT_SECRET: reader.clientSecret };
    const run = await signet(["trigger", "a.b"], as);
    expect(run).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^signet: SCOPE_VIOLATION: /) as string,
    });
  });

  test("6 when the service does not answer", async () => {
    const run = await signet(["endpoint", "list"], {
      SIGNET_API_URL: `http://127.0.0.1:${await freePort()}`,
    });
    expect(run).toMatchObject({ code: 6, stdout: "" });
  });
});

test("bash completes every command, its options and values", async () => {
  const script = (await signet(["completion", "bash"])).stdout;
  const { directory } = terminal.current;
  const file = join(directory, "completion.bash");
  await writeFile(file, script);
  expect(await readFile(file, "utf8")).toContain("'signet endpoint secret rotate'");
  const complete = async (...typed: readonly string[]): Promise<string[]> => {
    const { runProcess } = await import("#test/support/processes.ts");
    const quoted = typed.map((word) => `'${word}'`).join(" ");
    const line = `. ${file}; COMP_WORDS=(${quoted}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _signet; echo "\${COMPREPLY[@]}"`;
    const output = await runProcess({ command: ["bash", "-c", line], cwd: directory, environment: {} });
    return output.trim().split(" ");
  };
  expect(await complete("signet", "endpoint", "s")).toEqual(["show", "secret"]);
  expect(await complete("signet", "listen", "--f")).toEqual(["--forward-to"]);
  expect(await complete("signet", "delivery", "list", "--state", "D")).toEqual([
    "DELIVERED",
    "DEAD_LETTERED",
  ]);
});

test("signet portal creates a link that signs in once, and opens it in the browser", async () => {
  const { directory, client } = terminal.current;
  const printed = await signet(["portal", "--scopes", "webhooks:read"]);
  expect(printed.stdout).toMatch(/^http:\S+\/portal\/sign-in\?link=ten_\S+\n$/);
  expect(await openLink(api, printed.stdout.trim())).toMatchObject({ status: 303 });
  expect(await openLink(api, printed.stdout.trim())).toMatchObject({ status: 401 });

  const opened = join(directory, "opened");
  for (const program of ["open", "xdg-open"]) {
    await writeFile(join(directory, program), `#!/bin/sh\necho "$1" > "${opened}"\n`, { mode: 0o700 });
  }
  const PATH = `${directory}:${process.env["PATH"] ?? ""}`;
  const open = await signet(["portal", "--open", "--tenant", client.tenantId], { PATH });
  expect(open).toMatchObject({ code: 0, stdout: "", stderr: expect.stringContaining("Opened") as string });
  const url = await eventually(
    async () => (await readFile(opened, "utf8").catch(() => "")).trim() || undefined,
    "the browser",
  );
  expect(await openLink(api, url)).toMatchObject({ status: 303 });

  const other = await signet(["portal", "--tenant", "ten_000000000000000000000000"]);
  expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining("No saved credential") as string });
});
