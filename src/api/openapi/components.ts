/**
 * Moves the schemas of bodies to `components.schemas` of the OpenAPI document, so that every object has a name there, and
 * a type of that name in generated clients.
 */
import type { DocumentedSchema } from "./examples.ts";

/** Returns the words of a member or an operation as one name: `next_cursor` as `NextCursor`. */
export function inPascalCase(text: string): string {
  return text.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_all, letter: string) => letter.toUpperCase());
}

const isNull = ({ type }: DocumentedSchema): boolean => type === "null";

/** The named schemas of a document. */
export class Components {
  readonly #schemas = new Map<string, DocumentedSchema>();
  readonly #names = new Map<string, string>();

  /** Returns the schemas in the order of their names. */
  all(): Record<string, DocumentedSchema> {
    return Object.fromEntries([...this.#schemas].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /**
   * Returns the schema with references to the named ones in it, or a reference to itself if it has a name (`Named` in
   * http/common.ts). An object without a name gets that of its place: `EndpointHealth` for the member `health` of
   * `Endpoint`.
   *
   * @param place name for a schema without one
   * @throws Error if two schemas have the same name
   */
  refer(schema: DocumentedSchema, place: string): DocumentedSchema {
    const { "x-name": given, ...rest } = schema;
    const name = (given as string | undefined) ?? place;
    const inside = this.#inside(rest, name);
    const isObject = schema.properties !== undefined || this.#isUnion(inside);
    return given === undefined && !isObject ? inside : this.#named(inside, name, given !== undefined);
  }

  #inside(schema: DocumentedSchema, name: string): DocumentedSchema {
    const { anyOf, ...others } = schema;
    const { properties, items, additionalProperties: values } = others;
    const refer = (part: DocumentedSchema, place: string): DocumentedSchema => this.refer(part, place);
    return {
      ...others,
      ...(properties === undefined
        ? {}
        : {
            properties: Object.fromEntries(
              Object.entries(properties).map(([key, member]) => [
                key,
                refer(member, `${name}${inPascalCase(key)}`),
              ]),
            ),
          }),
      ...(items === undefined ? {} : { items: refer(items, `${name}Item`) }),
      ...(anyOf === undefined ? {} : this.#choice(anyOf, name)),
      ...(typeof values === "object" && values !== null
        ? { additionalProperties: refer(values as DocumentedSchema, `${name}Value`) }
        : {}),
    };
  }

  /**
   * Returns the choice among the alternatives, by `oneOf` if each is an object: of an `anyOf`, generators make one object
   * with the members of all.
   */
  #choice(alternatives: readonly DocumentedSchema[], name: string): DocumentedSchema {
    const others = alternatives.filter((choice) => !isNull(choice));
    const refer = (choice: DocumentedSchema, index: number): DocumentedSchema =>
      this.refer(choice, others.length === 1 ? name : `${name}${index + 1}`);
    const isUnion = others.length > 1 && others.every(({ type }) => type !== "array");
    return { [isUnion ? "oneOf" : "anyOf"]: alternatives.map(refer) };
  }

  /** Checks whether a schema is a union of named objects. */
  #isUnion({ oneOf = [] }: DocumentedSchema): boolean {
    return oneOf.filter(({ $ref }) => $ref !== undefined).length > 1;
  }

  #named(schema: DocumentedSchema, name: string, given: boolean): DocumentedSchema {
    const text = JSON.stringify(schema);
    const known = given ? name : (this.#names.get(text) ?? name);
    const earlier = this.#schemas.get(known);
    if (earlier !== undefined && JSON.stringify(earlier) !== text) {
      throw new Error(`two schemas of the OpenAPI document have the name ${known}`);
    }
    this.#schemas.set(known, schema);
    if (!this.#names.has(text)) {
      this.#names.set(text, known);
    }
    return { $ref: `#/components/schemas/${known}` };
  }
}
