/**
 * llhttp's responses (test/corpora), from a receiver that closes the connection afterwards and from one that does not:
 * each attempt ends with a status or a reason, and none confuses the next delivery.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import { expectDocumented, inParallel, readCorpus } from "../support/corpora.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import {
  createEndpoint,
  createTenant,
  type Json,
  listAll,
  publish,
  rows,
  type Tenant,
} from "../support/tenant.ts";

interface Case {
  readonly name: string;
  /** `response`, or with the lenience that its result needs and the sender does not have. */
  readonly type: string;
  readonly response: string;
  readonly statuses: readonly number[];
  readonly completed: number;
  readonly error: string | null;
}

const CASES = readCorpus<readonly Case[]>("llhttp/responses");
const ENDINGS = ["closes", "stays-open"] as const;
const FINE = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

allowMinutes(5);

const api = useSharedApi({ worker: true });
let receiver: Receiver;
let tenant: Tenant;

beforeAll(async () => {
  /** The first event, by path. */
  const firsts = new Map<string, unknown>();
  receiver = await startReceiver({
    script: ({ path, headers, rawBody }) => {
      const [, ending, index] = path.split("/");
      const event = headers["x-service-event-id"];
      // A ping may come before.
      if (rawBody.includes('"inference.completed"')) {
        firsts.set(path, firsts.get(path) ?? event);
      }
      // Also when a busy machine sends the first attempt twice.
      const isFirst = firsts.get(path) === event && headers["x-service-attempt"] === "1";
      const bytes = isFirst ? (CASES[Number(index)]?.response ?? "") : FINE;
      return { kind: "raw", bytes, close: isFirst && ending === "closes" };
    },
  });
  tenant = await createTenant(api);
  await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, { endpoints: 200 });
});
afterAll(async () => {
  await receiver.close();
});

/** Waits until all deliveries of an event are delivered, and returns their attempts by endpoint. */
async function attempts(event: string): Promise<ReadonlyMap<string, readonly Json[]>> {
  const deliveries = await eventually(async () => {
    const all = await listAll(tenant, `/v1/webhooks/deliveries?event_id=${event}`, 100);
    return all.every(({ state }) => state === "DELIVERED") ? all : undefined;
  }, "all deliveries to be delivered");
  return new Map(
    await inParallel(deliveries, async ({ id, endpoint_id: endpoint }) => {
      const list = rows(await tenant.get(`/v1/webhooks/deliveries/${String(id)}/attempts`));
      return [String(endpoint), list] as const;
    }),
  );
}

/** Decided otherwise by the parser of the sender, undici's, which is older than the corpus. */
const OTHERWISE: Readonly<Record<string, number | null>> = {
  "content-length: Tabs in `Content-Length` (surrounding)": null,
  "invalid: Bare CR followed by CR after response line": 200,
};

/** Returns the status that a case has for the sender: null if the attempt fails without one. */
function statusOf({ type, statuses }: Case): number | null {
  const [final = null] = statuses.filter((status) => status >= 200);
  // The sender has no lenience, except for data after the end.
  return type.startsWith("response-lenient") && !/-(?:data-after-close|keep-alive)$/.test(type)
    ? null
    : final;
}

test("each ends its attempt with its status or a reason, and the next delivery arrives", async () => {
  const targets = CASES.flatMap((_case, index) => ENDINGS.map((ending) => ({ index, ending })));
  const endpoints = await inParallel(targets, async ({ index, ending }) => {
    const { id } = await createEndpoint(api, tenant, { url: `${receiver.url}/${ending}/${index}` });
    return id;
  });
  const first = await attempts(await publish(tenant));
  const outcomes = targets.map(({ index, ending }, at) => {
    const attempt = first.get(endpoints[at] ?? "")?.find((each) => each["attempt"] === 1);
    return { name: CASES[index]?.name, ending, status: attempt?.["status"], error: attempt?.["error"] };
  });
  const expected = targets.map(({ index, ending }) => {
    const each = CASES[index] as Case;
    const status = OTHERWISE[each.name] === undefined ? statusOf(each) : OTHERWISE[each.name];
    const error = status === null ? "aborted" : (status ?? 0) < 300 ? null : "status";
    return { name: each.name, ending, status, error };
  });
  // An attempt that a busy machine has timed out says nothing of the response.
  const timely = (_outcome: unknown, at: number): boolean => outcomes[at]?.error !== "timeout";
  expect(outcomes.filter(timely)).toEqual(expected.filter(timely));
  // Every endpoint's next request goes over a connection that had one of those responses, or a new one.
  const second = await attempts(await publish(tenant));
  expect([...second.values()].map((list) => list.map(({ status }) => status))).toEqual(
    targets.map(() => [200]),
  );
  const accepted = CASES.filter(
    (each) => (OTHERWISE[each.name] === undefined ? statusOf(each) : OTHERWISE[each.name]) !== null,
  ).length;
  const differences = Object.keys(OTHERWISE).length;
  expectDocumented("llhttp's responses", { accepted, refused: CASES.length - accepted, differences });
});
