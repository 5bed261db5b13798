/**
 * Breaks each constraint of the routes' schemas once. Each answer must be a 4xx of the catalogue
 * that names the place and explains the constraint in words, never a regular expression or a 500.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { type Document, withoutReferences } from "#tools/openapi-schema.ts";
import type { DocumentedSchema } from "#api/openapi/examples.ts";
import { ERROR_CATALOGUE } from "#domain/errors.ts";
import { readAnswer, unlessStale } from "#test/support/answer.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { createTenant, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import { NO_NUMBERS, violationsOf } from "#test/support/violations.ts";

const api = useSharedApi();
const SCOPES = [
  ...WEBHOOK_SCOPES,
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "compliance:read",
  "portal:sign_in",
  "ssf:manage",
  "ssf:read",
];
/** Routes with errors in the form of RFC 6749; test/conformance tests their rules. */
const OAUTH = /^\/v1\/auth\//;
/** Without `events`, a body at POST /v1/events is validated as a single event. */
const EITHER = /^no error at \/events: .*\/type is required/;
const ID_TAIL = "0".repeat(24);

interface Parameter {
  readonly in: string;
  readonly name: string;
  readonly schema: DocumentedSchema;
  readonly example?: unknown;
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: DocumentedSchema | undefined;
  /** A body without faults. Without one, a route does not look at its query. */
  readonly example: unknown;
}

interface Content {
  readonly schema: DocumentedSchema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

type Operation = {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, Content>>;
  };
};

interface Described extends Pick<Document, "components"> {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

function routesOf(document: Answer["body"]): Route[] {
  const { paths } = withoutReferences(document as unknown as Described);
  return Object.entries(paths)
    .filter(([path]) => !OAUTH.test(path))
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, { parameters = [], requestBody }]) => {
        const { schema: body, examples = {} } = requestBody?.content["application/json"] ?? {};
        const [example] = Object.values(examples);
        return { method: method.toUpperCase(), path, parameters, body, example: example?.value };
      }),
    );
}

let tenant: Tenant;
let routes: readonly Route[];

/** Returns the address with plausible parameters. */
function addressOf({ path, parameters }: Route): string {
  return path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
    const found = parameters.find((parameter) => parameter.in === "path" && parameter.name === name);
    const [, prefix] = /^\^([a-z]{2,3})_\[/.exec(found?.schema.pattern ?? "") ?? [];
    return prefix === undefined ? String(found?.example) : `${prefix}_${ID_TAIL}`;
  });
}

