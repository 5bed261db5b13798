/** What tenants, operators and faults do at random in the property test of the dead-letter queue, and what that means. */
import { expect } from "vitest";
import { setTenantHold } from "#database/repositories/tenants.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { VIEWS } from "#temporal/views.ts";
import { cancelUpdate, type MemberAnswer, replayUpdate, statusQuery } from "#workflows/messages.ts";
import { pauseWorkflow } from "./paused-workflow.ts";
import type { Behaviour, Receiver } from "./receiver-server.ts";
import { TEST_CALLER, type World } from "./world.ts";

/** The queue as operators see it. */
export const VIEW = VIEWS.deadLetters.query;

/** What a run did, and what that allows. */
export interface Model {
  readonly world: World;
  readonly receiver: Pick<Receiver, "answer">;
  /** Kills the worker process and starts another one. */
  readonly killWorker: () => Promise<void>;
  readonly tenants: readonly string[];
  readonly endpoints: readonly { readonly id: string; readonly tenant: string }[];
  deliveries: { readonly id: string; readonly tenant: string; readonly endpoint: string }[];
  /** Deliveries that a restored database does not have. */
  readonly lost: Set<string>;
  /** Rows to restore, by table. */
  backup: Readonly<Record<string, readonly object[]>> | undefined;
  /** What an operator has to take back, because it holds deliveries until then. */
  readonly takeBack: (() => Promise<unknown>)[];
  /** How often a delivery was meant by a replay, and was answered to be replayed. */
  readonly replays: Map<string, { meant: number; done: number }>;
  readonly cancels: Map<string, { meant: number; done: number }>;
  readonly story: string[];
}

function mean(counts: Model["replays"], ids: readonly string[], changed: readonly string[] = []): void {
  for (const id of ids) {
    const count = counts.get(id) ?? { meant: 0, done: 0 };
    counts.set(id, { meant: count.meant + 1, done: count.done + Number(changed.includes(id)) });
  }
}

export type Random = () => number;

export function pick<T>(random: Random, items: readonly T[]): T | undefined {
  return items[Math.floor(random() * items.length)];
}

async function openCarriers(model: Model, query: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { workflowId } of model.world.temporal.workflow.list({ query })) {
    ids.push(workflowId);
  }
  const mine = new Set((await rowsOf(model)).map(({ workflow_id: carrier }) => carrier));
  return ids.filter((id) => mine.has(id)).toSorted();
}

export async function rowsOf({ world, deliveries }: Model): Promise<Delivery[]> {
  return await Promise.all(deliveries.map(async ({ id, tenant }) => await world.deliveries.find(tenant, id)));
}

/** Publishes to all endpoints of a tenant. */
export async function publish(model: Model, tenant: string): Promise<void> {
  const { deliveries } = await model.world.publish(tenant);
  model.deliveries.push(
    ...deliveries.map(({ id, endpoint_id: endpointId }) => ({ id, tenant, endpoint: endpointId })),
  );
}

/** Members of a workflow at this moment. */
async function carriedBy(model: Model, carrier: string): Promise<string[]> {
  const { members } = await model.world.temporal.workflow.getHandle(carrier).query(statusQuery);
  const ids = members.map(({ delivery_id: id }) => id);
  // An id that names a delivery means that one.
  expect(carrier.startsWith("dlv_") ? [carrier] : ids).toEqual(expect.arrayContaining(ids));
  return ids;
}

