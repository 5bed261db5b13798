/**
 * The commands that operators paste from docs/runbook.md and docs/operations.md, except for `temporal`
 * (test/integration/temporal). Each runs unchanged, beside an api, a worker and an edge with the runbook's problems.
 */
import { execFile } from "node:child_process";
import { mkdtemp, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { type Answer, askOperators } from "../support/answer.ts";
import { newRoot } from "../support/certificates.ts";
import { inlineCommands, shellLines } from "../support/documents.ts";
import { grant, provision } from "../support/factories.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageEnvironment, productionImage } from "../support/processes.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { startScrapedProcesses } from "../support/scraped-processes.ts";
import { skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";
import { triggerSchedule } from "../support/temporal-cli.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(5);

const run = promisify(execFile);
const RUNBOOK = "docs/runbook.md";
const OPERATIONS = "docs/operations.md";
const PROCESSES = ["api", "worker", "edge"] as const;
/** Programs that may be missing or restricted on this machine: what shows it, and what they need. */
const MACHINE: Readonly<Record<string, readonly [probe: string, needs: string]>> = {
  psql: ["--version", ".ci/programs installs it"],
  timedatectl: ["status", "it needs systemd as the first process"],
  chronyc: ["tracking", "it needs a running chronyd, which sets the machine's clock"],
};
/** Commands for a container engine, which test/unit/deploy/commands.test.ts checks against the file. */
const ELSEWHERE = /^(temporal |docker (compose (ps|up|stop|logs (SERVICE|temporal|hub-a))|stats))/;

/**
 * Commands that run until stopped, are incomplete, or need a tenant's session, a delivery or a leaked token. Their own
 * tests run those: test/integration/revocation/leaks.test.ts and test/integration/admin/support.test.ts.
 */
const NOT_RUN =
  /^signet (?:(?:all|api|worker|edge|hub|…|revoke|credential own revoke|operator token revoke)$|why |endpoint secret |revoke (?:JTI|KID|SHA256|--token-stdin)|revoke cl_…$)/;

/** A variable that the reader sets. The tests have it in their environment. */
const OWN_VALUE = /^\w+=…$/;

const TIMEOUT_MS = 200_000;

/** Failing deliveries keep retrying throughout the tests. */
const world = useWorld({ retryWindowMs: 3_600_000, listMax: 1 });
const processes = useStarted(
  "the processes",
  async () =>
    await startScrapedProcesses(world.current, { SIGNET_LOG_LEVEL: "debug", SIGNET_TOKEN_FAILURES: "2" }),
);
let directory: string;
let environment: Record<string, string>;
let credential: string;

/** Returns whether this machine has no working program for a command. */
async function lacksProgram(text: string): Promise<boolean> {
  const [program = ""] = text.split(" ");
  const known = MACHINE[program];
  if (known === undefined) {
    return false;
  }
  const [probe, needs] = known;
  const works = await run(program, [probe]).then(
    () => true,
    () => false,
  );
  return skipUnless(works, `\`${text}\` of the runbook`, `${program} does not work here: ${needs}`);
}

/** Runs lines in a shell with `signet` on its path and the settings of a process. */
async function paste(lines: string): Promise<string> {
  const script = `signet() { node "$IMAGE/dist/src/processes/main.js" "$@"; }\n${lines}`;
  const shell = run("bash", ["-euo", "pipefail", "-c", script], {
    cwd: directory,
    env: environment,
    timeout: 120_000,
  });
  const { stdout } = await shell.catch((error: Error & { readonly stdout?: string }) => {
    throw new Error(`${error.message}\n${error.stdout}`);
  });
  return stdout;
}

/** Calls the operators' API. */
const operators = {
  admin: async (method: string, path: string, body?: unknown): Promise<Answer> =>
    await askOperators(
      { adminUrl: processes.current.adminUrl, token: environment["SIGNET_OPERATOR_TOKEN"] ?? "" },
      method,
      path,
      body,
    ),
};

/** Makes the api respond 500 because a table is gone, and 429 because of guessed credentials. */
async function failRequests(client: string): Promise<void> {
  const ask = async (): Promise<number> => {
    const { status } = await fetch(`${processes.current.apiUrl}/v1/auth/token`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        grant_type: "client_credentials",
        client_id: client,
        client_secret: "sgn_test_sk_x",
      }),
    });
    return status;
  };
  await eventually(async () => (await ask()) === 429, "the api to limit a guessing client");
  const { sql } = world.current;
  await sql.query("ALTER TABLE operators RENAME TO operators_away");
  const { status } = await operators.admin("GET", "/operators");
  await sql.query("ALTER TABLE operators_away RENAME TO operators");
  expect(status).toBe(500);
}

