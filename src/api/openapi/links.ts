/** Links of the OpenAPI document: from each id in an answer to the operations that take it. */
import type { DocumentedSchema } from "./examples.ts";

/** The part of an operation that links are made from. Its schemas name the nouns of ids (`Id` in http/common.ts). */
interface Operation {
  readonly operationId?: string;
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema?: DocumentedSchema;
  }[];
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly content?: Readonly<Record<string, { readonly schema?: DocumentedSchema }>>;
        links?: Record<string, object>;
      }
    >
  >;
}

interface Routes {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** An id in an answer. */
interface GivenId {
  readonly noun: string;
  /** JSON pointer. Of a list, the first item counts. */
  readonly pointer: string;
}

/** A parameter that takes the ids of some nouns. */
interface Taker {
  readonly name: string;
  readonly place: string;
  readonly required: boolean;
  readonly nouns: readonly string[];
}

function idsIn(schema: DocumentedSchema, pointer = ""): readonly GivenId[] {
  const { "x-noun": noun, properties = {}, items, anyOf = [], oneOf = [] } = schema;
  return [
    ...(typeof noun === "string" ? [{ noun, pointer }] : []),
    ...Object.entries(properties).flatMap(([name, member]) => idsIn(member, `${pointer}/${name}`)),
    ...(items === undefined ? [] : idsIn(items, `${pointer}/0`)),
    ...[...anyOf, ...oneOf].flatMap((branch) => idsIn(branch, pointer)),
  ];
}

/** Returns the id of each noun that is nearest to the answer itself. */
function nearestIds(schema: DocumentedSchema): ReadonlyMap<string, string> {
  const depth = ({ pointer }: GivenId): number => pointer.split("/").length;
  const farFirst = idsIn(schema)
    .toSorted((left, right) => depth(left) - depth(right))
    .toReversed();
  return new Map(farFirst.map(({ noun, pointer }) => [noun, pointer]));
}

function takersOf({ parameters = [] }: Operation): readonly Taker[] {
  return parameters.flatMap(({ name, in: place, required = false, schema = {} }) => {
    const { "x-noun": noun, "x-takes": nouns = noun === undefined ? [] : [noun] } = schema;
    return place === "path" || (place === "query" && (nouns as string[]).length > 0)
      ? [{ name, place, required, nouns: nouns as string[] }]
      : [];
  });
}

/**
 * Returns the parameters of a link. What the answer lacks and the path of the request has, as the endpoint of its grades,
 * comes from there.
 *
 * @returns undefined if the answer has no id for the operation, or not all that it requires
 */
function parametersOf(
  target: Operation,
  source: Operation,
  ids: ReadonlyMap<string, string>,
): Record<string, string> | undefined {
  const own = takersOf(source).filter(({ place }) => place === "path");
  const filled: Record<string, string> = {};
  let given = 0;
  for (const { name, place, required, nouns } of takersOf(target)) {
    const pointer = nouns.map((noun) => ids.get(noun)).find((found) => found !== undefined);
    const asked = own.find((taker) => taker.nouns.some((noun) => nouns.includes(noun)));
    if (pointer !== undefined) {
      filled[name] = `$response.body#${pointer}`;
      given += 1;
    } else if (place === "path" && asked !== undefined) {
      filled[name] = `$request.path.${asked.name}`;
    } else if (required) {
      return undefined;
    }
  }
  return given === 0 ? undefined : filled;
}

/** Adds to each successful answer with ids its links to the other operations that take them. */
export function linkOperations({ paths }: Routes): void {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  for (const source of operations) {
    for (const [status, answer] of Object.entries(source.responses)) {
      const schema = answer.content?.["application/json"]?.schema;
      if (schema === undefined || !status.startsWith("2")) {
        continue;
      }
      const ids = nearestIds(schema);
      const links = operations.flatMap((target) => {
        const { operationId = "" } = target;
        const parameters = target === source ? undefined : parametersOf(target, source, ids);
        return parameters === undefined ? [] : [[operationId, { operationId, parameters }] as const];
      });
      if (links.length > 0) {
        answer.links = Object.fromEntries(links);
      }
    }
  }
}
