/** Replays a tenant's dead letters over the public API. */
import { accessToken, requestJson } from "../environment/provision.ts";
import type { TenantGroup, World } from "../environment/world.ts";

const PER_SECOND = 1_000;
const PAGE = 100;
const PARALLEL = 16;
const NO_SUCH_ROUTE = [404, 405];

interface Tenant {
  /** `…/v1/webhooks/dlq` */
  readonly queue: string;
  readonly token: string;
}

/** Starts a bulk job for all dead letters. Returns false if the service does not support it. */
async function replayByJob({ queue, token }: Tenant): Promise<boolean> {
  const response = await fetch(`${queue}/replay`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ filter: {}, rate_per_second: PER_SECOND }),
  });
  const text = await response.text();
  if (NO_SUCH_ROUTE.includes(response.status)) {
    return false;
  }
  if (!response.ok) {
    throw new Error(`bulk replay: ${response.status} ${text.slice(0, 500)}`);
  }
  return true;
}

async function deadLetterIds({ queue, token }: Tenant): Promise<string[]> {
  const ids: string[] = [];
  let next: string | null = "";
  while (next !== null) {
    const cursor: string = next === "" ? "" : `&cursor=${encodeURIComponent(next)}`;
    const page = (await requestJson("GET", `${queue}?limit=${PAGE}${cursor}`, token)) as unknown as {
      data: { id: string }[];
      next_cursor: string | null;
    };
    ids.push(...page.data.map(({ id }) => id));
    next = page.next_cursor;
  }
  return ids;
}

async function replayOneByOne(tenant: Tenant): Promise<void> {
  const ids = await deadLetterIds(tenant);
  const replayNext = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      await requestJson("POST", `${tenant.queue}/${id}/replay`, tenant.token);
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, replayNext));
}

/** Replays the queue of the group's first tenant. Returns the method used. */
export async function replayAll({ signet }: World, group: TenantGroup): Promise<"job" | "single requests"> {
  const [first] = group.tenants;
  if (first === undefined) {
    throw new Error("the group has no tenants");
  }
  const tenant = { queue: `${signet.apiUrl}/v1/webhooks/dlq`, token: await accessToken(signet, first) };
  if (await replayByJob(tenant)) {
    return "job";
  }
  await replayOneByOne(tenant);
  return "single requests";
}
