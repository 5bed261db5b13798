import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTracer } from "#observability/open-telemetry.ts";
import type { TracingOptions } from "#observability/tracer.ts";
import { startTracing } from "#observability/tracing.ts";
import { useTestApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";
import { type CollectedSpan, type OtlpCollector, startOtlpCollector } from "#test/support/otlp-collector.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { createEndpoint, createTenant, publish, sql } from "#test/support/tenant.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const CALLER = "b7ad6b7169203331";

let collector: OtlpCollector;
let receiver: Receiver;
let endTraces: () => Promise<void>;

// Before the api starts: its hooks are created only if tracing is on.
beforeAll(async () => {
  collector = await startOtlpCollector();
  receiver = await startReceiver();
  endTraces = await startTracing({
    collector: `${collector.url}/v1/traces`,
    protocol: "http/protobuf",
    sampler: "parentbased_traceidratio",
    share: 1,
    resource: { "service.name": "signet-serve", "k8s.pod.name": "api-0" },
  });
});
const api = useTestApi({ worker: true });
const edge = useTestEdge(api);
afterAll(async () => {
  await endTraces();
  await receiver.close();
  await collector.close();
});

async function untilSpan(wanted: (span: CollectedSpan) => boolean, what: string): Promise<CollectedSpan> {
  return await eventually(() => collector.spans.find(wanted), what);
}

// Together, because each waits for the next batch of spans, which is sent after five seconds.
describe.concurrent("a trace", () => {
  it("leads from the publisher's span over the request to the attempt, without addresses or payloads", async () => {
    const tenant = await createTenant(api);
    const { id: endpointId } = await createEndpoint(api, tenant, { url: receiver.url });
    const published = await tenant.post(
      "/v1/events",
      { type: "inference.completed", data: { needle: "in-the-payload" } },
      { traceparent: `00-${TRACE}-${CALLER}-01` },
    );
    expect(published.status).toBe(202);
    const eventId = String(published.body["id"]);
    const requestId = published.headers.get("x-request-id");

    const attempt = await untilSpan(
      ({ name, traceId }) => name === "attempt" && traceId === TRACE,
      "attempt",
    );
    // One may have been rejected before, while the api had no news of revocations.
    const request = await untilSpan(
      ({ name, traceId, attributes }) =>
        name === "POST /v1/events" && traceId === TRACE && attributes["signet.request_id"] === requestId,
      "request",
    );
    const commit = await untilSpan(
      ({ name, traceId }) => name === "ingest commit" && traceId === TRACE,
      "commit",
    );
    expect(request.parentSpanId).toBe(CALLER);
    expect(commit.parentSpanId).toBe(request.spanId);
    expect(attempt.parentSpanId).toBe(request.spanId);
    const [delivery] = await sql<{ id: string; carrier: string }>(
      api,
      "SELECT id, carrier FROM deliveries WHERE event_id = $1",
      [eventId],
    );
    expect(attempt.attributes).toMatchObject({
      "signet.event_id": eventId,
      "signet.delivery_id": delivery?.id,
      "signet.workflow_id": delivery?.carrier,
      "signet.endpoint_id": endpointId,
      "signet.attempt": 1,
      "http.response.status_code": 200,
    });
    expect(request.attributes).toMatchObject({
      "http.route": "/v1/events",
      "http.response.status_code": 202,
      "signet.request_id": requestId,
    });
    expect(request.service).toBe("signet-serve");
    expect(request.resource).toMatchObject({ "k8s.pod.name": "api-0" });
    expect([...collector.types]).toEqual(["application/x-protobuf"]);
    const { host } = new URL(receiver.url);
    for (const secret of [host, "in-the-payload", tenant.token]) {
      expect(collector.text()).not.toContain(secret);
    }
  });

  it("leads from the edge over the api to the attempt", async () => {
    const trace = "f".repeat(32);
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { url: receiver.url });
    const published = await call("/v1/events", {
      port: edge.port,
      headers: {
        ...bearer(tenant.token),
        "content-type": "application/json",
        traceparent: `00-${trace}-${CALLER}-01`,
        tracestate: "vendor=1",
      },
      json: { type: "inference.completed", data: {} },
    });
    expect(published.status).toBe(202);
    const requestId = published.headers["x-request-id"];
    const request = await untilSpan(
      ({ traceId, attributes }) => traceId === trace && attributes["signet.request_id"] === requestId,
      "the api's span",
    );
    const atEdge = await untilSpan(({ spanId }) => spanId === request.parentSpanId, "the edge's span");
    expect([request.name, atEdge.parentSpanId]).toEqual(["POST /v1/events", CALLER]);
    await untilSpan(
      ({ name, parentSpanId }) => name === "attempt" && parentSpanId === request.spanId,
      "the attempt",
    );
    expect(atEdge.attributes).toMatchObject({ "http.response.status_code": 202 });
  });

  it("leads from the edge to a data plane, with the caller's tracestate only in the caller's trace", async () => {
    const tenant = await createTenant(api, ["inference:read"]);
    const ask = async (traceparent: string) => {
      const answer = await call("/v1/inference/m-1", {
        port: edge.port,
        headers: { ...bearer(tenant.token), traceparent, tracestate: "vendor=1" },
      });
      expect(answer.status).toBe(200);
      return { id: answer.headers["x-request-id"], headers: edge.upstream.requests.at(-1)?.headers };
    };
    const [continued, fresh] = [
      await ask(`00-${"9".repeat(32)}-${CALLER}-01`),
      await ask("not a traceparent"),
    ];
    const spanOf = async (id: unknown) =>
      await untilSpan(({ attributes }) => attributes["signet.request_id"] === id, "the request");
    const [span, own] = [await spanOf(continued.id), await spanOf(fresh.id)];
    expect(span).toMatchObject({ traceId: "9".repeat(32), parentSpanId: CALLER });
    expect(span.attributes).toMatchObject({ "signet.tenant_id": tenant.tenantId });
    expect(continued.headers).toMatchObject({
      traceparent: `00-${span.traceId}-${span.spanId}-01`,
      tracestate: "vendor=1",
    });
    expect(fresh.headers?.["traceparent"]).toBe(`00-${own.traceId}-${own.spanId}-01`);
    expect(fresh.headers).not.toHaveProperty("tracestate");
  });

  it("starts a new trace if the traceparent is invalid", async () => {
    const malformed = [
      `00-${"0".repeat(32)}-${CALLER}-01`,
      `00-${TRACE.toUpperCase()}-${CALLER}-01`,
      `00-${TRACE}-${CALLER}-01-x`,
      `ff-${TRACE}-${CALLER}-01`,
      "x".repeat(4_000),
    ];
    const ask = async (traceparent: string): Promise<readonly [string, string | null]> => {
      const answer = await fetch(`${api.publicUrl}/healthz`, { headers: { traceparent } });
      expect(answer.status).toBe(200);
      return [traceparent, answer.headers.get("x-request-id")];
    };
    for (const [traceparent, id] of await Promise.all(malformed.map(ask))) {
      const span = await untilSpan(({ attributes }) => attributes["signet.request_id"] === id, traceparent);
      expect(span.parentSpanId ?? "").toBe("");
      expect(span.traceId).not.toBe(TRACE);
    }
  });

  it("is not recorded if the caller's traceparent says so", async () => {
    const answer = await fetch(`${api.publicUrl}/readyz`, {
      headers: { traceparent: `00-${"c".repeat(32)}-${CALLER}-00` },
    });
    expect(answer.ok).toBe(true);
    await fetch(`${api.publicUrl}/healthz`, {
      headers: { traceparent: `00-${"d".repeat(32)}-${CALLER}-01` },
    });
    await untilSpan(({ traceId }) => traceId === "d".repeat(32), "the request after it");
    expect(collector.spans.filter(({ traceId }) => traceId === "c".repeat(32))).toEqual([]);
  });

  it("is named in the log lines of its request", async () => {
    const answer = await fetch(`${api.publicUrl}/v1/events`, {
      headers: { traceparent: `00-${"e".repeat(32)}-${CALLER}-01` },
    });
    expect(answer.status).toBe(401);
    const id = answer.headers.get("x-request-id");
    const span = await untilSpan(({ attributes }) => attributes["signet.request_id"] === id, "the request");
    const lines = api.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.filter(({ request_id: of }) => of === id)).toMatchObject([
      { msg: "request refused", trace_id: "e".repeat(32), span_id: span.spanId },
    ]);
  });

  it("is named in the log line of an attempt whose consequence fails", async () => {
    const gone = await startReceiver({ script: [{ kind: "answer", status: 410 }] });
    const tenant = await createTenant(api);
    const endpoint = await createEndpoint(api, tenant, { url: gone.url });
    // The answer 410 disables the endpoint, which the database refuses here.
    const check = `CHECK (id <> '${endpoint.id}' OR state <> 'DISABLED')`;
    await sql(api, `ALTER TABLE endpoints ADD CONSTRAINT stays_enabled ${check}`);
    const event = await publish(tenant);
    const line = await eventually(() => {
      const found = api.log.find(
        (text) => text.includes("could not be disabled") && text.includes(endpoint.id),
      );
      return found === undefined ? undefined : (JSON.parse(found) as Record<string, unknown>);
    }, "the line of the attempt");
    await sql(api, "ALTER TABLE endpoints DROP CONSTRAINT stays_enabled");
    await gone.close();
    const span = await untilSpan(({ spanId }) => spanId === line["span_id"], "the attempt's span");
    expect(span).toMatchObject({ name: "attempt", traceId: line["trace_id"] });
    expect(span.attributes).toMatchObject({ "signet.event_id": event });
  });
});

