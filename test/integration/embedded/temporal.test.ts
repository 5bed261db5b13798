import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { Client, Connection } from "@temporalio/client";
import { temporal } from "@temporalio/proto";
import { describe, expect, inject, it as base } from "vitest";
import { isListening } from "#processes/embedded/ports.ts";
import { isRunning, processIdentity } from "#processes/embedded/process-identity.ts";
import { type EmbeddedTemporal, startEmbeddedTemporal } from "#processes/embedded/temporal.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { killParent, startParent, stopParent } from "./parent.ts";

allowMinutes(3);

type Printed = Omit<EmbeddedTemporal, "stop">;

interface Place {
  readonly home: string;
  readonly port: number;
  /** What the servers said. */
  readonly lines: readonly string[];
  readonly start: (extra?: Partial<Parameters<typeof startEmbeddedTemporal>[0]>) => Promise<EmbeddedTemporal>;
}

/** Each test has a home and a port of its own, and its servers end with it. */
const it = base.extend<{ place: Place }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest requires a destructured first argument
  place: async ({}, use) => {
    const home = await mkdtemp(join(inject("runDirectory"), "temporal-"));
    const port = await freePort();
    const lines: string[] = [];
    const running: EmbeddedTemporal[] = [];
    const start: Place["start"] = async (extra = {}) => {
      const server = await startEmbeddedTemporal({
        binary: inject("temporalBinary"),
        home,
        port,
        uiPort: null,
        namespaces: ["signet"],
        dbFilename: join(home, "temporal.db"),
        log: (line) => void lines.push(line),
        ...extra,
      });
      running.push(server);
      return server;
    };
    await use({ home, port, lines, start });
    await Promise.all(running.map(async (server) => await server.stop()));
    await rm(home, { recursive: true, force: true });
  },
});

async function withClient<T>(address: string, use: (client: Client) => Promise<T>): Promise<T> {
  const connection = await Connection.connect({ address });
  try {
    return await use(new Client({ connection, namespace: "signet" }));
  } finally {
    await connection.close();
  }
}

async function startWorkflow(address: string): Promise<void> {
  await withClient(address, async (client) => {
    await client.workflow.start("deliver", { workflowId: "dlv_1", taskQueue: "signet-deliveries" });
  });
}

async function workflowStatus(address: string): Promise<string> {
  return await withClient(address, async (client) => {
    const { status } = await client.workflow.getHandle("dlv_1").describe();
    return status.name;
  });
}

it.concurrent("an open workflow is still open after a restart, and the UI answers", async ({
  place: { port, start },
}) => {
  const first = await start();
  await startWorkflow(first.address);
  await first.stop();
  expect(isRunning(first.pid)).toBe(false);
  const uiPort = await freePort();
  const second = await start({ uiPort });
  expect(await workflowStatus(second.address)).toBe("RUNNING");
  expect((await fetch(`http://127.0.0.1:${uiPort}/`)).status).toBe(200);
  expect(await isListening("127.0.0.2", port)).toBe(false);
});

it.concurrent("its database is in the home, whatever characters the path has", async ({
  place: { home, start },
}) => {
  const odd = join(home, "C#", "a?b=c&mode=memory", "100%25");
  await mkdir(odd, { recursive: true });
  const own = { home: odd, dbFilename: join(odd, "temporal.db") };
  const first = await start(own);
  await startWorkflow(first.address);
  await first.stop();
  expect(await workflowStatus((await start(own)).address)).toBe("RUNNING");
  expect(await readdir(odd)).toContain("temporal.db");
  expect(await readdir(home)).toEqual(["C#"]);
});

