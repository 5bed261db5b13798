import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildEnvelope } from "#webhooks/sending/envelope.ts";

const parts = {
  eventId: "evt_1",
  type: "inference.completed",
  timestamp: "2025-11-20T14:46:40.000Z",
  sentAt: 1_763_650_000,
  attempt: 3,
  endpointId: "ep_1",
  deliveryId: "dlv_1",
};

describe("buildEnvelope", () => {
  it("writes the members of the wire format in their order", () => {
    expect(buildEnvelope({ ...parts, metadataJson: null, dataJson: '{"a":1}' }).toString()).toBe(
      '{"id":"evt_1","type":"inference.completed","timestamp":"2025-11-20T14:46:40.000Z","sent_at":1763650000,' +
        '"attempt":3,"endpoint_id":"ep_1","delivery_id":"dlv_1","metadata":null,"data":{"a":1}}',
    );
  });

  it("includes the publisher's own id, and the service's name in its own events, and neither otherwise", () => {
    const built = (more: object): unknown =>
      JSON.parse(buildEnvelope({ ...parts, ...more, metadataJson: null, dataJson: "{}" }).toString());
    expect(built({ sourceId: 'a"b', own: false })).toMatchObject({ source_id: 'a"b', metadata: null });
    expect(built({ sourceId: 'a"b', own: false })).not.toHaveProperty("source");
    expect(built({ sourceId: null, own: true })).toMatchObject({ source: "service", metadata: null });
    expect(built({ sourceId: null, own: true })).not.toHaveProperty("source_id");
  });

  it("keeps 1.0, 2^60, member order, spaces and repeated names of data and metadata", () => {
    const dataJson = '{ "b": 1.0, "a": 1152921504606846977, "a": 1e2, "é": "\\u00e9" }';
    const text = buildEnvelope({ ...parts, metadataJson: '{"z":-0,"y":[ ]}', dataJson }).toString();
    expect(text).toContain(`"metadata":{"z":-0,"y":[ ]},"data":${dataJson}}`);
  });

  it("returns the same bytes for data as bytes and as text", () => {
    fc.assert(
      fc.property(fc.json(), (dataJson) => {
        const asText = buildEnvelope({ ...parts, metadataJson: null, dataJson });
        const asBytes = buildEnvelope({ ...parts, metadataJson: null, dataJson: Buffer.from(dataJson) });
        expect(asBytes).toEqual(asText);
      }),
    );
  });

  it("returns JSON for any data and metadata", () => {
    fc.assert(
      fc.property(fc.json(), fc.option(fc.json()), (dataJson, metadataJson) => {
        const envelope: unknown = JSON.parse(buildEnvelope({ ...parts, metadataJson, dataJson }).toString());
        expect(envelope).toMatchObject({ sent_at: 1_763_650_000 });
        expect(envelope).toHaveProperty("data", JSON.parse(dataJson));
      }),
    );
  });
});