/** Things that go wrong, or are requested, with what they mean for the model. */
export const OPERATIONS: Readonly<Record<string, (model: Model, random: Random) => Promise<string>>> = {
  publish: async (model, random) => {
    const tenant = pick(random, model.tenants) ?? "";
    await publish(model, tenant);
    return tenant;
  },
  disable: async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.endpoints) ?? {};
    await model.world.endpoints.disable(tenant, id, TEST_CALLER).catch(refused);
    await publish(model, tenant);
    return id;
  },
  enable: async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.endpoints) ?? {};
    await model.world.sql.query(
      "UPDATE endpoints SET state = 'ACTIVE', disabled_reason = NULL WHERE id = $1 AND state = 'DISABLED'",
      [id],
    );
    return `${tenant} ${id}`;
  },
  hold: async (model, random) => {
    const tenant = pick(random, model.tenants) ?? "";
    await setTenantHold(model.world.sql, tenant, random() < 0.5 ? new Date() : null);
    return tenant;
  },
  terminate: async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      await model.world.temporal.workflow.getHandle(carrier).terminate("by hand");
    }),
  delete: async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      await deleteWorkflow(model, carrier);
    }),
  reset: async (model, random) =>
    await withCarrier(model, random, async (workflowId) => {
      const { temporal } = model.world;
      await temporal.workflowService.resetWorkflowExecution({
        namespace: temporal.options.namespace,
        workflowExecution: { workflowId },
        reason: "by hand",
        requestId: `reset ${random()}`,
        // The first workflow task.
        workflowTaskFinishEventId: 4 as never,
      });
    }),
  "request cancellation": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      mean(model.cancels, await carriedBy(model, carrier));
      await model.world.temporal.workflow.getHandle(carrier).cancel();
    }),
  "signal a carrier": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      mean(model.replays, await carriedBy(model, carrier));
      await model.world.temporal.workflow.getHandle(carrier).signal("replay", { by: "ada" });
    }),
  "signal an endpoint": async (model, random) => {
    const { id = "" } = pick(random, model.endpoints) ?? {};
    mean(
      model.replays,
      model.deliveries.filter(({ endpoint }) => endpoint === id).map((delivery) => delivery.id),
    );
    for (const carrier of await openCarriers(model, `${VIEW} AND SignetEndpoint="${id}"`)) {
      await model.world.temporal.workflow.getHandle(carrier).signal("replay").catch(refused);
    }
    return id;
  },
  "signal nonsense": async (model, random) =>
    await withCarrier(model, random, async (carrier) => {
      const handle = model.world.temporal.workflow.getHandle(carrier);
      await handle.signal("cancel", { delivery_id: model.deliveries[0]?.id });
      await handle.signal("cancel", { delivery_ids: [] });
      await handle.signal("replayAll");
    }),
  "update one": async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.deliveries) ?? {};
    const { workflow_id: carrier } = await model.world.deliveries.find(tenant, id);
    const [update, counts] = random() < 0.3 ? [cancelUpdate, model.cancels] : [replayUpdate, model.replays];
    const answer = await model.world.temporal.workflow
      .getHandle(carrier ?? "none")
      .executeUpdate(update, { args: [{ delivery_ids: [id], by: "ada" }] })
      .catch((error: unknown): MemberAnswer => {
        refused(error);
        return { changed: [], refused: [] };
      });
    mean(counts, [id], answer.changed);
    return `${update.name} ${id}: ${JSON.stringify(answer)}`;
  },
  "replay by API": async (model, random) => {
    const { id = "", tenant = "" } = pick(random, model.deliveries) ?? {};
    mean(model.replays, [id]);
    await model.world.deliveries.replay(tenant, id, TEST_CALLER).catch(refused);
    return id;
  },
  "kill the worker": async (model) => {
    await model.killWorker();
    return "";
  },
  "change the receiver": async (model, random) => {
    const scripts: Readonly<Record<string, readonly Behaviour[]>> = {
      fails: [{ kind: "answer", status: 500 }],
      "fails at times": [{ kind: "answer", status: 500 }, { kind: "answer" }, { kind: "reset" }].flatMap(
        (behaviour) => Array.from({ length: 10 }, () => behaviour as Behaviour),
      ),
      "is slow": [{ kind: "answer", status: 503, delayMs: 2_500 }],
    };
    const name = pick(random, Object.keys(scripts)) ?? "";
    model.receiver.answer(scripts[name] ?? []);
    return name;
  },
  "command an activity": async (model, random) =>
    await withCarrier(model, random, async (workflowId) => {
      const { workflowService, options } = model.world.temporal;
      const { raw } = await model.world.temporal.workflow.getHandle(workflowId).describe();
      const id = raw.pendingActivities?.[0]?.activityId;
      if (typeof id !== "string") {
        return "no activity is pending";
      }
      const { namespace } = options;
      const one = { namespace, execution: { workflowId }, id, identity: "ada" };
      const named = { namespace, workflowId, activityId: id, identity: "ada" };
      const commands: Readonly<Record<string, () => Promise<unknown>>> = {
        pause: async () => {
          await workflowService.pauseActivity(one);
          model.takeBack.push(async () => await workflowService.unpauseActivity(one).catch(refused));
        },
        reset: async () => await workflowService.resetActivity(one),
        complete: async () => await workflowService.respondActivityTaskCompletedById(named),
        fail: async () => await workflowService.respondActivityTaskFailedById(named),
      };
      const name = pick(random, Object.keys(commands)) ?? "";
      await commands[name]?.();
      return `${name} ${id}`;
    }),
  "pause a workflow": async (model, random) =>
    await withCarrier(model, random, async (workflowId) => {
      const unpause = await pauseWorkflow(model.world.temporal, workflowId);
      model.takeBack.push(async () => await unpause().catch(refused));
    }),
  "lose Temporal's data": async (model) => {
    for (const carrier of new Set((await rowsOf(model)).map((row) => row.workflow_id))) {
      await deleteWorkflow(model, carrier ?? "none").catch(refused);
    }
    return "";
  },
  "back up or restore": async (model) => {
    if (model.backup === undefined) {
      model.backup = await backUp(model);
      return "back up";
    }
    await restore(model, model.backup);
    model.backup = undefined;
    return "restore";
  },
};

