/** The command line against a real operators' API. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { useTestApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";

const api = useTestApi();

async function signet(
  line: readonly string[],
  environment: Environment = api.environment,
): Promise<CommandRun> {
  return await runSignet(line, environment);
}

async function json(...line: readonly string[]): Promise<Record<string, string>> {
  const run = await signet([...line, "--json"]);
  expect(run).toMatchObject({ code: 0, stderr: "" });
  return JSON.parse(run.stdout) as Record<string, string>;
}

let tenant: Record<string, string>;
let role: Record<string, string>;
let principal: Record<string, string>;
let credential: Record<string, string>;

beforeAll(async () => {
  tenant = await json("tenant", "create", "acme", "--region", "eu");
  role = await json(
    "role",
    "create",
    "sender",
    "--tenant",
    tenant["id"] ?? "",
    "--scopes",
    "webhooks:write a:b",
  );
  const service = [
    "principal",
    "create",
    "service",
    "--tenant",
    tenant["id"] ?? "",
    "--role",
    role["id"] ?? "",
  ];
  principal = await json(...service, "--region", "eu", "--environment", "production");
  credential = await json("credential", "create", "--principal", principal["id"] ?? "");
});

test("four commands yield a token", async () => {
  const answer = await api.token({
    grant_type: "client_credentials",
    client_id: credential["client_id"],
    client_secret: credential["client_secret"],
  });
  expect(answer).toMatchObject({ status: 200, body: { scope: "a:b webhooks:write" } });
});

test("--json prints the API's object", async () => {
  for (const [noun, shown] of Object.entries({ tenant, role, principal })) {
    expect(await json(noun, "show", shown["id"] ?? "")).toEqual(
      (await api.admin("GET", `/${noun}s/${shown["id"]}`)).body,
    );
  }
  const credentials = async () =>
    (await api.admin("GET", `/principals/${principal["id"]}/credentials`)).body as {
      readonly data: readonly { readonly last_used_at: string | null }[];
    };
  // The token above is noted a moment after its answer.
  await eventually(
    async () => (await credentials()).data.some((one) => one.last_used_at !== null),
    "the use of the credential",
  );
  expect(await json("credential", "list", "--principal", principal["id"] ?? "")).toEqual(await credentials());
});

test("without --json, an object is a line per member and a list is a table", async () => {
  const shown = await signet(["role", "show", role["id"] ?? ""]);
  expect(shown.stdout).toContain(`id          ${role["id"]}\n`);
  expect(shown.stdout).toContain("scopes      a:b webhooks:write\n");
  const list = await signet(["tenant", "list"]);
  const [head, first] = list.stdout.split("\n");
  expect(head).toMatch(/^ID +NAME +REGION +STATE +CREATED_AT$/);
  expect(first).toMatch(/^ten_\w+ +acme +eu +ACTIVE +\d{4}-/);
});

test("a list with more pages says how to get the next one", async () => {
  await json("tenant", "create", "second", "--region", "eu");
  const page = await signet(["tenant", "list", "--limit", "1"]);
  const cursor = /--cursor (\S+)/.exec(page.stderr)?.[1] ?? "";
  const next = await signet(["tenant", "list", "--limit", "1", "--cursor", cursor]);
  expect(next.code).toBe(0);
  expect(next.stdout).not.toBe(page.stdout);
});

test("a role can be changed and its scopes copied to a principal again", async () => {
  await json("role", "update", role["id"] ?? "", "--scopes", "c:d");
  expect((await json("principal", "show", principal["id"] ?? ""))["scopes"]).toEqual([
    "a:b",
    "webhooks:write",
  ]);
  expect((await json("principal", "reprovision", principal["id"] ?? ""))["scopes"]).toEqual(["c:d"]);
});

test("an operator is created, given a working token, and revoked", async () => {
  const operator = await json("operator", "create", "ann", "--role", "provision");
  const id = operator["id"] ?? "";
  const token = await json("operator", "token", "create", id, "--days", "7");
  const as = { ...api.environment, SIGNET_OPERATOR_TOKEN: token["token"] ?? "" };
  expect((await signet(["tenant", "list"], as)).code).toBe(0);
  const forbidden = await signet(["operator", "create", "eve", "--role", "security"], as);
  expect(forbidden.code).toBe(4);
  expect(forbidden.stderr).toContain(
    "SCOPE_VIOLATION: POST /admin/v1/operators requires an operator of role security.",
  );

  expect(await json("operator", "show", id)).toMatchObject({ name: "ann", role: "provision" });
  expect(await json("operator", "update", id, "--role", "read")).toMatchObject({ role: "read" });
  const list = await signet(["operator", "token", "list", id]);
  expect(list.stdout).toMatch(/^ID +PREFIX +EXPIRES_AT +LAST_USED_AT +REVOKED_AT\notk_\w+ +sgn_op_\w{5} /);
  expect(await signet(["operator", "token", "revoke", id, token["id"] ?? ""])).toMatchObject({ code: 0 });
  expect((await signet(["tenant", "list"], as)).stderr).toContain("TOKEN_REVOKED");
  expect(await json("operator", "revoke", id, "--reason", "left")).toMatchObject({ state: "REVOKED" });
  expect((await signet(["operator", "list"])).stdout).toMatch(/opr_\w+ +ann +read +REVOKED/);

  const trail = await signet(["audit", "list", "--type", "operator.revoked"]);
  expect(trail.stdout).toMatch(
    /^INDEX +AT +TYPE +ACTOR +TENANT_ID +TARGET\n\d+ .+ operator:bootstrap +- +opr_/,
  );
});

test("a tenant is suspended and resumed", async () => {
  const { id = "" } = await json("tenant", "create", "late payer", "--region", "eu");
  expect(await json("tenant", "suspend", id, "--reason", "unpaid")).toMatchObject({ state: "SUSPENDED" });
  expect(await json("tenant", "resume", id)).toMatchObject({ state: "ACTIVE" });
  const trail = JSON.parse((await signet(["audit", "list", "--tenant", id, "--json"])).stdout) as {
    data: { type: string; reason: string | null }[];
  };
  const changes = trail.data.filter(({ type }) => type !== "revocation.propagated");
  expect(changes.map(({ type, reason }) => [type, reason])).toEqual([
    ["tenant.resumed", null],
    ["tenant.suspended", "unpaid"],
    ["tenant.revoked", "unpaid"],
    ["tenant.created", null],
  ]);
});

test("erasing a tenant requires its name", async () => {
  const { id = "" } = await json("tenant", "create", "former customer", "--region", "eu");
  const wrong = await signet(["tenant", "erase", id, "--confirm", "another"]);
  expect(wrong).toMatchObject({ code: 1 });
  expect(wrong.stderr).toContain("VALIDATION_FAILED");
  expect(await json("tenant", "erase", id, "--confirm", "former customer")).toMatchObject({
    state: "ERASED",
  });
  expect(await json("tenant", "show", id)).toMatchObject({ state: "ERASED", name: "erased" });
});

describe("exit codes", () => {
  test.each([
    [3, ["tenant", "show", "ten_000000000000000000000000"], "NOT_FOUND"],
    [3, ["tenant", "show", "../roles"], "NOT_FOUND"],
    [1, ["tenant", "create", "x", "--region", "nowhere!"], "VALIDATION_FAILED"],
  ])("%d with code, detail and request id when the API refuses: %j", async (exitCode, line, code) => {
    const run = await signet(line);
    expect(run).toMatchObject({ code: exitCode, stdout: "" });
    expect(run.stderr).toMatch(new RegExp(`^signet: ${code}: .+ \\(request req_\\w{24}\\)\n$`, "s"));
  });

  test.each([
    [[]],
    [["nonsense"]],
    [["tenant"]],
    [["tenant", "create"]],
    [["tenant", "create", "x"]],
    [["tenant", "list", "--colour"]],
    [["tenant", "limits", "t", "--set", "endpoints=many"]],
    [["operator", "update", "opr_x"]],
    [["dev-ca", "issue", "a/b"]],
    [["token", "revoke", "--resaon", "x"]],
    [["audit", "verify", "--vkey", "x", "--db", "a", "--export", "b"]],
    [
      [
        "principal",
        "create",
        "x",
        "--tenant",
        "t",
        "--role",
        "r",
        "--region",
        "eu",
        "--environment",
        "staging",
      ],
    ],
  ])("2 for an invalid command line: %j", async (line) => {
    const run = await signet(line);
    expect(run.code).toBe(2);
    expect(run.stderr).not.toBe("");
  });

  test.each([[["--help"]], [["tenant", "--help"]], [["tenant", "create", "--help"]]])(
    "0 for help, without valid settings: %j",
    async (line) => {
      const run = await signet(line, { SIGNET_ADMIN_LISTEN: "broken" });
      expect(run).toMatchObject({ code: 0, stderr: "" });
      expect(run.stdout).toContain("Usage: signet");
    },
  );

  test("6 with advice when the API does not answer", async () => {
    const address = `127.0.0.1:${await freePort()}`;
    const run = await signet(["tenant", "list"], { ...api.environment, SIGNET_ADMIN_LISTEN: address });
    expect(run.code).toBe(6);
    expect(run.stderr).toContain(`The operators' API at http://${address} does not answer`);
  });

  test("1 for an invalid setting", async () => {
    const run = await signet(["tenant", "list"], { SIGNET_ADMIN_LISTEN: "broken" });
    expect(run.code).toBe(1);
    expect(run.stderr).toContain("SIGNET_ADMIN_LISTEN must be host:port");
  });
});

test("the operator token is read from its file if the variable is not set", async () => {
  const home = await mkdtemp(join(tmpdir(), "signet-cli-"));
  const environment = { ...api.environment, SIGNET_OPERATOR_TOKEN: "", SIGNET_HOME: home };
  try {
    const without = await signet(["tenant", "list"], environment);
    expect(without.code).toBe(4);
    expect(without.stderr).toContain("set SIGNET_OPERATOR_TOKEN");
    await writeFile(join(home, "operator-token"), `${api.operatorToken}\n`);
    expect((await signet(["tenant", "list"], environment)).code).toBe(0);
  } finally {
    await rm(home, { recursive: true });
  }
});

test("a token's parts can be revoked with a reason, and doing so again gives the same answer", async () => {
  const made = await json("credential", "create", "--principal", principal["id"] ?? "");
  const id = made["id"] ?? "";
  const line = ["credential", "revoke", id] as const;
  const revoked = await json(...line, "--reason", "laptop lost");
  expect(revoked).toMatchObject({ revocation_id: expect.stringMatching(/^rev_/) as string });
  expect(await json(...line)).toEqual(revoked);
  expect(await json("credential", "show", id)).toMatchObject({ state: "REVOKED" });
  expect(await json("certificate", "revoke", "ab".repeat(32))).toMatchObject({
    sequence: expect.any(Number) as number,
  });
  expect(await json("token", "revoke", "A".repeat(22))).toMatchObject({
    sequence: expect.any(Number) as number,
  });
  for (const jti of [`-h${"A".repeat(20)}`, `--${"A".repeat(20)}`]) {
    expect(await json("token", "revoke", jti, "--reason", "begins as an option does")).toMatchObject({
      sequence: expect.any(Number) as number,
    });
  }
  expect(await signet(["keys", "revoke", `-${"A".repeat(42)}`, "--reason", "x"])).toMatchObject({ code: 3 });
  expect(await signet(["token", "revoke", "short"])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("VALIDATION_FAILED") as string,
  });
});
