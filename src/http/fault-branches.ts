/**
 * For `anyOf`, Ajv reports the faults of every branch. Report only the faults of the branch that the caller meant, or a
 * single fault if that is unclear.
 */
import type { ErrorObject } from "ajv";
import { type DescribedSchema, kindOf } from "./fault-words.ts";

/** Returns the JSON types that a schema accepts; an empty list means any. */
function kindsOf({ type, const: constant, enum: values, anyOf }: DescribedSchema): readonly string[] {
  if (anyOf !== undefined) {
    return anyOf.flatMap(kindsOf);
  }
  if (type !== undefined) {
    return [type].flat().map((name) => (name === "integer" ? "number" : name));
  }
  return (constant === undefined ? (values ?? []) : [constant]).map(kindOf);
}

/** Returns the member that distinguishes the branches, a constant in each of them. */
function discriminatorOf(branches: readonly DescribedSchema[]): string | undefined {
  const [first, ...rest] = branches;
  return Object.keys(first?.properties ?? {}).find((name) =>
    [first, ...rest].every((branch) => branch?.properties?.[name]?.const !== undefined),
  );
}

/** Returns a single fault for all branches, if the discriminator is absent or unknown. */
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

/** Groups faults by the number of their branch. */
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
  // Of several branches of the same type, choose the one with the fewest faults, or else the first.
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

/** Checks whether a length fault makes a pattern fault redundant, as for an empty string. */
function isCoveredBy(last: ErrorObject | undefined, { keyword, instancePath }: ErrorObject): boolean {
  return keyword === "pattern" && last?.instancePath === instancePath && last.keyword.endsWith("Length");
}

/** Filters faults. Ajv reports the faults of a branch, and of a member's name, right before the fault they cause. */
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
      (fault.propertyName === undefined && !isCoveredBy(told.at(-1), fault))
    ) {
      told.push(fault);
    }
  }
  return told;
}
