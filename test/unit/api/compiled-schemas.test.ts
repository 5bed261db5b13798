/** The first request of a route compiles its schemas. Here, all of them are compiled. */
import { SerializerSelector } from "@fastify/fast-json-stringify-compiler";
import { expect, test } from "vitest";
import { compileValidator } from "#http/validation.ts";
import { readOpenApi, withoutReferences } from "#tools/openapi-schema.ts";

type Content = Readonly<Record<string, { readonly schema?: object }>>;
interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly schema: object }[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

const schemasOf = (content: Content = {}): readonly object[] =>
  Object.values(content).flatMap(({ schema }) => schema ?? []);

test.each(["tenants", "operators"] as const)(
  "every schema of the routes for %s compiles",
  async (audience) => {
    const document = JSON.stringify(withoutReferences(await readOpenApi(audience)));
    // The document adds formats to what the routes check by patterns.
    const { paths } = JSON.parse(document, (name, value: unknown) =>
      name === "format" && typeof value === "string" ? undefined : value,
    ) as {
      readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
    };
    const compile = SerializerSelector()({}, {});
    let compiled = 0;
    for (const [url, operations] of Object.entries(paths)) {
      for (const [method, { parameters = [], requestBody, responses }] of Object.entries(operations)) {
        const properties = Object.fromEntries(parameters.map(({ name, schema }) => [name, schema]));
        const requested = [{ type: "object", properties }, ...schemasOf(requestBody?.content)];
        for (const schema of requested) {
          expect(() => compileValidator({ schema })({}), `${method} ${url}`).not.toThrow();
        }
        for (const [httpStatus, { content }] of Object.entries(responses)) {
          for (const schema of schemasOf(content)) {
            const route = { method, url, httpStatus, schema };
            expect(() => compile(route), `${method} ${url} ${httpStatus}`).not.toThrow();
            compiled += 1;
          }
        }
      }
    }
    expect(compiled).toBeGreaterThan(100);
  },
);