async function deleteWorkflow({ world: { temporal } }: Model, workflowId: string): Promise<void> {
  const { namespace } = temporal.options;
  await temporal.workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId } });
}

/** In the order in which they can be deleted. */
const TABLES = ["attempts", "deliveries"];

/** Returns the rows of the tenants' deliveries. */
async function backUp({ world, tenants }: Model): Promise<NonNullable<Model["backup"]>> {
  const tables = TABLES.map(async (table) => {
    const { rows } = await world.sql.query<{ whole: object }>(
      `SELECT to_jsonb(t) AS whole FROM ${table} t WHERE tenant_id = ANY ($1)`,
      [tenants],
    );
    return [table, rows.map(({ whole }) => whole)] as const;
  });
  return Object.fromEntries(await Promise.all(tables));
}

/** Puts the tenants' deliveries back to the backup, whatever Temporal has done since. */
async function restore(model: Model, backup: NonNullable<Model["backup"]>): Promise<void> {
  const db = await model.world.sql.connect();
  try {
    await db.query("BEGIN; SET LOCAL session_replication_role = replica");
    for (const table of TABLES) {
      await db.query(`DELETE FROM ${table} WHERE tenant_id = ANY ($1)`, [model.tenants]);
      await db.query(`INSERT INTO ${table} SELECT * FROM jsonb_populate_recordset(NULL::${table}, $1)`, [
        JSON.stringify(backup[table]),
      ]);
    }
    await db.query("COMMIT");
  } finally {
    db.release();
  }
  const kept = new Set(backup["deliveries"]?.map((row) => (row as { readonly id: string }).id));
  model.deliveries.filter(({ id }) => !kept.has(id)).forEach(({ id }) => model.lost.add(id));
  model.deliveries = model.deliveries.filter(({ id }) => kept.has(id));
  for (const counts of [model.replays, model.cancels]) {
    counts.forEach(({ meant }, id) => counts.set(id, { meant, done: 0 }));
  }
}

/** Operations may be refused: the workflow has ended, the endpoint is disabled already. */
function refused(error: unknown): undefined {
  const { name, code } = error as { readonly name: string; readonly code?: unknown };
  // gRPC: INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION.
  expect([3, 5, 9].includes(Number(code)) ? "Refused" : name).toMatch(
    /NotFound|ServiceError|Refused|Conflict|Failed|Invalid|SignetError|Disabled|QueryRejected/,
  );
}

async function withCarrier(
  model: Model,
  random: Random,
  work: (carrier: string) => Promise<string | undefined | void>,
): Promise<string> {
  const carrier = pick(random, await openCarriers(model, "CloseTime IS NULL"));
  if (carrier === undefined) {
    return "nothing is open";
  }
  return `${carrier} ${(await work(carrier).catch(refused)) ?? ""}`;
}
