/** A trace collector in the test process: OTLP over HTTP, as JSON. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface CollectedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly string[];
  readonly service: unknown;
}

export interface OtlpCollector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Returns all received bodies, unchanged. */
  readonly text: () => string;
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

/** Starts it on a free port. */
export async function startOtlpCollector(): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  let text = "";
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      text += body;
      const { resourceSpans } = JSON.parse(body) as Export;
      for (const { resource, scopeSpans } of resourceSpans) {
        const service = named(resource.attributes)["service.name"];
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          const { attributes, links = [] } = span;
          spans.push({
            ...span,
            attributes: named(attributes),
            links: links.map(({ spanId }) => spanId),
            service,
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
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}
