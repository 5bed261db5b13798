/** The OpenAPI document is valid and complete, and its examples match its schemas. */
import { Validator } from "@seriousme/openapi-schema-validator";
import type { ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, describe, expect, test } from "vitest";
import { ERROR_CATALOGUE } from "#domain/errors.ts";
import { readOpenApi } from "#tools/openapi-schema.ts";

interface Media {
  readonly schema: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value?: unknown; readonly $ref?: string }>>;
}
interface Body {
  readonly content?: Readonly<Record<string, Media>>;
}
interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly schema: object;
    readonly example?: unknown;
  }[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: Body;
  readonly responses: Readonly<Record<string, Body & { readonly description: string }>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly webhooks?: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly tags: readonly { readonly name: string }[];
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>;
    readonly examples: Readonly<Record<string, { readonly value: Readonly<Record<string, unknown>> }>>;
    readonly securitySchemes: Readonly<
      Record<string, { readonly flows?: { readonly clientCredentials: { readonly scopes: object } } }>
    >;
  };
  readonly info: { readonly description: string };
}

async function read(audience: "tenants" | "operators"): Promise<Document> {
  return (await readOpenApi(audience)) as unknown as Document;
}

function operationsOf(section: Document["paths"]): [string, Operation][] {
  return Object.entries(section).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]): [string, Operation] => [
      `${method.toUpperCase()} ${path}`,
      operation,
    ]),
  );
}

/** Returns the schemas of a document and the schemas in them, with their places. */
function schemasOf(value: unknown, place = "", isMap = false): [string, Schema][] {
  if (typeof value !== "object" || value === null) {
    return [];
  }
  const inside = Object.entries(value)
    .filter(([key]) => isMap || !["example", "examples", "default"].includes(key))
    .flatMap(([key, part]) => schemasOf(part, `${place}/${key}`, !isMap && key === "properties"));
  return isMap ? inside : [[place, value], ...inside];
}

interface Schema {
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly maximum?: number;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly title?: string;
}