/** Creates a dead letter and a delivery whose workflows were terminated, and one with an undecryptable secret. */
async function failDeliveries(): Promise<void> {
  const { current: here } = world;
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  const tenant = await here.createTenant();
  const [dead, broken] = await Promise.all(
    ["dead.one", "broken.one", "lost.one"].map(
      async (type) => await here.createEndpoint(tenant, receiver.url, [type]),
    ),
  );
  await here.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [dead?.id]);
  await here.sql.query("UPDATE endpoint_secrets SET secret = 'broken' WHERE endpoint_id = $1", [broken?.id]);
  const [first, second, third] = await Promise.all(
    ["dead.one", "broken.one", "lost.one"].map(async (type) => await here.publish(tenant, {}, type)),
  );
  const [unread, id] = [second?.deliveries[0]?.id ?? "", third?.deliveries[0]?.id ?? ""];
  await here.untilDelivery(tenant, id, ({ state }) => state === "RETRYING", TIMEOUT_MS);
  const carrier = await here.workflowOf(tenant, id);
  await carrier.terminate("by hand");
  await here.sql.query("UPDATE deliveries SET next_attempt_at = now() - interval '1 hour' WHERE id = $1", [
    id,
  ]);
  await (await here.workflowOf(tenant, first?.deliveries[0]?.id ?? "")).terminate("by hand");
  await eventually(
    async () => {
      const output = processes.current.output("worker");
      return ["a carrier is gone", "dead letters have no workflow", unread].every((text) =>
        output.includes(text),
      );
    },
    "the worker to report the missing carriers and the undecryptable secret",
    TIMEOUT_MS,
  );
  // It would wait for its secret, which `signet doctor` reports as a problem.
  await here.deliveries.cancel(tenant, unread);
  await receiver.close();
}