describe("a sampler", () => {
  const start = async (options: Pick<TracingOptions, "sampler" | "share" | "protocol">) => {
    const own = await startOtlpCollector();
    const tracer = createTracer({ collector: own.url, resource: { "service.name": "s" }, ...options });
    const parents = ["00", "01"].map((flags) => `00-${TRACE}-${CALLER}-${flags}`);
    for (const parent of [undefined, ...parents]) {
      tracer.start({ name: String(parent), kind: "internal", attributes: {}, parents: [parent] }).end();
    }
    await tracer.close();
    await own.close();
    return { kept: own.spans.map(({ name }) => name.slice(-2)), types: [...own.types] };
  };

  it.each([
    ["always_on", 0, ["ed", "00", "01"]],
    ["always_off", 1, []],
    ["traceidratio", 0, []],
    ["traceidratio", 1, ["ed", "00", "01"]],
    ["parentbased_always_on", 0, ["ed", "01"]],
    ["parentbased_always_off", 1, ["01"]],
    ["parentbased_traceidratio", 0, ["01"]],
    ["parentbased_traceidratio", 1, ["ed", "01"]],
  ] as const)("%s with %s keeps what OpenTelemetry says", async (sampler, share, kept) => {
    expect((await start({ sampler, share, protocol: "http/protobuf" })).kept).toEqual(kept);
  });

  it.each([
    ["http/json", "application/json"],
    ["http/protobuf", "application/x-protobuf"],
  ] as const)("%s is sent as %s", async (protocol, type) => {
    expect(await start({ sampler: "always_on", share: 1, protocol })).toEqual({
      kept: ["ed", "00", "01"],
      types: [type],
    });
  });
});
