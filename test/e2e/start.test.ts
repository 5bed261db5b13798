/** `npm start` from the outside: its output, the processes it leaves, and its errors. */
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isRunning } from "../../src/processes/embedded/process-identity.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import {
  bash,
  callAsDemo,
  type Home,
  killServersOf,
  makeHome,
  type NpmStart,
  npmStart,
  ownSettings,
  serverPid,
  serversOf,
  type Settings,
} from "../support/npm-start.ts";

allowMinutes(4);

const READY = /^signet ready$/m;

let directory: Home;
let home: string;
let settings: Settings;
const started: NpmStart[] = [];

function start(extra: Settings = {}): NpmStart {
  const service = npmStart({ ...settings, ...extra });
  started.push(service);
  return service;
}

beforeAll(async () => {
  directory = await makeHome();
  ({ home } = directory);
  settings = await ownSettings(home);
});

afterAll(async () => {
  for (const service of started) {
    service.kill();
  }
  await killServersOf(home);
  await directory.remove();
});

/** Expects one line with the error, exit code 1, and no running process. */
async function expectRefusal(service: NpmStart, line: RegExp): Promise<void> {
  expect((await service.untilEnded()).code).toBe(1);
  expect(service.errorLines()).toEqual([expect.stringMatching(line)]);
  expect(service.stdout()).not.toMatch(/signet ready|^\{|^ +at /m);
}

/** Creates disabled endpoints of the demo's tenant, which turn its events into further dead letters at once. */
async function makeDisabledEndpoints(count: number): Promise<void> {
  for (let number = 1; number <= count; number += 1) {
    const url = `http://127.0.0.1:9000/${number}`;
    const { id } = await callAsDemo(settings, "/v1/webhooks/endpoints", { url, events: ["*"] });
    const disabled = await callAsDemo(settings, `/v1/webhooks/endpoints/${String(id)}/disable`, {});
    expect(disabled).toMatchObject({ state: "DISABLED" });
  }
}

describe("npm start", () => {
  let service: NpmStart;
  let demoTenant: string;

  test("shows the main job step by step and is then ready", async () => {
    service = start();
    await service.untilPrinted(READY);
    const steps = [
      /^ {3}PostgreSQL {2}127\.0\.0\.1:\d+, data in \S+$/m,
      /^ {3}Temporal {4}127\.0\.0\.1:\d+, UI http:\/\/127\.0\.0\.1:\d+, CLI \S+\/temporal$/m,
      /^ {3}demo tenant ten_[0-9a-z]{24} provisioned$/m,
      /^1 {2}token {6}client cl_\w{24} → JWT of \d+ bytes, 900 s$/m,
      /^2 {2}endpoint {3}ep_[0-9a-z]{24} → http:\/\/127\.0\.0\.1:\d+\/hook is PENDING: a signed ping is on its way$/m,
      /^ {14}it answered 200, so it is ACTIVE$/m,
      /^3 {2}delivery {3}dlv_[0-9a-z]{24}: published, signed, sent and answered 200 in \d+ ms$/m,
      /^ {14}the receiver verified the signature$/m,
      /^4 {2}failures {3}dlv_[0-9a-z]{24}: the receiver answers 500 now; attempt 1 failed$/m,
      /^ {14}signal attemptNow brought attempts 2 to 17 forward$/m,
      /^5 {2}dead letter dlv_[0-9a-z]{24}: reason attempts_exhausted, kept until \S+Z$/m,
      /^6 {2}replay {5}dlv_[0-9a-z]{24}: DELIVERED in cycle 2, carried by bat_[0-9a-z]{24}$/m,
      READY,
    ];
    // PostgreSQL and Temporal start concurrently; all other steps have a fixed order.
    const places = steps.map((step) => service.stdout().search(step));
    expect(places).not.toContain(-1);
    expect(places.slice(2)).toEqual(places.slice(2).toSorted((left, right) => left - right));
    expect(service.errorLines()).toEqual([]);
    demoTenant = /demo tenant (ten_\w+)/.exec(service.stdout())?.[1] ?? "";
  });

  test("prints lines that work when pasted", async () => {
    const lines = service
      .stdout()
      .slice(service.stdout().indexOf("Try it with curl, in another terminal:"))
      .split("\n")
      .filter((line) => line.startsWith("  "));
    const output = await bash(lines.map((line) => `${line.trim()}; echo`).join("\n"), {
      cwd: home,
      settings,
    });
    const answers = output
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(answers).toEqual([
      expect.objectContaining({ type: "inference.completed", deliveries: 1 }),
      {
        data: [expect.objectContaining({ event_type: "inference.completed" })],
        next_cursor: expect.any(String),
      },
      {
        data: [expect.objectContaining({ san_uri: "spiffe://signet.development/demo" })],
        next_cursor: null,
      },
      expect.objectContaining({
        service: "sample data plane",
        scope: expect.stringContaining("inference:read"),
      }),
      expect.objectContaining({ code: "SCOPE_VIOLATION", missing_permission: "pipeline:write" }),
    ]);
  });

  // These leave the first service alone, so they run together.
  test.concurrent("reports in one line that the home is in use, and does not disturb its owner", async () => {
    const other = await ownSettings(home);
    const pid = await serverPid(home);
    await expectRefusal(
      start(other),
      new RegExp(`^signet: ${home} is in use by another signet \\(pid ${pid}\\): .*SIGNET_HOME`),
    );
    expect(isRunning(pid)).toBe(true);
  });

  test.concurrent("reports in one line that the API's port is taken, and leaves nothing running", async () => {
    const second = await makeHome();
    try {
      const other = await ownSettings(second.home);
      const { SIGNET_API_LISTEN: taken = "" } = settings;
      await expectRefusal(
        start({ ...other, SIGNET_API_LISTEN: taken }),
        /^signet: port \d+ on 127\.0\.0\.1 is taken, and the API needs it: .*SIGNET_API_LISTEN/,
      );
      expect(await serversOf(second.home)).toEqual([]);
    } finally {
      await second.remove();
    }
  });

  test.concurrent.each([
    ["SIGNET_EMBEDDED_DATABASE_PORT", "the embedded PostgreSQL"],
    ["SIGNET_EMBEDDED_TEMPORAL_PORT", "the embedded Temporal"],
  ])("stops the processes it has started when %s is taken", async (variable, what) => {
    const second = await makeHome();
    try {
      const other = await ownSettings(second.home);
      await expectRefusal(
        start({ ...other, [variable]: settings[variable] ?? "" }),
        new RegExp(`^signet: port \\d+ on 127\\.0\\.0\\.1 is taken, and ${what} needs it: .*${variable}`),
      );
      expect(await serversOf(second.home)).toEqual([]);
    } finally {
      await killServersOf(second.home);
      await second.remove();
    }
  });

  test.concurrent("lists every invalid setting at once, before anything starts", async () => {
    const wrong = start({ SIGNET_API_LISTEN: "nowhere", SIGNET_SEND_CONCURRENCY: "0" });
    expect((await wrong.untilEnded()).code).toBe(1);
    expect(wrong.errorLines()).toEqual([
      "signet: Invalid settings:",
      "  - SIGNET_API_LISTEN must be host:port",
      expect.stringMatching(/^ {2}- SIGNET_SEND_CONCURRENCY must be a whole number from 1 /),
    ]);
  });

  test("exits on Ctrl-C with code 0 within 20 s and leaves no process behind", async () => {
    const pid = await serverPid(home);
    await makeDisabledEndpoints(3);
    const { code, tookMs } = await service.interrupt();
    expect(service.stdout()).toMatch(/^Ending: /m);
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(20_000);
    expect(isRunning(pid)).toBe(false);
    expect(await serversOf(home)).toEqual([]);
  });

  test("keeps its data, and shows the main job beside other endpoints of its tenant", async () => {
    service = start();
    await service.untilPrinted(READY);
    expect(service.stdout()).toMatch(new RegExp(`^ {3}demo tenant ${demoTenant} of an earlier start$`, "m"));
    const tenants = await bash(`node src/bootstrap.mjs tenant show ${demoTenant} --json`, {
      cwd: `${import.meta.dirname}/../..`,
      settings,
    });
    expect(JSON.parse(tenants)).toMatchObject({ id: demoTenant, state: "ACTIVE" });
  });

  test("starts again after kill -9, without the demo when SIGNET_DEMO is off", async () => {
    const pid = await serverPid(home);
    process.kill(pid, "SIGKILL");
    await service.untilEnded();
    service = start({ SIGNET_DEMO: "off" });
    await service.untilPrinted(READY);
    expect(service.stdout()).not.toMatch(/main job|demo tenant|Try it/);
    expect(service.stdout()).toMatch(
      /^stopping the embedded PostgreSQL \(pid \d+\) left by an earlier run$/m,
    );
    expect(await serverPid(home)).not.toBe(pid);
  });

  test("exits when only npm gets the signal", async () => {
    const pid = await serverPid(home);
    service.terminate();
    expect((await service.untilEnded()).code).toBe(0);
    expect(isRunning(pid)).toBe(false);
    expect(await serversOf(home)).toEqual([]);
  });

  test("takes over a lock whose pid now belongs to another process", async () => {
    const stranger = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    try {
      await writeFile(
        `${home}/lock`,
        JSON.stringify({ pid: stranger.pid, identity: `${stranger.pid}/1/another boot` }),
      );
      service = start({ SIGNET_DEMO: "off" });
      await service.untilPrinted(READY);
      expect(stranger.exitCode).toBeNull();
    } finally {
      stranger.kill("SIGKILL");
    }
  });

  test("leaves no server behind when its work does not finish in time", async () => {
    const temporal = (await serversOf(home)).find((line) => line.includes("start-dev"));
    process.kill(Number.parseInt(temporal ?? "", 10), "SIGSTOP");
    const { code } = await service.interrupt();
    expect(code).not.toBe(0);
    await eventually(async () => (await serversOf(home)).length === 0, "the embedded servers to be gone");
  });

  test.for([
    ["opens its servers", /^Signet$/m],
    ["starts its processes", /^ {3}(PostgreSQL|Temporal) /m],
    ["shows the main job", /^The main job:$/m],
  ] as const)("exits on Ctrl-C even while it %s", async ([, phase]) => {
    service = start();
    await service.untilPrinted(phase);
    const { code, tookMs } = await service.interrupt();
    expect(code).toBe(0);
    expect(tookMs).toBeLessThan(20_000);
    expect(service.stdout()).not.toMatch(READY);
    await eventually(async () => (await serversOf(home)).length === 0, "the embedded servers to be gone");
  });
});
