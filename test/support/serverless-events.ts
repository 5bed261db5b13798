/** Requests as serverless platforms pass them to functions, and their answers. */

/** A request, before a platform makes an event of it. */
export interface Sent {
  readonly path: "/hook" | "/events";
  readonly method?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Answered {
  readonly status: number;
  readonly body: string;
}

export const base64 = ({ body }: Sent) => ({ body: body.toString("base64"), isBase64Encoded: true });
export const text = ({ body }: Sent) => ({ body: body.toString(), isBase64Encoded: false });
const identity = { identity: { sourceIp: "192.0.2.1" } };

/** As gateways pass them on: with the names as sent. */
function capitalized(headers: Sent["headers"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.replaceAll(/(?<=^|-)[a-z]/g, (letter) => letter.toUpperCase()),
      value,
    ]),
  );
}

const listOf = (headers: Record<string, string>): Record<string, string[]> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]));

export type EventOf = (sent: Sent) => object;

/** Amazon API Gateway, REST. */
export const restEvent =
  (content: EventOf): EventOf =>
  (sent) => ({
    resource: "/{proxy+}",
    path: sent.path,
    httpMethod: sent.method ?? "POST",
    headers: capitalized(sent.headers),
    multiValueHeaders: listOf(capitalized(sent.headers)),
    queryStringParameters: null,
    multiValueQueryStringParameters: null,
    requestContext: { ...identity, stage: "prod" },
    ...content(sent),
  });

/** Amazon API Gateway, HTTP, and function URLs. */
export const httpEvent =
  (content: EventOf): EventOf =>
  (sent) => ({
    version: "2.0",
    routeKey: "$default",
    rawPath: sent.path,
    rawQueryString: "",
    headers: { ...sent.headers },
    requestContext: {
      domainName: "hooks.example",
      http: { method: sent.method ?? "POST", path: sent.path, protocol: "HTTP/1.1", sourceIp: "192.0.2.1" },
    },
    ...content(sent),
  });

export const balancerEvent =
  (content: EventOf): EventOf =>
  (sent) => ({
    httpMethod: sent.method ?? "POST",
    path: sent.path,
    queryStringParameters: {},
    headers: { ...sent.headers },
    requestContext: { elb: { targetGroupArn: "arn:aws:elasticloadbalancing:eu:1:targetgroup/a/b" } },
    ...content(sent),
  });

/** Azure Functions up to version 3 of its programming model. */
export const azureRequest = ({ path, method = "POST", headers, body }: Sent) => ({
  method,
  url: `https://hooks.example${path}`,
  originalUrl: `https://hooks.example${path}`,
  query: {},
  headers: { ...headers },
  rawBody: body.toString(),
  body: {},
});

export function answerOf(value: unknown): Answered {
  const { statusCode, status, body, isBase64Encoded } = value as Readonly<Record<string, unknown>>;
  const encoded = typeof body === "string" ? body : "";
  return {
    status: Number(statusCode ?? status),
    body: isBase64Encoded === true ? Buffer.from(encoded, "base64").toString() : encoded,
  };
}
