/**
 * Where a schema lets one choose (`anyOf`), Ajv tells what is wrong with every choice. Told on is what is wrong with the
 * one that was meant; one sentence where none was.
 */
import type { ErrorObject } from "ajv";
import { type DescribedSchema, kindOf } from "./fault-words.ts";

/** The JSON types that a schema can take; none named: any. */
function kindsOf({ type, const: constant, enum: values, anyOf }: DescribedSchema): readonly string[] {
  if (anyOf !== undefined) {
    return anyOf.flatMap(kindsOf);
  }
  if (type !== undefined) {
    return [type].flat().map((name) => (name === "integer" ? "number" : name));
  }
  return (constant === undefined ? (values ?? []) : [constant]).map(kindOf);
}

/** The member that tells the choices apart: a constant in each of them. */
function discriminatorOf(branches: readonly DescribedSchema[]): string | undefined {
  const [first, ...rest] = branches;
  return Object.keys(first?.properties ?? {}).find((name) =>
    [first, ...rest].every((branch) => branch?.properties?.[name]?.const !== undefined),
  );
}

/** A fault that stands for those of all choices: the member that would tell which one is meant is absent or unknown. */
function undecided(fault: ErrorObject, name: string, branches: readonly DescribedSchema[]): ErrorObject {
  const member = { enum: branches.map((branch) => branch.properties?.[name]?.const) };
  const data = fault.data as Readonly<Record<string, unknown>>;
  return Object.hasOwn(data, name)
    ? {
        ...fault,
        instancePath: `${fault.instancePath}/${name}`,
        keyword: "enum",
        data: data[name],
        parentSchema: member,
      }
    : {
        ...fault,
        keyword: "required",
        params: { missingProperty: name },
        parentSchema: { properties: { [name]: member } },
      };
}

/** The faults of each choice, by its number. */
function byBranch(fault: ErrorObject, faults: readonly ErrorObject[]): ReadonlyMap<number, ErrorObject[]> {
  const groups = new Map<number, ErrorObject[]>();
  for (const inner of faults) {
    const number = Number.parseInt(inner.schemaPath.slice(fault.schemaPath.length + 1), 10);
    const group = groups.get(number);
    if (group === undefined) {
      groups.set(number, [inner]);
    } else {
      group.push(inner);
    }
  }
  return groups;
}

function meant(fault: ErrorObject, faults: readonly ErrorObject[]): readonly ErrorObject[] {
  const kind = kindOf(fault.data);
  const all = (fault.schema as readonly DescribedSchema[]).map((schema, number) => ({ schema, number }));
  const fitting = all.filter(({ schema }) => kindsOf(schema).includes(kind));
  const groups = byBranch(fault, faults);
  const schemas = fitting.map(({ schema }) => schema);
  const discriminator = kind === "object" && schemas.length > 1 ? discriminatorOf(schemas) : undefined;
  if (discriminator !== undefined) {
    const value = (fault.data as Readonly<Record<string, unknown>>)[discriminator];
    const chosen = fitting.find(({ schema }) => schema.properties?.[discriminator]?.const === value);
    return chosen === undefined
      ? [undecided(fault, discriminator, schemas)]
      : (groups.get(chosen.number) ?? [fault]);
  }
  // Of several of the same kind the one that is nearest; the first is the usual one.
  const [nearest] = fitting
    .map(({ number }) => groups.get(number) ?? [])
    .toSorted((left, right) => left.length - right.length);
  return nearest === undefined || nearest.length === 0 ? [fault] : nearest;
}

function isWithin(
  { schemaPath, instancePath }: ErrorObject,
  { schemaPath: at, instancePath: of }: ErrorObject,
) {
  return schemaPath.startsWith(`${at}/`) && (instancePath === of || instancePath.startsWith(`${of}/`));
}

/** An empty text is not of the form either: its length says it all. */
function isToldBy(last: ErrorObject | undefined, { keyword, instancePath }: ErrorObject): boolean {
  return keyword === "pattern" && last?.instancePath === instancePath && last.keyword.endsWith("Length");
}

/** Ajv tells the faults of a choice's parts, and of a member's name, right before the one that they make up. */
export function meantFaults(faults: readonly ErrorObject[]): ErrorObject[] {
  const told: ErrorObject[] = [];
  for (const fault of faults) {
    if (fault.keyword === "anyOf" && fault.schema !== undefined) {
      let start = told.length;
      while (start > 0 && isWithin(told[start - 1] as ErrorObject, fault)) {
        start -= 1;
      }
      told.push(...meant(fault, told.splice(start)));
    } else if (
      fault.schema === undefined ||
      (fault.propertyName === undefined && !isToldBy(told.at(-1), fault))
    ) {
      told.push(fault);
    }
  }
  return told;
}
