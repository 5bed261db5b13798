/** Deliveries as server-sent events over real sockets: contents, access and the end of the stream. */
import { afterEach, expect, test } from "vitest";
import { STREAMS_PER_TENANT } from "#webhooks/engine/delivery-streams.ts";
import { useSharedApi } from "#test/support/api.ts";
import { bearer } from "#test/support/factories.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const PATH = "/v1/webhooks/deliveries/stream";

interface Received {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

interface Listening {
  readonly status: number;
  readonly contentType: string | null;
  readonly received: Received[];
  /** The `id` fields, in order. */
  readonly positions: string[];
  /** Resolves when the service has ended the stream. */
  readonly ended: Promise<void>;
  close(): void;
}

const open: Listening[] = [];
afterEach(() => {
  for (const listening of open.splice(0)) {
    listening.close();
  }
});

/** Follows the stream. A process that cannot hear revocations rejects and closes streams: then it connects again. */
async function listen(headers: Record<string, string>): Promise<Listening> {
  const abort = new AbortController();
  const received: Received[] = [];
  const positions: string[] = [];
  const connect = async (): Promise<Response> => {
    const position = positions.at(-1);
    const own = position === undefined ? headers : { ...headers, "last-event-id": position };
    return await eventually(async () => {
      const answer = await fetch(`${api.publicUrl}${PATH}`, { headers: own, signal: abort.signal });
      return answer.status === 503 ? undefined : answer;
    }, "a stream");
  };
  const take = (event: Received): void => {
    if (event.event !== "ready" || received.every(({ event: name }) => name !== "ready")) {
      received.push(event);
    }
  };
  const readOne = async (response: Response): Promise<void> => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const [, event, data] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? [];
        const [, position] = /^id: (\d+)$/m.exec(block) ?? [];
        if (position !== undefined) {
          positions.push(position);
        }
        if (event !== undefined) {
          take({ event, data: JSON.parse(data ?? "") as Received["data"] });
        }
      }
    }
  };
  const response = await connect();
  const read = async (): Promise<void> => {
    await readOne(response);
    while (received.at(-1)?.data["reason"] === "closing" && !abort.signal.aborted) {
      received.pop();
      await readOne(await connect());
    }
  };
  const listening = {
    status: response.status,
    contentType: response.headers.get("content-type"),
    received,
    positions,
    ended: read().catch(() => undefined),
    close: () => abort.abort(),
  };
  open.push(listening);
  return listening;
}

async function listenAs(tenant: Tenant): Promise<Listening> {
  const listening = await listen(bearer(tenant.token));
  await eventually(async () => expect(listening.received).toMatchObject([{ event: "ready" }]), "ready");
  return listening;
}

test("the stream reports a new delivery and each change of it, to its own tenant only", async () => {
  const [one, other] = [await createTenant(api), await createTenant(api)];
  await createEndpoint(api, one);
  const [mine, theirs] = [await listenAs(one), await listenAs(other)];
  expect(mine).toMatchObject({ status: 200, contentType: "text/event-stream" });
  const event = await publish(one);
  await eventually(
    async () => expect(mine.received.at(-1)).toMatchObject({ event: "delivery", data: { event_id: event } }),
    "the new delivery",
  );
  const [delivery] = rows(await one.get("/v1/webhooks/deliveries"));
  expect(mine.received.at(-1)?.data).toEqual(delivery);
  await one.post(`/v1/webhooks/deliveries/${String(delivery?.["id"])}/cancel`);
  await eventually(
    async () =>
      expect(mine.received.at(-1)?.data).toMatchObject({ id: delivery?.["id"], state: "CANCELLED" }),
    "its cancellation",
  );
  expect(theirs.received.map(({ event: name }) => name)).toEqual(["ready"]);
});

test("the stream requires webhooks:read and limits the number of streams per tenant", async () => {
  const narrow = await createTenant(api, ["events:publish"]);
  expectRefusal(await narrow.get(PATH), 403, "SCOPE_VIOLATION");
  const tenant = await createTenant(api);
  const streams = await Promise.all(
    Array.from({ length: STREAMS_PER_TENANT }, async () => await listen(bearer(tenant.token))),
  );
  const refused = await tenant.get(PATH);
  expectRefusal(refused, 429, "RATE_LIMITED");
  expect(refused.headers.get("retry-after")).toBe("10");
  // Other tenants are not affected, and a closed stream frees its slot.
  await listenAs(await createTenant(api));
  streams[0]?.close();
  await eventually(async () => expect((await listen(bearer(tenant.token))).status).toBe(200), "a free slot");
});

test("the stream ends when the credential of its token is revoked", async () => {
  const tenant = await createTenant(api);
  const listening = await listenAs(tenant);
  const revoked = await api.admin("POST", `/credentials/${tenant.credentialId}/revoke`, { reason: "lost" });
  expect(revoked.status).toBeLessThan(300);
  await listening.ended;
  expect(listening.received.at(-1)).toEqual({ event: "end", data: { reason: "revoked" } });
});

test("the stream merges a hundred quick changes into few events, and the last one shows the final state", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  await publish(tenant);
  const listening = await listenAs(tenant);
  for (let attempt = 1; attempt <= 100; attempt += 1) {
    await sql(api, "UPDATE deliveries SET attempt_count = $2 WHERE tenant_id = $1", [
      tenant.tenantId,
      attempt,
    ]);
  }
  await eventually(
    async () => expect(listening.received.at(-1)?.data).toMatchObject({ attempt_count: 100 }),
    "the last change",
  );
  expect(listening.received.length).toBeLessThan(50);
});

test("a client that reconnects with the last id it received gets the changes in between", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  const before = await publish(tenant);
  const first = await listenAs(tenant);
  await eventually(async () => expect(first.positions.length).toBeGreaterThan(0), "a position");
  first.close();
  const meanwhile = await publish(tenant);
  const position = first.positions.at(-1) ?? "";
  const second = await listen({ ...bearer(tenant.token), "last-event-id": position });
  await eventually(
    async () =>
      expect(second.received.at(-1)).toMatchObject({ event: "delivery", data: { event_id: meanwhile } }),
    "the event published in between",
  );
  expect(second.received[0]).toEqual({ event: "ready", data: { complete: true } });
  // With a position an hour later, the older event is not sent again.
  const later = await listen({
    ...bearer(tenant.token),
    "last-event-id": String(Number(position) + 3_600_000),
  });
  await eventually(
    async () => expect(later.received).toEqual([{ event: "ready", data: { complete: true } }]),
    "ready",
  );
  expect(JSON.stringify(later.received)).not.toContain(before);

  const refused = await fetch(`${api.publicUrl}${PATH}`, {
    headers: { ...bearer(tenant.token), "last-event-id": "yesterday" },
  });
  expect(refused.status).toBe(400);
});