it.concurrent("a database of another server version is put aside, because the server would not migrate it", async ({
  place: { home, lines, start },
}) => {
  // A server that ended in the middle of a write leaves SQLite's journal.
  const files = async (): Promise<string[]> =>
    (await readdir(home)).filter((name) => /^temporal\.db(?!.*-)/.test(name)).sort();
  const first = await start();
  await startWorkflow(first.address);
  await first.stop();
  // As a version of Signet that wrote no version left it.
  await rm(join(home, "temporal.server"));
  const second = await start();
  await expect(workflowStatus(second.address)).rejects.toThrow(/not found/);
  await second.stop();
  expect(lines).toEqual([
    expect.stringMatching(/^Temporal's server is \d+\.\d+ now, so its old database was/),
  ]);
  expect(await files()).toEqual(["temporal.db", "temporal.db.old"]);
  await writeFile(join(home, "temporal.server"), "1.29");
  await (await start()).stop();
  expect(await files()).toEqual(["temporal.db", "temporal.db.1.29", "temporal.db.old"]);
});

it.concurrent("its files are readable only by their owner, even if an earlier version left them open", async ({
  place: { home, start },
}) => {
  await (await start()).stop();
  await chmod(join(home, "temporal.db"), 0o644);
  await start();
  const names = await readdir(home);
  expect(names).toEqual(expect.arrayContaining(["temporal.db", "temporal.log", "temporal.pid"]));
  for (const name of names) {
    const { mode } = await stat(join(home, name));
    expect({ name, others: mode & 0o077 }).toEqual({ name, others: 0 });
  }
});

describe.concurrent("waiting tasks", () => {
  const TASKS = 8;
  const taskQueue = { name: "signet-control" };
  // Each partition of a queue has an order of its own.
  const dynamicConfig = {
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
  };

  /** Temporal's history passes tasks on concurrently, so a task may overtake one that was started before it. */
  async function backlogOf(client: Client): Promise<number> {
    const { stats } = await client.workflowService.describeTaskQueue({
      namespace: "signet",
      taskQueue,
      taskQueueType: temporal.api.enums.v1.TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
      reportStats: true,
    });
    return Number(stats?.approximateBacklogCount);
  }

  /** Starts workflows of one tenant, then of a second one. @returns how many tasks are handed out until the second's turn */
  async function turnOfSecond(address: string, run: number): Promise<number> {
    return await withClient(address, async (client) => {
      const start = async (workflowId: string, fairnessKey: string): Promise<void> => {
        await client.workflow.start("deliver", {
          workflowId,
          taskQueue: taskQueue.name,
          priority: { fairnessKey },
        });
      };
      for (let task = 1; task <= TASKS; task += 1) {
        await start(`first/${run}/${task}`, "first");
      }
      await eventually(async () => (await backlogOf(client)) >= TASKS, "every task of the first tenant");
      await start(`second/${run}`, "second");
      await eventually(async () => (await backlogOf(client)) > TASKS, "the task of the second tenant");
      for (let turn = 1; ; turn += 1) {
        const { workflowExecution } = await client.withDeadline(
          Date.now() + 30_000,
          async () => await client.workflowService.pollWorkflowTaskQueue({ namespace: "signet", taskQueue }),
        );
        if (workflowExecution?.workflowId === `second/${run}`) {
          return turn;
        }
      }
    });
  }

  it("are handed out by tenant in turn, also after a restart", async ({ place: { start } }) => {
    const first = await start({ dynamicConfig });
    expect(await turnOfSecond(first.address, 1)).toBeLessThan(TASKS / 2);
    await first.stop();
    const second = await start({ dynamicConfig });
    expect(await turnOfSecond(second.address, 2)).toBeLessThan(TASKS);
  });
});

describe.concurrent("after a crash", () => {
  it("the next start stops a server whose parent was killed, and finds its workflows", async ({
    place: { home, lines, port, start },
  }) => {
    const parent = await startParent<Printed>(["temporal", home, String(port), inject("temporalBinary")]);
    await startWorkflow(parent.server.address);
    await killParent(parent);
    expect(isRunning(parent.server.pid)).toBe(true);
    const next = await start();
    expect(isRunning(parent.server.pid)).toBe(false);
    expect(lines).toEqual([expect.stringContaining(`(pid ${parent.server.pid}) left by an earlier run`)]);
    expect(await workflowStatus(next.address)).toBe("RUNNING");
  });

  it("a pid file whose number now belongs to another program harms neither", async ({
    place: { home, lines, start },
  }) => {
    await writeFile(join(home, "temporal.pid"), `${process.ppid}/0/another boot`);
    await start();
    expect(isRunning(process.ppid)).toBe(true);
    expect(lines).toEqual([]);
  });

  it("a parent that shuts down gracefully leaves no server and no pid file", async ({
    place: { home, port },
  }) => {
    const parent = await startParent<Printed>(["temporal", home, String(port), inject("temporalBinary")]);
    expect(processIdentity(parent.server.pid)).toBeDefined();
    expect(await stopParent(parent)).toBe(0);
    expect(isRunning(parent.server.pid)).toBe(false);
    await expect(rm(join(home, "temporal.pid"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe.concurrent("a fatal error says what to do about", () => {
  it.for([
    ["frontend", "SIGNET_EMBEDDED_TEMPORAL_PORT"],
    ["UI", "SIGNET_EMBEDDED_TEMPORAL_UI_PORT"],
  ])("a taken port of the %s", async ([which, setting], { place: { start } }) => {
    const taken = await freePort();
    const occupant = createServer().listen(taken, "127.0.0.1");
    await once(occupant, "listening");
    const ports = which === "UI" ? { uiPort: taken } : { port: taken };
    await expect(start(ports)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(new RegExp(`^port ${taken} .*${setting} to a free port$`)),
    });
    occupant.close();
  });

  it("an invalid program", async ({ place: { home, start } }) => {
    await expect(start({ binary: join(home, "absent") })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("ENOENT"),
    });
  });

  it("a server that ends, with the end of its log", async ({ place: { start } }) => {
    await expect(start({ dbFilename: "/nowhere/at/all" })).rejects.toThrow(/did not start \(exit code 1\);/);
  });
});