/** Makes the api refuse most events of a tenant. The log names it within a minute. */
async function refuseEvents(): Promise<void> {
  const { apiUrl } = processes.current;
  const client = await provision(operators, { scopes: ["events:publish"] });
  await operators.admin("PATCH", `/tenants/${client.tenantId}/limits`, { published_events_per_second: 1 });
  const post = async (path: string, body: unknown, token = ""): Promise<Response> =>
    await fetch(`${apiUrl}${path}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
  const answer = await post("/v1/auth/token", grant(client));
  const { access_token: token } = (await answer.json()) as { readonly access_token: string };
  // Enough for either side, if a minute ends meanwhile.
  const statuses = await Promise.all(
    Array.from(
      { length: 60 },
      async () => (await post("/v1/events", { type: "a.b", data: {} }, token)).status,
    ),
  );
  expect(statuses).toContain(429);
}

/** Makes a step of retention fail, because its table is gone. */
async function failRetention(): Promise<void> {
  const { sql } = world.current;
  await sql.query("ALTER TABLE pinged_hosts RENAME TO pinged_hosts_away");
  await triggerSchedule(world.current, "purgeExpired");
  await eventually(
    () => processes.current.output("worker").includes("a step of retention failed"),
    "a step of retention to fail",
    TIMEOUT_MS,
  );
  await sql.query("ALTER TABLE pinged_hosts_away RENAME TO pinged_hosts");
}

beforeAll(async () => {
  directory = await mkdtemp(join(inject("runDirectory"), "runbook-"));
  const { adminUrl } = processes.current;
  const checkpointSeed = Buffer.from(String(world.current.environment["SIGNET_CHECKPOINT_KEY"]), "base64");
  environment = {
    ...(world.current.environment as Record<string, string>),
    SIGNET_ADMIN_LISTEN: new URL(adminUrl).host,
    PATH: [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter),
    HOME: directory,
    ...imageEnvironment(),
    IMAGE: productionImage(),
    VKEY: new CheckpointKey("signet/compliance", checkpointSeed).verifierKey,
  };
  await writeFile(join(directory, "FILE"), (await newRoot()).cert);
  const own = await provision(operators);
  credential = own.credentialId;
  await refuseEvents();
  await failRequests(own.clientId);
  await failDeliveries();
  await failRetention();
  await eventually(
    () => processes.current.output("api").includes("events of a tenant are refused"),
    "the api to name the tenant whose events are refused",
    TIMEOUT_MS,
  );
  // Verification needs the first checkpoint. Its schedule runs once a minute.
  await triggerSchedule(world.current, "signCheckpoint");
  await eventually(
    async () => (await operators.admin("GET", "/audit/checkpoint")).status === 200,
    "the first checkpoint",
    TIMEOUT_MS,
  );
});

/** Replaces placeholders such as `API` in a line. Logs are read from the test's files. */
async function fill(text: string): Promise<string> {
  const { metricsAddress, output } = processes.current;
  for (const name of PROCESSES) {
    const lines = output(name).replaceAll(/^(?=.)/gm, `${name}-1  | `);
    await writeFile(join(directory, `${name}.log`), lines);
  }
  // One process there; here its parts are apart.
  await writeFile(join(directory, "signet.log"), output("worker") + output("api"));
  const leaked = await provision(operators);
  return text
    .replace("cl_…", leaked.clientId)
    .replace(/^signet revoke --secret-stdin/, `printf %s "${leaked.clientSecret}" | $&`)
    .replace("WORKER:9464", metricsAddress("worker"))
    .replace("API:9464", metricsAddress("api"))
    .replace("INSTANCE:9464", metricsAddress("edge"))
    .replace("HUB:9464", metricsAddress("hub"))
    .replace("crd_…", credential)
    .replace(/^docker compose logs (\w+) --(?:since|tail) \w+/, "cat $1.log");
}

describe("a command of the runbook works", async () => {
  const lines = new Set((await shellLines(RUNBOOK)).map(({ text }) => text));

  const isRun = (line: string): boolean => ![ELSEWHERE, NOT_RUN, OWN_VALUE].some((rule) => rule.test(line));

  for (const text of [...lines].filter(isRun)) {
    test.skipIf(await lacksProgram(text)).each([text])("%s", async () => {
      const printed = await paste(await fill(text));
      expect(printed.trim()).not.toBe("");
      // An empty list would prove nothing about the query.
      expect(printed).not.toContain("(0 rows)");
    });
  }
});

/** Creates an object of that kind and returns its id. */
async function newId(noun: string): Promise<string> {
  if (noun === "operator") {
    const { body } = await operators.admin("POST", "/operators", { name: "Ada", role: "read" });
    return String(body["id"]);
  }
  const { tenantId, credentialId } = await provision(operators);
  return noun === "credential" ? credentialId : tenantId;
}

async function currentKey(): Promise<string> {
  const { body } = await operators.admin("GET", "/signing-keys");
  const keys = body["data"] as readonly { readonly kid: string; readonly state: string }[];
  return keys.find(({ state }) => state === "CURRENT")?.kid ?? "";
}

/** Replaces `ID`, `NAME` and similar placeholders in a command with new objects. */
async function filled(text: string): Promise<string> {
  if (text === "signet credential create") {
    return `${text} --principal ${(await provision(operators)).principalId}`;
  }
  // Complete commands that omit their id.
  const whole = /^signet tenant \w+$/.test(text) ? `${text} ID` : text;
  const [, noun = ""] = whole.split(" ");
  const { environment: settings } = world.current;
  const leaked = await provision(operators);
  return whole
    .replace("cl_…", leaked.clientId)
    .replace(/^signet revoke --secret-stdin/, `printf %s "${leaked.clientSecret}" | $&`)
    .replace(/\bID\b/, whole.includes("ID") ? await newId(noun) : "")
    .replace("--confirm NAME", "--confirm tenant")
    .replace("NAME", "Grace")
    .replace("read|provision|security", "security")
    .replace("<kid>", whole.includes("<kid>") ? await currentKey() : "")
    .replace("--reason …", "--reason drill")
    .replace("--db …", `--db "${settings["SIGNET_DATABASE_URL"]}"`)
    .replace("DIRECTORY", String(settings["SIGNET_CHECKPOINT_DIR"]));
}

describe("a command in a sentence works", async () => {
  const commands = await Promise.all(
    [RUNBOOK, OPERATIONS].map(async (path) => await inlineCommands(path, "signet")),
  );
  const texts = new Set(commands.flat().map(({ text }) => text.replace("crd_…", "ID")));

  test.each([...texts].filter((text) => !NOT_RUN.test(text)))("%s", async (text) => {
    const printed = await paste(await filled(text));
    // A command that changes nothing may print nothing.
    expect(text === "signet migrate" || printed.trim() !== "").toBe(true);
  });
});