interface Shape {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Shape[];
  readonly oneOf?: readonly Shape[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
  readonly additionalProperties?: boolean | Shape;
}

function resolved({ components }: Document, shape: Shape): Shape {
  const name = shape.$ref?.split("/").at(-1);
  return name === undefined ? shape : (components.schemas[name] ?? {});
}

function takesNull(document: Document, shape: Shape): boolean {
  const { type = [], anyOf = [], oneOf = [] } = resolved(document, shape);
  return [type].flat().includes("null") || [...anyOf, ...oneOf].some((branch) => takesNull(document, branch));
}

/** Returns the members of a JSON body, including those of its branches. */
function membersOf(document: Document, body: Body | undefined): ReadonlyMap<string, Shape> {
  const media = (body as { content?: Record<string, { schema?: Shape }> } | undefined)?.content;
  const branches = (shape: Shape): readonly Shape[] => {
    const whole = resolved(document, shape);
    return [whole, ...(whole.anyOf ?? whole.oneOf ?? []).flatMap(branches)];
  };
  const schemas = branches(media?.["application/json"]?.schema ?? {});
  return new Map(schemas.flatMap(({ properties = {} }) => Object.entries(properties)));
}

describe.each(["tenants", "operators"] as const)("the document for %s", (audience) => {
  let document: Document;

  beforeAll(async () => {
    document = await read(audience);
  });

  /** Returns the operations, including the requests that receivers get. */
  function all(): [string, Operation][] {
    return [...operationsOf(document.paths), ...operationsOf(document.webhooks ?? {})];
  }

  test("it is valid OpenAPI 3.1", async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(document) as never);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  test("a request accepts null for every member that its response may show as null", () => {
    const refused: string[] = [];
    for (const [name, { requestBody, responses }] of operationsOf(document.paths)) {
      const taken = membersOf(document, requestBody);
      const shown = Object.entries(responses)
        .filter(([status]) => status.startsWith("2"))
        .flatMap(([, response]) => [...membersOf(document, response)]);
      for (const [member, schema] of shown) {
        const body = taken.get(member);
        if (body !== undefined && takesNull(document, schema) && !takesNull(document, body)) {
          refused.push(`${name} ${member}`);
        }
      }
    }
    expect(refused).toEqual([]);
  });

  test("every body and every object in it is a named schema, so that clients have a type of that name", () => {
    const inline: string[] = [];
    const search = (place: string, schema: Shape): void => {
      if (schema.properties !== undefined) {
        inline.push(place);
      }
      for (const part of [
        schema.items,
        ...(schema.anyOf ?? schema.oneOf ?? []),
        schema.additionalProperties,
      ]) {
        if (typeof part === "object") {
          search(place, part);
        }
      }
    };
    for (const [name, { requestBody, responses }] of operationsOf(document.paths)) {
      for (const [part, { content = {} }] of Object.entries({ request: requestBody ?? {}, ...responses })) {
        for (const [type, { schema }] of Object.entries(content)) {
          const { $ref } = schema as Shape;
          if ($ref === undefined && type.endsWith("json") && !type.endsWith("ndjson")) {
            inline.push(`${name} ${part}`);
          }
          search(`${name} ${part}`, schema);
        }
      }
    }
    for (const [name, { properties = {}, ...schema }] of Object.entries(
      document.components.schemas as Readonly<Record<string, Shape>>,
    )) {
      expect(name).toMatch(/^[A-Z][A-Za-z0-9]*$/);
      // A name that nobody gave: `Named` in http/common.ts gives one.
      expect(name).not.toMatch(/(Body|undefined)/);
      for (const [member, shape] of Object.entries({ ...properties, "": schema })) {
        search(`${name}.${member}`, shape);
      }
    }
    expect(inline.filter((place) => !/^(Problem|OAuthError)\b/.test(place))).toEqual([]);
  });

  test("every integer that may exceed 32 bits is an int64, since generators take others for 32 bits", () => {
    const integers = schemasOf(document).filter(([, { type = [] }]) => [type].flat().includes("integer"));
    const wrong = integers.filter(
      ([, { format, maximum = Number.POSITIVE_INFINITY }]) => (format === "int64") !== maximum >= 2 ** 31,
    );
    expect(integers.length).toBeGreaterThan(100);
    expect(wrong.map(([place]) => place)).toEqual([]);
  });

  test("every enum has strings alone, since generators make none of `true`", () => {
    const enums = schemasOf(document).flatMap(([place, schema]) =>
      (schema.enum ?? []).map((word) => [place, word]),
    );
    expect(enums.length).toBeGreaterThan(50);
    expect(enums.filter(([, word]) => typeof word !== "string")).toEqual([]);
  });

  test("null alone is no schema, and objects are alternatives by oneOf: generators merge those of an anyOf", () => {
    const schemas = schemasOf(document);
    const alone = schemas.filter(([place, { type }]) => type === "null" && !/\/anyOf\/\d+$/.test(place));
    const choices = schemas.flatMap(([place, { anyOf }]) =>
      anyOf === undefined ? [] : [[place, anyOf.filter(({ type }) => type !== "null")] as const],
    );
    expect(alone).toEqual([]);
    expect(choices.length).toBeGreaterThan(50);
    const merged = choices.filter(
      ([, others]) => others.length > 1 && others.every(({ type }) => type !== "array"),
    );
    expect(merged).toEqual([]);
  });

  test("no schema's name begins with New, since Go's generator makes a function New and the name of each", () => {
    expect(Object.keys(document.components.schemas).filter((name) => name.startsWith("New"))).toEqual([]);
  });

  test("every body of a webhook has a title, since it has no name", () => {
    const titles = operationsOf(document.webhooks ?? {}).map(
      ([, { requestBody }]) => requestBody?.content?.["application/json"]?.schema.title,
    );
    expect(titles).not.toContain(undefined);
    expect(new Set([...titles, ...Object.keys(document.components.schemas)]).size).toBe(
      titles.length + Object.keys(document.components.schemas).length,
    );
  });

  test("every operation says who may call it, and scopes are those of its scheme", () => {
    const { flows } = document.components.securitySchemes["bearer"] ?? {};
    const scopes = Object.keys(flows?.clientCredentials.scopes ?? {});
    for (const [name, { security }] of all()) {
      expect(security, name).toBeDefined();
      for (const { bearer = [] } of security ?? []) {
        expect(scopes, name).toEqual(expect.arrayContaining([...bearer]));
      }
    }
    const used = all().flatMap(([, { security = [] }]) => security.flatMap(({ bearer = [] }) => bearer));
    expect(scopes.toSorted()).toEqual([...new Set(used)].toSorted());
  });

  test("every operation has a description, a documented tag and a unique id", () => {
    const tags = new Set(document.tags.map(({ name }) => name));
    for (const [name, { summary = "", description = "", tags: own = [] }] of all()) {
      expect(summary, name).toMatch(/^[A-Z].*[^.]$/);
      expect(description, name).toMatch(/\.$/);
      expect(own.every((tag) => tags.has(tag)) && own.length === 1, name).toBe(true);
    }
    const ids = all().map(([, { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(all().length);
    expect(ids).not.toContain(undefined);
  });

  /** Returns every schema that has an example. */
  function examples(): { name: string; schema: object; value: unknown }[] {
    return all().flatMap(([name, { parameters = [], requestBody, responses }]) => [
      ...parameters.map(({ name: parameter, schema, example }) => ({
        name: `${name} ?${parameter}`,
        schema,
        value: example,
      })),
      ...Object.entries({ request: requestBody ?? {}, ...responses }).flatMap(([part, { content = {} }]) =>
        Object.values(content).flatMap(({ schema, example, examples: named }) => [
          ...(named === undefined ? [{ name: `${name} ${part}`, schema, value: example }] : []),
          ...Object.entries(named ?? {}).map(([title, { value, $ref }]) => ({
            name: `${name} ${part} ${title}`,
            schema,
            value: $ref === undefined ? value : document.components.examples[title]?.value,
          })),
        ]),
      ),
    ]);
  }

  test("every example is present and matches its schema", () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ $id: "https://signet.example/openapi", components: document.components });
    const checks = new Map<string, ValidateFunction>();
    const checkOf = (schema: object): ValidateFunction => {
      const text = JSON.stringify(schema).replaceAll(
        '"#/components/',
        '"https://signet.example/openapi#/components/',
      );
      const check = checks.get(text) ?? ajv.compile(JSON.parse(text) as object);
      checks.set(text, check);
      return check;
    };
    const found = examples();
    const wrong = found.flatMap(({ name, schema, value }) => {
      const validate = checkOf(schema);
      return value !== undefined && validate(value)
        ? []
        : [`${name}: ${JSON.stringify(value)} ${ajv.errorsText(validate.errors)}`];
    });
    expect(wrong).toEqual([]);
    expect(found.length).toBeGreaterThan(300);
  });

  test("every operation lists the errors of its kind, and every response has an example", () => {
    for (const [name, { responses }] of operationsOf(document.paths)) {
      expect(Object.keys(responses), name).toEqual(
        expect.arrayContaining(["400", "414", "429", "431", "500", "503"]),
      );
      const [success] = Object.entries(responses).filter(([status]) => status.startsWith("2"));
      // RFC 7009 and the Shared Signals Framework want 200 without a body.
      const empty =
        success?.[0] === "204" || ["POST /v1/auth/revoke", "POST /v1/ssf/subjects/add"].includes(name);
      const types = name.endsWith("/usage") ? ["application/json", "text/csv"] : undefined;
      const documented = Object.keys(success?.[1].content ?? {});
      expect(documented, name).toEqual(types ?? documented.slice(0, empty ? 0 : 1));
      expect(documented.length > 0, name).toBe(!empty);
    }
  });
});

test("events are published by one operation alone, over HTTP", async () => {
  const { paths } = await read("tenants");
  const publishing = operationsOf(paths)
    .filter(
      ([name, { security = [] }]) =>
        !name.startsWith("DELETE") && security.some(({ bearer = [] }) => bearer.includes("events:publish")),
    )
    .map(([name]) => name);
  expect(publishing).toEqual(["POST /v1/events"]);
});

describe("errors", () => {
  let document: Document;

  beforeAll(async () => {
    document = await read("tenants");
  });

  test("every code of the catalogue has an example with its status, and is in the introduction", () => {
    for (const [code, { status }] of Object.entries(ERROR_CATALOGUE)) {
      expect(document.components.examples[code]?.value, code).toMatchObject({ code, status });
      expect(document.info.description).toContain(`\`${code}\``);
    }
  });

  test("an operation lists its own error codes", () => {
    const codes = (name: string, status: string): string[] =>
      Object.keys(
        Object.values(
          operationsOf(document.paths).find(([operation]) => operation === name)?.[1].responses[status]
            ?.content ?? {},
        )[0]?.examples ?? {},
      );
    expect(codes("POST /v1/webhooks/endpoints", "403")).toContain("SCOPE_VIOLATION");
    expect(codes("POST /v1/webhooks/endpoints", "422")).toContain("TARGET_URL_FORBIDDEN");
    expect(codes("POST /v1/webhooks/dlq/{id}/replay", "410")).toEqual(["DLQ_ENTRY_EXPIRED"]);
    expect(codes("POST /v1/events", "401")).toEqual(
      expect.arrayContaining(["TOKEN_EXPIRED", "SIGNATURE_INVALID", "PAYLOAD_EXPIRED", "TIMESTAMP_MISMATCH"]),
    );
    expect(codes("POST /v1/auth/token", "401")).toContain("INVALID_CLIENT");
  });
});
