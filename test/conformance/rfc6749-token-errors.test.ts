/** RFC 6749 sections 2.3, 3.2, 3.3, 4.4 and 5.2 at the token endpoint, over HTTP. */
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "../support/api.ts";
import { grant, provision, type Provisioned } from "../support/factories.ts";

const api = useSharedApi();
let client: Provisioned;

beforeAll(async () => {
  client = await provision(api, { scopes: ["inference:read", "pipeline:write"] });
});

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const basic = (id: string, secret: string): string =>
  `Basic ${Buffer.from(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`).toString("base64")}`;

interface Request {
  readonly body?: string;
  readonly type?: string;
  readonly authorization?: string;
  readonly query?: string;
  readonly method?: string;
}

async function ask({
  body,
  type = JSON_TYPE,
  authorization,
  query = "",
  method = "POST",
}: Request): Promise<Answer> {
  return await api.request(`/v1/auth/token${query}`, {
    method,
    headers: { "content-type": type, ...(authorization === undefined ? {} : { authorization }) },
    ...(body === undefined ? {} : { body }),
  });
}

const json = (more: Record<string, unknown> = {}): string => JSON.stringify(grant(client, more));
const form = (more: Record<string, string> = {}): string =>
  new URLSearchParams({ ...(grant(client) as Record<string, string>), ...more }).toString();

describe("section 5.1, a successful response", () => {
  test.each([
    ["client_secret_post in JSON", () => ({ body: json() })],
    ["client_secret_post in a form", () => ({ body: form(), type: FORM_TYPE })],
    [
      "client_secret_basic with a form",
      () => ({
        body: "grant_type=client_credentials",
        type: FORM_TYPE,
        authorization: basic(client.clientId, client.clientSecret),
      }),
    ],
    [
      "client_secret_basic with JSON",
      () => ({
        body: '{"grant_type":"client_credentials"}',
        authorization: basic(client.clientId, client.clientSecret),
      }),
    ],
    ["unknown parameters", () => ({ body: json({ unknown: { a: [1] } }) })],
    ["empty parameters, which count as omitted", () => ({ body: json({ scope: "", resource: "" }) })],
  ] as [string, () => Request][])("%s", async (_name, request) => {
    const answer = await ask(request());
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      access_token: expect.any(String),
      token_type: "Bearer",
      expires_in: 900,
      scope: "inference:read pipeline:write",
      token: answer.body["access_token"],
    });
    expect(answer.headers.get("content-type")).toBe("application/json;charset=UTF-8");
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.headers.get("pragma")).toBe("no-cache");
  });
});

describe("section 3.3, scopes", () => {
  test.each([
    ["inference:read", "inference:read"],
    ["pipeline:write inference:read", "inference:read pipeline:write"],
    ["inference:read inference:read", "inference:read"],
  ])("%s is granted as %s", async (scope, granted) => {
    expect((await ask({ body: json({ scope }) })).body).toMatchObject({ scope: granted });
  });

  test.each([
    ["a scope that the client lacks", "telemetry:export"],
    ["a scope that the client has and one that it lacks", "inference:read telemetry:export"],
    ["a prefix of the client's scope", "inference:rea"],
    ["the client's scope with a suffix", "inference:readall"],
    ["a wildcard", "inference:*"],
    ["a malformed scope", "inference"],
    ["two spaces", "inference:read  pipeline:write"],
    ["a trailing space", "inference:read "],
    ["a tab", "inference:read\tpipeline:write"],
  ])("%s is an invalid scope and never silently narrowed", async (_name, scope) => {
    const answer = await ask({ body: json({ scope }) });
    expect(answer).toMatchObject({ status: 400, body: { error: "invalid_scope", code: "INVALID_SCOPE" } });
  });
});

interface Refusal {
  readonly status: number;
  readonly error: string;
  readonly code: string;
}

const INVALID_REQUEST: Refusal = { status: 400, error: "invalid_request", code: "INVALID_REQUEST" };
const INVALID_CLIENT: Refusal = { status: 401, error: "invalid_client", code: "INVALID_CLIENT" };

function expectRefusal(answer: Answer, { status, error, code }: Refusal): void {
  expect(answer.status).toBe(status);
  expect(answer.body).toEqual({
    error,
    error_description: expect.stringMatching(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/),
    code,
    request_id: answer.headers.get("x-request-id"),
  });
  expect(answer.headers.get("content-type")).toBe("application/json;charset=UTF-8");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(answer.headers.get("pragma")).toBe("no-cache");
}

describe("section 5.2, errors", () => {
  test.each([
    ["no body", () => ({}), INVALID_REQUEST],
    ["truncated JSON", () => ({ body: '{"grant_type":' }), INVALID_REQUEST],
    ["an array", () => ({ body: "[]" }), INVALID_REQUEST],
    ["no grant_type", () => ({ body: json({ grant_type: undefined }) }), INVALID_REQUEST],
    ["a grant_type that is not a string", () => ({ body: json({ grant_type: 1 }) }), INVALID_REQUEST],
    ["a secret that is not a string", () => ({ body: json({ client_secret: { a: 1 } }) }), INVALID_REQUEST],
    ["a scope that is not a string", () => ({ body: json({ scope: ["inference:read"] }) }), INVALID_REQUEST],
    [
      "a repeated parameter",
      () => ({ body: `${form()}&scope=a%3Ab&scope=a%3Ab`, type: FORM_TYPE }),
      INVALID_REQUEST,
    ],
    ["a repeated member", () => ({ body: json().replace("{", '{"client_id":"x",') }), INVALID_REQUEST],
    [
      "a member that is repeated with an escape",
      () => ({ body: json().replace("{", '{"clien\\u0074_id":"x",') }),
      INVALID_REQUEST,
    ],
    ["parameters in the query", () => ({ body: json(), query: "?scope=inference:read" }), INVALID_REQUEST],
    [
      "the secret in the query",
      () => ({ body: json(), query: `?client_secret=${client.clientSecret}` }),
      INVALID_REQUEST,
    ],
    [
      "two authentication methods",
      () => ({ body: json(), authorization: basic(client.clientId, client.clientSecret) }),
      INVALID_REQUEST,
    ],
    ["client_secret without client_id", () => ({ body: json({ client_id: undefined }) }), INVALID_REQUEST],
    ["a repeated non-ASCII name", () => ({ body: '{"\\u00e4\\"":1,"\\u00e4\\"":2}' }), INVALID_REQUEST],
    ["no client authentication", () => ({ body: '{"grant_type":"client_credentials"}' }), INVALID_CLIENT],
    ["no client_secret", () => ({ body: json({ client_secret: undefined }) }), INVALID_CLIENT],
    ["an empty client_secret", () => ({ body: json({ client_secret: "" }) }), INVALID_CLIENT],
    [
      "another grant type",
      () => ({ body: json({ grant_type: "password" }) }),
      { status: 400, error: "unsupported_grant_type", code: "UNSUPPORTED_GRANT_TYPE" },
    ],
    [
      "another resource (RFC 8707)",
      () => ({ body: json({ resource: "https://other.example" }) }),
      { status: 400, error: "invalid_target", code: "INVALID_TARGET" },
    ],
    [
      "a body of another media type",
      () => ({ body: json(), type: "text/plain" }),
      { status: 415, error: "invalid_request", code: "UNSUPPORTED_MEDIA_TYPE" },
    ],
    [
      "more than 8 KiB",
      () => ({ body: json({ padding: "x".repeat(8_192) }) }),
      { status: 413, error: "invalid_request", code: "PAYLOAD_TOO_LARGE" },
    ],
  ] as [string, () => Request, Refusal][])("%s", async (_name, request, refusal) => {
    expectRefusal(await ask(request()), refusal);
  });

  test("an unsupported media type is rejected with a list of the supported ones", async () => {
    const { body } = await ask({ body: json(), type: "text/plain" });
    expect(body["error_description"]).toContain(JSON_TYPE);
    expect(body["error_description"]).toContain(FORM_TYPE);
  });

  test.each(["GET", "PUT", "PATCH", "DELETE", "OPTIONS"])(
    "%s is not allowed, and Allow lists the allowed methods",
    async (method) => {
      const answer = await ask({ method });
      expectRefusal(answer, { status: 405, error: "invalid_request", code: "METHOD_NOT_ALLOWED" });
      expect(answer.headers.get("allow")).toBe("POST");
    },
  );

  test("a client that tried Basic gets a Basic challenge, and others get none", async () => {
    const request = { body: "grant_type=client_credentials", type: FORM_TYPE };
    const tried = await ask({ ...request, authorization: basic(client.clientId, "wrong") });
    expectRefusal(tried, INVALID_CLIENT);
    expect(tried.headers.get("www-authenticate")).toBe('Basic realm="service"');
    const other = await ask({ body: json({ client_secret: "wrong" }) });
    expectRefusal(other, INVALID_CLIENT);
    expect(other.headers.get("www-authenticate")).toBeNull();
  });
});
