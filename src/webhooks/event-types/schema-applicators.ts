/** The keywords of JSON Schema Core that apply subschemas, and what they say of evaluated members and items. */
import type { JsonNumber } from "#domain/decimal.ts";
import { isJsonObject } from "#domain/json-equality.ts";
import type { Pattern } from "./patterns.ts";
import { lengthOf } from "./schema-assertions.ts";
import { type Check, type Run, Seen } from "./schema-run.ts";

type Json = Readonly<Record<string, unknown>>;

/** A subschema: its check, and whether it is the schema `false`. */
export interface Sub {
  readonly check: Check;
  readonly isFalse: boolean;
}

/** Compiles the subschemas of one schema. */
export interface Subs {
  /** Undefined if the schema does not have the keyword. */
  readonly one: (keyword: string) => Sub | undefined;
  readonly list: (keyword: string) => readonly Sub[] | undefined;
  readonly named: (keyword: string) => readonly (readonly [string, Sub])[] | undefined;
  readonly pattern: (source: string) => Pattern;
  /** Returns the check of the schema that `$ref` names. */
  readonly referenced: (reference: string) => Check;
}

/** Creates the check of some keywords, or undefined if the schema has none of them. */
type Applicator = (subs: Subs, schema: Json) => Check | undefined;

const reference: Applicator = (subs, { $ref }) =>
  typeof $ref === "string" ? subs.referenced($ref) : undefined;

const allOf: Applicator = (subs) => {
  const list = subs.list("allOf");
  return list && ((value, run, seen) => run.every(list, ({ check }) => check(value, run, seen)));
};

/** Returns the check that at least one subschema passes, and at most `most`. */
function someOf(keyword: string, code: string, most: number, detail: string): Applicator {
  return (subs) => {
    const list = subs.list(keyword);
    const passing = (value: unknown, run: Run, seen: Seen | undefined): boolean => {
      let count = 0;
      for (const { check } of list ?? []) {
        const mine = seen && new Seen();
        if (check(value, run, mine)) {
          count += 1;
          if (mine !== undefined) {
            seen?.add(mine, run);
          }
          if (count > most || (most === Infinity && seen === undefined)) {
            break;
          }
        }
      }
      return (count > 0 && count <= most) || run.fail(code, detail);
    };
    return list && ((value, run, seen) => run.alternatives(() => passing(value, run, seen)));
  };
}

const anyOf = someOf("anyOf", "any_of", Infinity, "must match a schema in anyOf");
const oneOf = someOf("oneOf", "one_of", 1, "must match exactly one schema in oneOf");

const not: Applicator = (subs) => {
  const sub = subs.one("not");
  return (
    sub &&
    ((value, run) =>
      !run.silently(() => sub.check(value, run, undefined)) || run.fail("not", "must NOT be valid"))
  );
};

const conditional: Applicator = (subs) => {
  const condition = subs.one("if");
  const whenTrue = subs.one("then");
  const whenFalse = subs.one("else");
  return (
    condition &&
    ((value, run, seen) => {
      if (whenTrue === undefined && whenFalse === undefined && seen === undefined) {
        return true;
      }
      const mine = seen && new Seen();
      const holds = run.silently(() => condition.check(value, run, mine));
      if (holds && mine !== undefined) {
        seen?.add(mine, run);
      }
      const branch = holds ? whenTrue : whenFalse;
      return (
        branch === undefined ||
        branch.check(value, run, seen) ||
        run.fail("if", `must match "${holds ? "then" : "else"}" schema`)
      );
    })
  );
};

const dependentSchemas: Applicator = (subs) => {
  const named = subs.named("dependentSchemas");
  return (
    named &&
    ((value, run, seen) => {
      if (!isJsonObject(value)) {
        return true;
      }
      run.spend(named.length);
      return run.every(
        named,
        ([trigger, { check }]) => !Object.hasOwn(value, trigger) || check(value, run, seen),
      );
    })
  );
};

const propertyNames: Applicator = (subs) => {
  const sub = subs.one("propertyNames");
  return (
    sub &&
    ((value, run) =>
      !isJsonObject(value) ||
      run.every(
        Object.keys(value),
        (name) =>
          run.at(name, name, sub.check) || run.fail("property_names", "property name must be valid", name),
      ))
  );
};

const properties: Applicator = (subs) => {
  const named = subs.named("properties");
  return (
    named &&
    ((value, run, seen) => {
      if (!isJsonObject(value)) {
        return true;
      }
      run.spend(named.length);
      return run.every(named, ([name, { check }]) => {
        if (!Object.hasOwn(value, name)) {
          return true;
        }
        seen?.members.add(name);
        return run.at(name, value[name], check);
      });
    })
  );
};