interface Sent {
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

async function sendRequest(route: Route, { query = "", headers = {}, body }: Sent): Promise<Answer> {
  const admin = route.path.startsWith("/admin/");
  const base = admin ? api.adminUrl : api.publicUrl;
  const request = {
    method: route.method,
    headers: {
      authorization: `Bearer ${admin ? api.operatorToken : tenant.token}`,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
  const url = base + addressOf(route) + query;
  return await unlessStale(async () => await readAnswer(await fetch(url, request)));
}

/** Returns the fault of an error response, or undefined if there is none. */
function complaint({ status, body, text }: Answer, pointer: string): string | undefined {
  if (status < 400 || status >= 500 || !Object.hasOwn(ERROR_CATALOGUE, String(body["code"]))) {
    return `${status} ${text.slice(0, 200)}`;
  }
  const errors = (body["errors"] ?? []) as readonly { pointer: string; code: string; detail: string }[];
  const named = errors.filter(
    (error) => error.pointer === pointer || error.pointer.startsWith(`${pointer}/`),
  );
  if (named.length === 0) {
    return `no error at ${pointer}: ${text.slice(0, 300)}`;
  }
  const bad = errors.find(
    ({ detail }) =>
      /must match|\^|\[\^|\\[pux]|must NOT|property|is not valid|is invalid|undefined|not NaN|\[object/.test(
        detail,
      ) || detail.length > 400,
  );
  return bad === undefined ? undefined : `${bad.pointer} ${bad.detail}`;
}

/** A batch reports what is wrong with an item beside the item's index, and accepts the others. */
const ITEM = /^\/events\/0(?=\/|$)/;

/** Like {@link complaint}, also about the first item of a batch. */
function complaintOfBatch(answer: Answer, pointer: string): string | undefined {
  const [item] = (answer.body["data"] ?? []) as readonly { error?: Answer["body"] }[];
  if (answer.status !== 202 || item?.error === undefined || !ITEM.test(pointer)) {
    return complaint(answer, pointer);
  }
  const own = { ...answer, status: Number(item.error["status"]), body: item.error };
  return complaint(own, pointer.replace(ITEM, ""));
}

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  const admin = await api.admin("GET", "/openapi.json");
  routes = [...routesOf((await api.request("/openapi.json")).body), ...routesOf(admin.body)];
});

describe("bodies", () => {
  test("each broken constraint is reported with its pointer, in words", async () => {
    const wrong: string[] = [];
    let count = 0;
    for (const route of routes.filter(({ body }) => body !== undefined)) {
      for (const violation of violationsOf(route.body ?? {})) {
        count += 1;
        const answer = await sendRequest(route, { body: violation.value });
        const found = complaintOfBatch(answer, violation.pointer);
        if (found !== undefined && !EITHER.test(found)) {
          wrong.push(`${route.method} ${route.path} ${violation.breaks} ${violation.pointer}: ${found}`);
        }
      }
    }
    expect({ routes: routes.length > 60, count: count > 300 }).toEqual({ routes: true, count: true });
    expect(wrong).toEqual([]);
  });
});

describe("parameters", () => {
  test("each broken constraint of a query is reported by the parameter's name, in words", async () => {
    const wrong: string[] = [];
    let count = 0;
    for (const route of routes) {
      const query = route.parameters.filter((parameter) => parameter.in === "query");
      for (const { name, schema } of query.filter((parameter) => parameter.schema.type !== "object")) {
        const texts =
          schema.type === "integer"
            ? NO_NUMBERS
            : violationsOf(schema)
                .map(({ value }) => value)
                .filter((value): value is string => typeof value === "string");
        for (const text of texts) {
          const fits =
            schema.type === "integer" &&
            /^\d+$/.test(text) &&
            Number.isSafeInteger(Number(text)) &&
            Number(text) <= (schema as { maximum: number }).maximum;
          count += 1;
          const answer = await sendRequest(route, {
            query: `?${name}=${encodeURIComponent(text)}`,
            body: route.example,
          });
          const found = fits
            ? answer.status >= 500
              ? answer.text
              : undefined
            : (complaint(answer, `/${name}`) ?? (answer.status === 400 ? undefined : String(answer.status)));
          if (found !== undefined) {
            wrong.push(`${route.method} ${route.path} ${name}=${text}: ${found}`);
          }
        }
        const twice = await sendRequest(route, { query: `?${name}=1&${name}=1` });
        expect({ route: route.path, name, status: twice.status }).toMatchObject({ status: 400 });
      }
    }
    expect(count).toBeGreaterThan(100);
    expect(wrong).toEqual([]);
  });

  test("each broken constraint of a header is reported by its name, in words", async () => {
    const wrong: string[] = [];
    for (const route of routes) {
      for (const { name } of route.parameters.filter((parameter) => parameter.in === "header")) {
        const answer = await sendRequest(route, {
          headers: { [name]: "\u00e4" },
          ...(route.body === undefined ? {} : { body: {} }),
        });
        if (answer.status === 422) {
          // The body is validated first.
          continue;
        }
        const found = complaint(answer, `/${name}`);
        if (found !== undefined) {
          wrong.push(`${route.method} ${route.path} ${name}: ${found}`);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  test("an invalid value in a path never causes a 5xx", async () => {
    for (const route of routes.filter(({ path }) => path.includes("{"))) {
      for (const text of [...NO_NUMBERS.filter((value) => value !== ""), "x".repeat(101)]) {
        const path = route.path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(text));
        const answer = await sendRequest({ ...route, path, parameters: [] }, {});
        expect({ path, status: answer.status, fault: answer.status >= 500 }).toMatchObject({ fault: false });
        expect(answer.text).not.toContain("^[");
      }
    }
  });
});
