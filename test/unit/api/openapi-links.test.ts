/** The links of the OpenAPI documents: from each id in an answer to every operation that takes it. */
import { describe, expect, test } from "vitest";
import { readOpenApi, withoutReferences } from "#tools/openapi-schema.ts";

interface Shape {
  readonly pattern?: string;
  readonly anyOf?: readonly Shape[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly items?: Shape;
}
interface Answer {
  readonly content?: Readonly<Record<string, { readonly schema: Shape; readonly example?: unknown }>>;
  readonly links?: Readonly<
    Record<string, { readonly operationId: string; readonly parameters: Readonly<Record<string, string>> }>
  >;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: Shape }[];
  readonly responses: Readonly<Record<string, Answer>>;
}

/** Parameters whose ids are no member of any answer, and where they are instead. */
const UNFED: Readonly<Record<string, string>> = {
  "statusList id": "the end of an address in a token and in the aggregation",
};

/** Returns the parameters that take an id: those of paths, and those of queries that are named after one. */
function idParameters({ parameters = [] }: Operation) {
  return parameters.filter(
    (parameter) => parameter.in === "path" || (parameter.in === "query" && parameter.name.endsWith("_id")),
  );
}

/** Returns the patterns in an answer, at any depth. */
function patternsIn({ pattern, properties = {}, items, anyOf = [] }: Shape): readonly string[] {
  const inside = [...Object.values(properties), ...(items === undefined ? [] : [items]), ...anyOf];
  return [...(pattern === undefined ? [] : [pattern]), ...inside.flatMap(patternsIn)];
}

function successes({ responses }: Operation): readonly Answer[] {
  return Object.entries(responses).flatMap(([status, answer]) => (status.startsWith("2") ? [answer] : []));
}

/** Returns the links of an operation, each with the answer's example. */
function linksOf(operation: Operation) {
  return successes(operation).flatMap(({ links = {}, content = {} }) =>
    Object.values(links).map((link) => ({ ...link, example: content["application/json"]?.example })),
  );
}

/** Reads what an expression takes from the answer; undefined if it takes nothing from there. */
function valueOf(expression: string, answer: unknown): unknown {
  const [, pointer] = /^\$response\.body#\/(.*)$/.exec(expression) ?? [];
  return pointer
    ?.split("/")
    .reduce((part, key) => (part as Readonly<Record<string, unknown>> | null)?.[key], answer);
}

describe.each(["tenants", "operators"] as const)("the document for %s", (audience) => {
  async function allOperations(): Promise<Operation[]> {
    const { paths } = withoutReferences(await readOpenApi(audience)) as unknown as {
      readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
    };
    return Object.values(paths).flatMap((methods) => Object.values(methods));
  }

  test("feeds every parameter that takes an id by a link from an answer that has one", async () => {
    const operations = await allOperations();
    const fed = new Set(
      operations.flatMap(linksOf).flatMap(({ operationId, parameters }) =>
        Object.entries(parameters)
          .filter(([, expression]) => expression.startsWith("$response.body#/"))
          .map(([name]) => `${operationId} ${name}`),
      ),
    );
    const all = operations.flatMap((operation) =>
      idParameters(operation).map(({ name }) => `${operation.operationId} ${name}`),
    );
    const unfed = all.filter((parameter) => !fed.has(parameter));
    expect(unfed).toEqual(Object.keys(UNFED).filter((parameter) => all.includes(parameter)));
    expect(fed.size).toBeGreaterThan(30);
  });

  test("links every answer with an id, also a nested one, to the operations that take it alone", async () => {
    const operations = await allOperations();
    const missing = operations.flatMap((source) => {
      const linked = new Set(linksOf(source).map(({ operationId }) => operationId));
      const given = successes(source)
        .flatMap(({ content = {} }) => patternsIn(content["application/json"]?.schema ?? {}))
        .filter((pattern) => /^\^[a-z]{2,3}_/.test(pattern));
      return operations
        .filter((target) => {
          const [{ schema: { pattern = "" } } = { schema: {} }, ...others] = idParameters(target);
          return others.length === 0 && given.some((each) => pattern.split("|").includes(each));
        })
        .filter((target) => target !== source && !linked.has(target.operationId))
        .map((target) => `${source.operationId} -> ${target.operationId}`);
    });
    expect(missing).toEqual([]);
  });

  test("links to operations whose parameters take what the answer's example has there", async () => {
    const operations = await allOperations();
    const wrong: string[] = [];
    for (const source of operations) {
      const asked = idParameters(source).map(({ name }) => `$request.path.${name}`);
      for (const { operationId, parameters, example } of linksOf(source)) {
        const target = operations.find((operation) => operation.operationId === operationId);
        for (const [name, expression] of Object.entries(parameters)) {
          const taker = target?.parameters?.find((parameter) => parameter.name === name);
          const value = valueOf(expression, example);
          const text = typeof value === "object" ? JSON.stringify(value) : `${value as string | number}`;
          const fits = value === null || new RegExp(taker?.schema.pattern ?? "").test(text);
          if (taker === undefined || (value === undefined ? !asked.includes(expression) : !fits)) {
            wrong.push(`${source.operationId} -> ${operationId} ${name}: ${expression} ${text}`);
          }
        }
      }
    }
    expect(wrong).toEqual([]);
  });
});