/** `patternProperties`, and `additionalProperties`, which depends on it. */
const otherMembers: Applicator = (subs, schema) => {
  const additional = subs.one("additionalProperties");
  const patterns = (subs.named("patternProperties") ?? []).map(([source, { check }]) => ({
    pattern: subs.pattern(source),
    check,
  }));
  if (additional === undefined && patterns.length === 0) {
    return undefined;
  }
  const known = new Set(Object.keys(schema["properties"] ?? {}));
  const checkMember = (value: Json, name: string, run: Run, seen: Seen | undefined): boolean => {
    run.spend(1);
    const fitting = patterns.filter(({ pattern }) => pattern.test(name, run.spend));
    if (fitting.length > 0) {
      seen?.members.add(name);
      return run.every(fitting, ({ check }) => run.at(name, value[name], check));
    }
    if (additional === undefined || known.has(name)) {
      return true;
    }
    seen?.members.add(name);
    return additional.isFalse
      ? run.fail("unknown_member", "must NOT have additional properties", name)
      : run.at(name, value[name], additional.check);
  };
  return (value, run, seen) =>
    !isJsonObject(value) || run.every(Object.keys(value), (name) => checkMember(value, name, run, seen));
};

/** `prefixItems`, and `items`, which depends on it. */
const items: Applicator = (subs) => {
  const prefix = subs.list("prefixItems") ?? [];
  const rest = subs.one("items");
  if (prefix.length === 0 && rest === undefined) {
    return undefined;
  }
  return (value, run, seen) => {
    if (!Array.isArray(value)) {
      return true;
    }
    if (seen !== undefined) {
      seen.firstItems = Math.max(seen.firstItems, prefix.length);
      seen.allItems ||= rest !== undefined;
    }
    const passes = run.every(prefix.slice(0, value.length).entries(), ([index, { check }]) =>
      run.at(index, value[index], check),
    );
    if (rest === undefined || value.length <= prefix.length || (!passes && run.isSilent)) {
      return passes;
    }
    if (rest.isFalse) {
      return run.fail("items", `must NOT have more than ${prefix.length} items`);
    }
    return (
      run.every(value.keys(), (index) => index < prefix.length || run.at(index, value[index], rest.check)) &&
      passes
    );
  };
};

const contains: Applicator = (subs, schema) => {
  const sub = subs.one("contains");
  const least = lengthOf((schema["minContains"] as JsonNumber | undefined) ?? 1);
  const most = lengthOf((schema["maxContains"] as JsonNumber | undefined) ?? Infinity);
  const detail =
    most === Infinity
      ? `must contain at least ${least} valid item(s)`
      : `must contain at least ${least} and no more than ${most} valid item(s)`;
  return (
    sub &&
    ((value, run, seen) => {
      if (!Array.isArray(value)) {
        return true;
      }
      let count = 0;
      for (const [index, item] of value.entries()) {
        const isEnough = count >= least && most === Infinity && seen === undefined;
        if (isEnough || count > most) {
          break;
        }
        if (run.silently(() => run.at(index, item, sub.check))) {
          count += 1;
          seen?.items.add(index);
        }
      }
      return (count >= least && count <= most) || run.fail("contains", detail);
    })
  );
};

/** Applies a subschema to what no other keyword has evaluated. */
function leftOver(
  { check, isFalse }: Sub,
  { code, detail }: { readonly code: string; readonly detail: string },
): (place: string | number, value: unknown, run: Run) => boolean {
  return (place, value, run) => (isFalse ? run.fail(code, detail, place) : run.at(place, value, check));
}

const unevaluatedItems: Applicator = (subs) => {
  const sub = subs.one("unevaluatedItems");
  if (sub === undefined) {
    return undefined;
  }
  const detail = "must NOT have unevaluated items";
  const checkItem = leftOver(sub, { code: "unevaluated_items", detail });
  return (value, run, seen) => {
    if (!Array.isArray(value) || seen === undefined) {
      return true;
    }
    run.spend(value.length);
    const passes = run.every(
      value.keys(),
      (index) => seen.hasItem(index) || checkItem(index, value[index], run),
    );
    seen.allItems = true;
    return passes;
  };
};

const unevaluatedProperties: Applicator = (subs) => {
  const sub = subs.one("unevaluatedProperties");
  if (sub === undefined) {
    return undefined;
  }
  const detail = "must NOT have unevaluated properties";
  const checkMember = leftOver(sub, { code: "unevaluated_properties", detail });
  return (value, run, seen) => {
    if (!isJsonObject(value) || seen === undefined) {
      return true;
    }
    const names = Object.keys(value);
    run.spend(names.length);
    const passes = run.every(names, (name) => seen.hasMember(name) || checkMember(name, value[name], run));
    seen.allMembers = true;
    return passes;
  };
};

/** In the order of evaluation. */
export const APPLICATORS: readonly Applicator[] = [
  reference,
  propertyNames,
  properties,
  otherMembers,
  items,
  contains,
  not,
  allOf,
  anyOf,
  oneOf,
  conditional,
  dependentSchemas,
];

/** These come last: they need to know what all other keywords have evaluated. */
export const UNEVALUATED: readonly Applicator[] = [unevaluatedItems, unevaluatedProperties];
