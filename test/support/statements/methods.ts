/** The methods of lists and texts that compose statements. */
import type { BinaryExpression } from "typescript/unstable/ast";
import { bare, type CallExpression, is, type Node, SyntaxKind } from "./program.ts";
import { beside, type Closure, type Possible, text, unknown, type Value } from "./values.ts";

/** What the methods need of the evaluation. */
export interface Evaluation {
  apply(run: Closure, given: readonly Value[], at: Node): Value;
  /** Returns the text that a value becomes within another one, or the node without a known value. */
  inserted(each: Possible): string | Node;
}

interface Called {
  readonly evaluation: Evaluation;
  readonly node: CallExpression;
  readonly given: readonly Value[];
}

/** Puts texts together. */
function together(
  parts: readonly Value[],
  separator: string,
  { inserted }: Pick<Evaluation, "inserted">,
): Value {
  return beside(parts).map((row): Possible => {
    const pieces: string[] = [];
    for (const each of row.filter(({ kind }) => kind !== "absent")) {
      const piece = inserted(each);
      if (typeof piece !== "string") {
        return { kind: "unknown", at: piece };
      }
      pieces.push(piece);
    }
    return { kind: "text", text: pieces.join(separator) };
  });
}

function map(items: readonly Value[], { evaluation, node, given }: Called): Value[] {
  const run = runOf(given[0]);
  return items.map((item, at) =>
    run ? evaluation.apply(run, [item, text(String(at))], node) : unknown(node),
  );
}

function runOf(value: Value | undefined): Closure | undefined {
  return value?.find((each) => each.kind === "function");
}

function filter(items: readonly Value[], { evaluation, node, given }: Called): Value[] {
  const run = runOf(given[0]);
  return items
    .map((item) => item.filter(({ kind }) => kind !== "absent"))
    .filter((item) => {
      const [kept] = item.length === 1 && run !== undefined ? evaluation.apply(run, [item], node) : [];
      return item.length > 0 && !(kept?.kind === "text" && kept.text === "false");
    });
}

function includes(items: readonly Value[], { node, given }: Called): Value {
  const known = items.flat().flatMap((each) => (each.kind === "text" ? [each.text] : []));
  const wanted = given[0]?.[0];
  const whole = known.length === items.length && wanted?.kind === "text";
  return whole ? text(String(known.includes(wanted.text))) : unknown(node);
}

function reduce(items: readonly Value[], { evaluation, node, given }: Called): Value {
  const run = runOf(given[0]);
  const [start = [], ...others] = given[1] === undefined ? items : [given[1], ...items];
  return others.reduce(
    (sum, item) => (run ? evaluation.apply(run, [sum, item], node) : unknown(node)),
    start,
  );
}

const OF_LISTS: Readonly<Record<string, (items: readonly Value[], called: Called) => Value>> = {
  map: (items, called) => [{ kind: "list", items: map(items, called) }],
  flatMap: (items, called) => [
    {
      kind: "list",
      items: map(items, called).flatMap((value) =>
        value.flatMap((each) => (each.kind === "list" ? each.items : [[each]])),
      ),
    },
  ],
  filter: (items, called) => [{ kind: "list", items: filter(items, called) }],
  join: (items, { evaluation, given }) => {
    const separator = given[0]?.[0];
    return together(items, separator?.kind === "text" ? separator.text : ",", evaluation);
  },
  reduce,
  includes,
  toSorted: (items) => [{ kind: "list", items }],
};

function replaceAll(of: string, { evaluation, node, given }: Called): string {
  const [pattern] = node.arguments;
  const by = given[1] ?? [];
  const run = runOf(by);
  const [, source = "", flags = ""] = /^\/(.*)\/(\w*)$/su.exec(pattern?.getText() ?? "") ?? [];
  return of.replaceAll(new RegExp(source, flags), (found) => {
    const [put] = run === undefined ? by : evaluation.apply(run, [text(found)], node);
    return put?.kind === "text" ? put.text : "";
  });
}

const OF_TEXTS: Readonly<Record<string, (of: string, called: Called) => string>> = {
  replaceAll,
  trim: (of) => of.trim(),
  toLowerCase: (of) => of.toLowerCase(),
  toString: (of: string) => of,
};

function entriesOf(name: string, of: Value, node: Node): Value {
  return of.map((each): Possible => {
    if (each.kind !== "object" || name === "fromEntries") {
      return { kind: "unknown", at: node };
    }
    const items = [...each.members].map(([key, value]): Value =>
      name === "keys"
        ? text(key)
        : name === "values"
          ? value()
          : [{ kind: "list", items: [text(key), value()] }],
    );
    return { kind: "list", items };
  });
}

/** Returns what an operator makes of two values. */
export function operate(
  { left: written, operatorToken: { kind } }: BinaryExpression,
  left: Value,
  right: Value,
  inserted: Evaluation["inserted"],
): Value | undefined {
  if (kind === SyntaxKind.PlusToken) {
    return together([left, right], "", { inserted });
  }
  if (kind === SyntaxKind.QuestionQuestionToken || kind === SyntaxKind.BarBarToken) {
    // What a cache knows, it was given.
    const cached = /\.get\(/u.test(written.getText());
    return [...left.filter((each) => each.kind !== "absent" && !cached), ...right];
  }
  if (kind === SyntaxKind.AmpersandAmpersandToken) {
    return left.flatMap((each): Value =>
      each.kind !== "text" ? [...right, ...text("")] : each.text === "" ? [each] : right,
    );
  }
  return undefined;
}

/** Returns what a method gives; undefined for one that is not known. */
export function methodOf(of: Value, called: Called): Value | undefined {
  const callee = bare(called.node.expression);
  const name = is.isPropertyAccessExpression(callee) ? callee.name.text : "";
  if (callee.getText().startsWith("Object.")) {
    return entriesOf(name, called.given[0] ?? [], called.node);
  }
  if (Object.hasOwn(OF_TEXTS, name)) {
    return of.map((each) =>
      each.kind === "text"
        ? { kind: "text", text: OF_TEXTS[name]?.(each.text, called) ?? "" }
        : { kind: "unknown", at: called.node },
    );
  }
  if (!Object.hasOwn(OF_LISTS, name)) {
    return undefined;
  }
  const lists = of.flatMap((each) => (each.kind === "list" ? [each.items] : []));
  // Of a list that is not known, each element is the same to the text.
  const items = lists.length > 0 ? lists : [[unknown(called.node)]];
  return items.flatMap((list) => OF_LISTS[name]?.(list, called) ?? []);
}
