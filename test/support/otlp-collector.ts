/** A trace collector in the test process: OTLP over HTTP, in protobuf or JSON. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import protobuf from "protobufjs";

export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly string[];
  readonly service: unknown;
  /** Attributes of the process. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface OtlpCollector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Returns all received bodies, as JSON. */
  readonly text: () => string;
  /** Content types of the received bodies. */
  readonly types: ReadonlySet<string>;
  close(): Promise<void>;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<CollectedSpan, "attributes" | "links"> & {
        readonly attributes: readonly Attribute[];
        readonly links?: readonly { readonly spanId: string }[];
      })[];
    }[];
  }[];
}

function named(attributes: readonly Attribute[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}

/** The parts of OTLP that the tests read (opentelemetry-proto, trace/v1). */
const MESSAGE = protobuf
  .parse(
    `syntax = "proto3";
    message Value { oneof value { string stringValue = 1; bool boolValue = 2; int64 intValue = 3; double doubleValue = 4; } }
    message KeyValue { string key = 1; Value value = 2; }
    message Resource { repeated KeyValue attributes = 1; }
    message Link { bytes traceId = 1; bytes spanId = 2; }
    message Span { bytes traceId = 1; bytes spanId = 2; bytes parentSpanId = 4; string name = 5;
      repeated KeyValue attributes = 9; repeated Link links = 13; }
    message ScopeSpans { repeated Span spans = 2; }
    message ResourceSpans { Resource resource = 1; repeated ScopeSpans scopeSpans = 2; }
    message Export { repeated ResourceSpans resourceSpans = 1; }`,
  )
  .root.lookupType("Export");

/** Returns a body as OTLP's JSON has it, where ids are hexadecimal. */
function readExport(body: Buffer, type: string): Export {
  if (type === "application/json") {
    return JSON.parse(body.toString()) as Export;
  }
  const message = MESSAGE.toObject(MESSAGE.decode(body), { longs: Number, bytes: String, arrays: true });
  return JSON.parse(JSON.stringify(message), (name, value: unknown) =>
    /^(trace|span|parentSpan)Id$/.test(name) ? Buffer.from(value as string, "base64").toString("hex") : value,
  ) as Export;
}

/** Starts it on a free port. */
export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  const types = new Set<string>();
  let text = "";
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const type = request.headers["content-type"] ?? "";
      types.add(type);
      const { resourceSpans } = readExport(Buffer.concat(chunks), type);
      text += JSON.stringify(resourceSpans);
      for (const { resource, scopeSpans } of resourceSpans) {
        const attributesOfProcess = named(resource.attributes);
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          const { attributes, links = [] } = span;
          spans.push({
            ...span,
            attributes: named(attributes),
            links: links.map(({ spanId }) => spanId),
            service: attributesOfProcess["service.name"],
            resource: attributesOfProcess,
          });
        }
      }
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    text: () => text,
    types,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}
