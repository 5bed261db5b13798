/** Requests of a tenant to the api, whatever their answer. */
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "#test/bench/environment/postgres.ts";
import type { World } from "#test/bench/environment/world.ts";

const REQUEST_TIMEOUT_MS = 30_000;
const REPEAT_MS = 200;
const REPEATS_MAX = 100;
const POLL_MS = 100;

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

export interface Answered {
  /** 0 if the connection broke. */
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** One request to `base` with a token. */
export interface TenantRequest {
  readonly base: string;
  readonly token: string;
  readonly method: Method;
  readonly path: string;
  readonly body?: unknown;
}

/** Sends a request once. */
export async function askOnce({ base, token, method, path, body }: TenantRequest): Promise<Answered> {
  try {
    const response = await fetch(base + path, {
      method,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? {} : (JSON.parse(text) as Answered["body"]) };
  } catch {
    return { status: 0, body: {} };
  }
}

/** Sends a request again after a 503, which changed nothing: on a busy machine the revocation lease expires. */
export async function ask(request: TenantRequest): Promise<Answered> {
  let answer = await askOnce(request);
  for (let repeat = 0; answer.status === 503 && repeat < REPEATS_MAX; repeat += 1) {
    await delay(REPEAT_MS);
    answer = await askOnce(request);
  }
  return answer;
}

/** The same. @throws Error unless the answer is 2xx */
export async function must(request: TenantRequest): Promise<Answered["body"]> {
  const { status, body } = await ask(request);
  if (status < 200 || status > 299) {
    throw new Error(`${request.method} ${request.path}: ${status} ${JSON.stringify(body)}`);
  }
  return body;
}

/** Returns the ids of the tenant's endpoints, at most 100. */
export async function endpointIds(base: string, token: string): Promise<string[]> {
  const path = "/v1/webhooks/endpoints?limit=100";
  const { data } = await must({ base, token, method: "GET", path });
  return (data as readonly { readonly id: string }[]).map(({ id }) => id);
}

/** Disables or enables the endpoints. */
export async function switchEndpoints(
  base: string,
  token: string,
  ids: readonly string[],
  act: "enable" | "disable",
): Promise<void> {
  for (const id of ids) {
    await must({ base, token, method: "POST", path: `/v1/webhooks/endpoints/${id}/${act}` });
  }
}

/** Returns the rows of a statement of the superuser. */
export async function rowsOf<Row>(
  world: World,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query(text, [...values]);
    return rows as Row[];
  });
}

/** Returns the number that a statement counts as `n`. */
export async function countOf(world: World, text: string, values: readonly unknown[] = []): Promise<number> {
  const [row] = await rowsOf<{ n: number }>(world, text, values);
  return row?.n ?? Number.NaN;
}

/** Polls until the answer is true. @throws Error on timeout */
export async function until(
  question: () => Promise<boolean>,
  what: string,
  timeoutMs: number,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await question())) {
    if (performance.now() > deadline) {
      throw new Error(`timed out waiting for ${what}`);
    }
    await delay(POLL_MS);
  }
}
