/** What the expressions of a program can be, as far as it matters for texts. */
import type { Callable, Node } from "./program.ts";

/** Stands for a parameter until the statement is whole. */
export const PARAMETER = "\0";

/** What an expression can be, one of several. */
export type Possible =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "statement"; readonly text: string }
  | { readonly kind: "list"; readonly items: readonly Value[] }
  | { readonly kind: "object"; readonly members: ReadonlyMap<string, () => Value> }
  | { readonly kind: "function"; readonly callable: Callable; readonly scope: Scope }
  | { readonly kind: "absent" }
  | { readonly kind: "unknown"; readonly at: Node };
export type Value = readonly Possible[];
export type Closure = Possible & { readonly kind: "function" };
/** Values of parameters, by their declaration. */
export type Scope = ReadonlyMap<Node, Value>;

export const text = (value: string): Value => [{ kind: "text", text: value }];
export const statement = (value: string): Possible => ({ kind: "statement", text: value });
export const unknown = (at: Node): Value => [{ kind: "unknown", at }];
export const ABSENT: Value = [{ kind: "absent" }];
export const NONE: Scope = new Map();

export function distinct(value: Value): Value {
  const keys = new Set<string>();
  return value.filter((each) => {
    const key = "text" in each ? each.kind + each.text : each.kind === "absent" ? "" : undefined;
    return key === undefined || (!keys.has(key) && keys.add(key).size > 0);
  });
}

/** More combinations are not made: then each possibility occurs, but not each with each. */
const MOST_VARIANTS = 64;

function leastCommonMultiple(one: number, other: number): number {
  let multiple = one;
  while (multiple % other !== 0) {
    multiple += one;
  }
  return multiple;
}

/**
 * Combines each possibility of each part at least once. Two choices of the same condition come in the same order, so
 * what belongs together stays together.
 */
export function beside(parts: readonly Value[]): readonly (readonly Possible[])[] {
  const lengths = parts.map((part) => Math.max(1, part.length));
  const whole = lengths.reduce(leastCommonMultiple, 1);
  const count = whole > MOST_VARIANTS ? Math.max(...lengths) : whole;
  return Array.from({ length: count }, (_, at) =>
    parts.map((part) => part[at % part.length] ?? ({ kind: "absent" } as const)),
  );
}

/** Numbers the parameters. */
export function numbered(composed: string): string {
  let number = 0;
  return composed.replaceAll(PARAMETER, () => `$${(number += 1)}`);
}

/** Returns a member of what may be an object. */
export function memberOf(of: Value, name: string, node: Node): Value {
  const found = of.flatMap((each): Value => {
    if (each.kind === "object") {
      return each.members.get(name)?.() ?? ABSENT;
    }
    if (each.kind === "statement" && name === "text") {
      return [{ kind: "text", text: each.text }];
    }
    return each.kind === "absent" ? [] : unknown(node);
  });
  return found.length === 0 ? unknown(node) : found;
}

/** Returns each element of a list, as one of several. */
export function eachOf(list: Value, node: Node): Value {
  return list.flatMap((one) =>
    one.kind === "list" && one.items.length > 0 ? one.items.flat() : unknown(node),
  );
}
