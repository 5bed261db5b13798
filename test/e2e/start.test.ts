/** `npm start` from the outside: its output, the processes it leaves, and its errors. */
import { spawn } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { delimiter, dirname, join } from "node:path";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  inject,
  onTestFinished,
  test,
} from "vitest";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { closeAtOnce, listenOn } from "#runtime/http-server.ts";
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
import { withoutPause } from "../support/pauses.ts";

allowMinutes(4);

const READY = /^signet ready$/m;
/** Ctrl-C ends everything within this time. */
const END_MS = 10_000;

let directory: Home;
let home: string;
let settings: Settings;
const started: NpmStart[] = [];

function start(extra: Settings = {}, ...options: readonly string[]): NpmStart {
  const service = npmStart({ ...settings, ...extra }, ...options);
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

  /** Measures how the running service ends. Starts it again before each further measurement. */
  async function measureEnd(check: () => Promise<void>): Promise<void> {
    let ended = false;
    await withoutPause(async () => {
      if (ended) {
        service = start();
        await service.untilPrinted(READY);
      }
      ended = true;
      await check();
    });
  }

  test("shows the main job step by step and is then ready", async () => {
    service = start({}, "--verbose");
    await service.untilPrinted(READY);
    const steps = [
      /^✓ PostgreSQL {5}127\.0\.0\.1:\d+, data in \S+$/m,
      /^✓ Temporal {7}127\.0\.0\.1:\d+, UI http:\/\/127\.0\.0\.1:\d+, CLI \S+\/temporal$/m,
      /^✓ API, portal {4}http:\/\/127\.0\.0\.1:\d+$/m,
      /^✓ 1 token {8}15 minutes, 9 scopes, for a new demo tenant$/m,
      /^✓ 2 endpoint {5}answered a signed ping, so it is ACTIVE$/m,
      /^✓ 3 delivery {5}signed, sent, verified and answered 200 in \d+ ms$/m,
      /^✓ 4 failures {5}answered 500 to all 17 attempts; a signal replaced the waits of 72 hours$/m,
      /^✓ 5 dead letter {2}kept until \d{4}-\d\d-\d\d$/m,
      /^✓ 6 replay {7}DELIVERED in cycle 2$/m,
      /^✓ 7 edge {9}200 within the token's scopes, 403 SCOPE_VIOLATION outside$/m,
      READY,
    ];
    // PostgreSQL, Temporal and the API start concurrently; all other steps have a fixed order.
    const places = steps.map((step) => service.stdout().search(step));
    expect(places).not.toContain(-1);
    expect(places.slice(3)).toEqual(places.slice(3).toSorted((left, right) => left - right));
    expect(service.errorLines()).toEqual([]);
    demoTenant = /^ {2}tenant (ten_\w+),/m.exec(service.stdout())?.[1] ?? "";
  });

  test("ends with what to open and run next, and the portal links to Temporal's UI", async () => {
    const { SIGNET_API_LISTEN: api, SIGNET_EMBEDDED_TEMPORAL_UI_PORT: ui } = settings;
    const views = `http://127.0.0.1:${ui}/namespaces/signet/workflows?query=`;
    const [, end = ""] = service.stdout().split(/^signet ready\n/m);
    expect(end.trimEnd().split("\n")).toEqual([
      expect.stringMatching(new RegExp(`^Portal        http://${api}/portal\\S+$`)),
      `API           http://${api}/docs`,
      `Temporal UI   http://127.0.0.1:${ui}`,
      `Dead letters  ${views}SignetDead%20%3E%200%20AND%20CloseTime%20IS%20NULL`,
      "Receive       npx signet listen",
      "Publish       npx signet trigger inference.completed",
    ]);
    const [, listed = ""] = service.stdout().split(/^ {2}In Temporal:\n/m);
    const names = ["Retrying", "Dead letters", "Expiring today", "Stuck", "Verifications", "Replay jobs"];
    expect(listed.split("\n").slice(0, names.length)).toEqual(
      names.map((name): unknown => expect.stringContaining(`    ${name.padEnd(14)}  ${views}`)),
    );
  });

  test("prints lines that work when pasted", async () => {
    const lines = service
      .stdout()
      .slice(service.stdout().indexOf("Try it with curl, in another terminal:"))
      .split("\n")
      .filter((line) => line.startsWith("  "));
    const script = lines.map((line) => `${line.trim()}; echo`).join("\n");
    const answers = await eventually(async () => {
      const output = await bash(script, { cwd: home, settings });
      const read = output
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      return read.every(({ code }) => code !== "REVOCATION_STALE") && read;
    }, "answers of processes that hear revocations");
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

  test("exits on Ctrl-C with code 0 within 10 s and leaves no process behind", async () => {
    await measureEnd(async () => {
      const pid = await serverPid(home);
      await makeDisabledEndpoints(3);
      const { code, tookMs } = await service.interrupt();
      expect(service.stdout()).toMatch(/^Ending: /m);
      expect(code).toBe(0);
      expect(tookMs).toBeLessThan(END_MS);
      expect(isRunning(pid)).toBe(false);
      expect(await serversOf(home)).toEqual([]);
    });
  });

  test("keeps its data, and shows the main job beside other endpoints of its tenant, also with a proxy", async () => {
    // Calls to this machine do not reach it.
    service = start({ NODE_USE_ENV_PROXY: "1", http_proxy: "http://127.0.0.1:1" });
    await service.untilPrinted(READY);
    expect(service.stdout()).toMatch(/^✓ 1 token .* for the demo tenant of an earlier start$/m);
    expect(service.stdout()).not.toMatch(/curl|^ {2}/m);
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
    expect(service.stdout()).not.toMatch(/token|demo tenant|Try it|^Portal/m);
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

  test("leaves no server behind when one does not end in time", async () => {
    await measureEnd(async () => {
      const temporal = (await serversOf(home)).find((line) => line.includes("start-dev"));
      process.kill(Number.parseInt(temporal ?? "", 10), "SIGSTOP");
      const { tookMs } = await service.interrupt();
      expect(service.stdout()).toMatch(/^Some deliveries did not end in time/m);
      expect(tookMs).toBeLessThan(END_MS);
      expect(await serversOf(home)).toEqual([]);
    });
  });

  test("exits on Ctrl-C within 10 s with 100 deliveries in flight, which arrive after the next start", async () => {
    const receiver = await withoutPause(async () => {
      const slow = await startSlowReceiver();
      onTestFinished(async () => await slow.close());
      service = start();
      await service.untilPrinted(READY);
      const { id } = await callAsDemo(settings, "/v1/webhooks/endpoints", {
        url: slow.url,
        events: ["load.made"],
      });
      await eventually(
        async () =>
          (await callAsDemo(settings, `/v1/webhooks/endpoints/${String(id)}`))["state"] === "ACTIVE",
        "the endpoint to be ACTIVE",
      );
      const events = Array.from({ length: 100 }, (_, run) => ({ type: "load.made", data: { run } }));
      await callAsDemo(settings, "/v1/events", { events });
      await eventually(() => slow.open() > 0, "requests in flight");
      const { code, tookMs } = await service.interrupt();
      expect(code).toBe(0);
      expect(tookMs).toBeLessThan(END_MS);
      expect(await serversOf(home)).toEqual([]);
      return slow;
    });
    receiver.answerAll();
    service = start({ SIGNET_DEMO: "off" });
    await eventually(() => receiver.delivered() === 100, "all deliveries", 120_000);
    await service.interrupt();
  });

  test.for([
    ["opens its servers", /^Signet /m],
    ["starts its processes", /^✓ (PostgreSQL|Temporal) /m],
    ["shows the main job", /^✓ 1 token /m],
  ] as const)("exits on Ctrl-C even while it %s", async ([, phase]) => {
    await withoutPause(async () => {
      service = start();
      await service.untilPrinted(phase);
      const { code, tookMs } = await service.interrupt();
      expect(code).toBe(0);
      expect(tookMs).toBeLessThan(END_MS);
      expect(service.stdout()).not.toMatch(READY);
      expect(await serversOf(home)).toEqual([]);
    });
  });
});

/** A receiver that acknowledges pings and holds all other requests until `answerAll`. */
async function startSlowReceiver() {
  const held = new Set<ServerResponse>();
  const delivered = new Set<string>();
  let holds = true;
  const server = createServer((request, response) => {
    request.resume();
    const isPing = request.headers["x-service-event-type"] === "ping";
    if (holds && !isPing) {
      held.add(response);
      response.once("close", () => held.delete(response));
      return;
    }
    if (!isPing) {
      delivered.add(String(request.headers["x-service-delivery-id"]));
    }
    response.writeHead(200).end();
  });
  const { port } = await listenOn(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}/hook`,
    open: () => held.size,
    delivered: () => delivered.size,
    answerAll: () => {
      holds = false;
    },
    close: async () => await closeAtOnce(server),
  };
}

describe("while the Temporal CLI is being built", () => {
  let place: Home;
  let own: Settings;

  /** Lets `go install` wait for a file, then "build" this machine's program. */
  async function makeGo(): Promise<string> {
    const bin = join(place.home, "bin");
    await mkdir(join(bin, "temporalcli", "devserver"), { recursive: true });
    await writeFile(join(bin, "temporalcli", "devserver", "server.go"), "");
    await writeFile(join(bin, "temporalcli", "commands.worker.go"), "");
    const waits = `while [ ! -e ${join(place.home, "built")} ]; do sleep 0.1; done`;
    const script = `#!/bin/sh\n[ "$1" = mod ] && echo '{"Dir":"${bin}"}' && exit\n${waits}\ncp ${inject("temporalBinary")} "$GOBIN/temporal"\n`;
    await writeFile(join(bin, "go"), script, { mode: 0o755 });
    return bin;
  }

  beforeEach(async () => {
    place = await makeHome();
    own = {
      ...(await ownSettings(place.home)),
      SIGNET_CACHE: join(place.home, "cache"),
      PATH: [await makeGo(), dirname(process.execPath), "/usr/bin", "/bin"].join(delimiter),
      // No download, whatever this machine's network.
      HTTPS_PROXY: "http://127.0.0.1:1",
      https_proxy: "http://127.0.0.1:1",
    };
  });
  afterEach(async () => {
    await killServersOf(place.home);
    await place.remove();
  });

  test("the API and the portal answer, and events wait in the outbox", async () => {
    const service = npmStart(own);
    started.push(service);
    await service.untilPrinted(/^ {2}Portal {2}http:\S+$/m);
    expect(service.stdout()).toMatch(/Events wait in the outbox until Temporal is ready/);
    expect(service.stdout()).toMatch(/^… Temporal .*building the Temporal CLI/m);
    const link = /^ {2}Portal {2}(\S+)$/m.exec(service.stdout())?.[1] ?? "";
    expect((await fetch(link)).status).toBe(200);
    const published = await callAsDemo(own, "/v1/events", { type: "early.bird", data: { run: 1 } });
    expect(published).toMatchObject({ type: "early.bird" });
    const ready = await fetch(`http://${own["SIGNET_METRICS_LISTEN"]}/readyz`);
    expect(ready.status).toBe(503);
    await writeFile(join(place.home, "built"), "");
    await service.untilPrinted(READY);
    expect((await fetch(`http://${own["SIGNET_METRICS_LISTEN"]}/readyz`)).status).toBe(200);
    expect((await service.interrupt()).code).toBe(0);
  });

  test("Ctrl-C ends everything within 10 s", async () => {
    await withoutPause(async () => {
      const service = npmStart(own);
      started.push(service);
      await service.untilPrinted(/^… Temporal .*building the Temporal CLI/m);
      const { code, tookMs } = await service.interrupt();
      expect(code).toBe(0);
      expect(tookMs).toBeLessThan(END_MS);
      expect(await serversOf(place.home)).toEqual([]);
    });
  });
});
