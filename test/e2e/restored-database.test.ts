/** docs/runbook.md, "After PostgreSQL was restored": its steps lead to the results in its table. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import type { ReceivedRequest } from "../support/receiver-server.ts";
import { startDatabase, stopDatabase } from "../support/database-outage.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { startSignet } from "../support/signet-command.ts";
import { useStarted } from "../support/started.ts";
import { execute } from "../support/test-database.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

allowMinutes(5);

const RUNBOOK = join(import.meta.dirname, "..", "..", "docs", "runbook.md");
const TIMEOUT_MS = 240_000;

/** Retries after a tenth of a second, then after twice that, and so on for an hour. */
const world = useWorld({ retryWindowMs: 3_600_000 });
const receiver = useStarted("the receiver", async () => await startReceiver());

/** Returns the statements of the section, in order. */
async function runbookStatements(): Promise<string[]> {
  const [, section = ""] =
    /^## After PostgreSQL was restored\n([\s\S]*?)(?:^## |(?![\s\S]))/m.exec(
      await readFile(RUNBOOK, "utf8"),
    ) ?? [];
  return [...section.matchAll(/^psql \S+ -c (['"])(.*)\1$/gm)].map(([, , sql = ""]) => sql);
}

async function copyDatabase(name: string): Promise<void> {
  await stopDatabase(world.current);
  await execute(inject("databaseUrl"), `CREATE DATABASE ${name}_backup TEMPLATE ${name}`);
  await startDatabase(world.current);
}

async function putBack(name: string): Promise<void> {
  await execute(inject("databaseUrl"), `DROP DATABASE ${name} WITH (FORCE)`);
  await execute(inject("databaseUrl"), `ALTER DATABASE ${name}_backup RENAME TO ${name}`);
}

const idOf = ({ headers }: ReceivedRequest): string => String(headers["webhook-id"]);

test("after PostgreSQL was restored to an older state than Temporal, the runbook's steps lead to its table's results", async () => {
  const { current: here } = world;
  const name = new URL(here.config.databaseUrl).pathname.slice(1);
  const { url, requests } = receiver.current;
  const tenant = await here.createTenant();
  const failing = new Set(["/kept", "/lost"]);
  receiver.current.answer(({ path }) => ({ kind: "answer", status: failing.has(path) ? 500 : 200 }));
  await here.createEndpoint(tenant, `${url}/kept`, ["kept.one"]);
  await here.createEndpoint(tenant, `${url}/lost`, ["lost.one"]);
  const dead = await here.createEndpoint(tenant, `${url}/dead`, ["dead.one"]);
  const worker = await here.startWorker();
  const publish = async (type: string): Promise<{ event: string; delivery: string }> => {
    const { event, deliveries } = await here.publish(tenant, {}, type);
    return { event: event.id, delivery: deliveries[0]?.id ?? "" };
  };
  const arrivedOf = (event: string): number => requests.filter((request) => idOf(request) === event).length;

  // Before the backup: one retrying delivery, one dead letter.
  const kept = await publish("kept.one");
  await here.untilDelivery(tenant, kept.delivery, ({ state }) => state === "RETRYING", TIMEOUT_MS);
  await here.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [dead.id]);
  const letter = await publish("dead.one");
  await here.untilDelivery(tenant, letter.delivery, ({ state }) => state === "DEAD_LETTERED", TIMEOUT_MS);
  await here.sql.query("UPDATE endpoints SET state = 'ACTIVE' WHERE id = $1", [dead.id]);
  await copyDatabase(name);

  // The lost minutes: it is delivered, the letter is replayed, another event is accepted and retried.
  failing.delete("/kept");
  await here.untilDelivery(tenant, kept.delivery, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
  await here.deliveries.replay(tenant, letter.delivery, TEST_CALLER);
  await here.untilDelivery(tenant, letter.delivery, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
  const lost = await publish("lost.one");
  await here.untilDelivery(tenant, lost.delivery, ({ state }) => state === "RETRYING", TIMEOUT_MS);
  const { workflowId: carrier } = await here.workflowOf(tenant, lost.delivery);
  const keptBefore = arrivedOf(kept.event);

  await worker.close();
  await putBack(name);
  const lostBefore = arrivedOf(lost.event);
  const migrated = await startSignet(["migrate"], here.environment).ended;
  expect(migrated, migrated.stderr).toMatchObject({ code: 0 });
  const [epoch = "", open = ""] = await runbookStatements();
  const { rowCount } = await here.sql.query(epoch);
  expect(rowCount).toBe(1);
  await here.startWorker();

  // A delivery that succeeded is sent once more, and is delivered again.
  await here.untilDelivery(tenant, kept.delivery, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
  expect(arrivedOf(kept.event)).toBe(keptBefore + 1);
  // The workflow of a lost event ends without sending anything.
  const isEnded = async (): Promise<boolean> =>
    (await here.temporal.workflow.getHandle(carrier).describe()).status.name === "COMPLETED";
  await eventually(isEnded, "the workflow of the lost delivery to end", TIMEOUT_MS);
  expect(arrivedOf(lost.event)).toBe(lostBefore);
  // A replayed dead letter is one again, and can be replayed again.
  expect((await here.deliveries.find(tenant, letter.delivery)).state).toBe("DEAD_LETTERED");
  await here.deliveries.replay(tenant, letter.delivery, TEST_CALLER);
  await here.untilDelivery(tenant, letter.delivery, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
  // The event that is published again is a new one.
  failing.delete("/lost");
  const again = await publish("lost.one");
  await here.untilDelivery(tenant, again.delivery, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
  // Nothing is open, as the last statement of the runbook shows.
  const { rows: left } = await here.sql.query<{ state: string }>(open);
  expect(left.map(({ state }) => state)).toEqual(["any"]);
});
