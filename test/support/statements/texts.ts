/** The texts of SQL that the program can compose, found without running it. */
import type { BindingElement } from "typescript/unstable/ast";
import { methodOf, operate } from "./methods.ts";
import { bare, type CallExpression, is, isCallable, type Node, type Program, walk } from "./program.ts";
import {
  ABSENT,
  beside,
  type Closure,
  distinct,
  eachOf,
  memberOf,
  NONE,
  numbered,
  PARAMETER,
  type Possible,
  type Scope,
  statement,
  text,
  unknown,
  type Value,
} from "./values.ts";

/** How deep expressions may be inside each other. */
const DEEPEST = 60;

/** Values that the program computes from what it is asked, with one that stands for all. */
const COMPUTED: Readonly<Record<string, string>> = {
  dateLiteral: "DATE '2026-01-01'",
  idDay: "2026-01-01",
  utcDay: "2026-01-01",
  eventId: "evt_1",
  BigInt: "1",
};

/** Evaluates expressions of the program. */
export class Texts {
  readonly #program: Program;
  readonly #known = new WeakMap<Scope, Map<Node, Value>>();
  #depth = 0;

  constructor(program: Program) {
    this.#program = program;
  }

  /** Returns the texts of the statement that a call of `query` sends. @returns undefined where one is not found */
  of(
    call: CallExpression,
    at: number,
  ): { readonly texts: readonly string[]; readonly unknown: readonly Node[] } {
    const argument = call.arguments[at];
    const value = argument === undefined ? [] : this.#value(argument, NONE);
    const texts: string[] = [];
    const missing: Node[] = [];
    const take = (each: Possible): void => {
      if (each.kind === "text" || each.kind === "statement") {
        texts.push(numbered(each.text));
      } else if (each.kind === "object") {
        (each.members.get("text")?.() ?? unknown(call)).forEach(take);
      } else if (each.kind === "unknown") {
        missing.push(each.at);
      }
    };
    value.forEach(take);
    return { texts: [...new Set(texts)], unknown: missing };
  }

  #value(written: Node, scope: Scope): Value {
    const node = bare(written);
    const known = this.#known.get(scope) ?? new Map<Node, Value>();
    this.#known.set(scope, known);
    const before = known.get(node);
    if (before !== undefined || this.#depth > DEEPEST) {
      return before ?? unknown(node);
    }
    // Until it is found: what refers to itself is not.
    known.set(node, unknown(node));
    this.#depth += 1;
    const value = distinct(this.#typed(node, scope));
    this.#depth -= 1;
    known.set(node, value);
    return value;
  }

  /** Where the value is not found, the type may name the possible ones. */
  #typed(node: Node, scope: Scope): Value {
    return this.#evaluate(node, scope).flatMap((each): Value => {
      if (each.kind !== "unknown" || each.at !== node) {
        return [each];
      }
      const name = node.getText();
      return Object.hasOwn(COMPUTED, name)
        ? text(COMPUTED[name] ?? "")
        : (this.#program.literalsOf(node)?.flatMap(text) ?? [each]);
    });
  }

  #evaluate(node: Node, scope: Scope): Value {
    if (is.isStringLiteral(node) || is.isNoSubstitutionTemplateLiteral(node) || is.isNumericLiteral(node)) {
      return text(node.text);
    }
    if (is.isTemplateExpression(node)) {
      const parts = [...node.templateSpans].map((span) => this.#value(span.expression, scope));
      return this.#template(node.head.text, [...node.templateSpans], parts);
    }
    if (is.isPrefixUnaryExpression(node)) {
      const [of] = this.#value(node.operand, scope);
      const known = of?.kind === "text" && ["true", "false"].includes(of.text) ? of.text : undefined;
      return known === undefined ? unknown(node) : text(String(known === "false"));
    }
    if (is.isTaggedTemplateExpression(node)) {
      return this.#tagged(node, scope);
    }
    if (is.isConditionalExpression(node)) {
      return [...this.#value(node.whenTrue, scope), ...this.#value(node.whenFalse, scope)];
    }
    if (is.isBinaryExpression(node)) {
      return (
        operate(
          node,
          this.#value(node.left, scope),
          this.#value(node.right, scope),
          this.inserted.bind(this),
        ) ?? unknown(node)
      );
    }
    return this.#part(node, scope);
  }

  /** Evaluates names and what consists of parts. */
  #part(node: Node, scope: Scope): Value {
    if (is.isIdentifier(node)) {
      return node.text === "undefined" ? ABSENT : this.#named(node, scope);
    }
    if (is.isArrayLiteralExpression(node)) {
      return [{ kind: "list", items: node.elements.flatMap((element) => this.#element(element, scope)) }];
    }
    if (is.isObjectLiteralExpression(node)) {
      return this.#object(node, scope);
    }
    if (is.isPropertyAccessExpression(node)) {
      return memberOf(this.#value(node.expression, scope), node.name.text, node);
    }
    if (is.isElementAccessExpression(node)) {
      return this.#indexed(node, scope);
    }
    if (is.isCallExpression(node)) {
      return this.#called(node, scope);
    }
    if (isCallable(node)) {
      return [{ kind: "function", callable: node, scope }];
    }
    return unknown(node);
  }

  #template(
    head: string,
    spans: readonly { readonly literal: { readonly text: string } }[],
    parts: readonly Value[],
  ): Value {
    return beside(parts).map((row): Possible => {
      let composed = head;
      for (const [at, each] of row.entries()) {
        const piece = this.inserted(each);
        if (typeof piece !== "string") {
          return { kind: "unknown", at: piece };
        }
        composed += piece + (spans[at]?.literal.text ?? "");
      }
      return { kind: "text", text: composed };
    });
  }

  inserted(each: Possible): string | Node {
    if (each.kind === "text" || each.kind === "statement") {
      return each.text;
    }
    if (each.kind === "unknown") {
      const type = this.#program.checker.getTypeAtLocation(each.at);
      return type !== undefined && this.#program.isNumber(type) ? "1" : each.at;
    }
    return "";
  }

  #tagged(node: Node & { readonly tag: Node; readonly template: Node }, scope: Scope): Value {
    const { template } = node;
    if (!is.isTemplateExpression(template)) {
      return is.isNoSubstitutionTemplateLiteral(template) ? [statement(template.text)] : unknown(node);
    }
    const parts = template.templateSpans.map((span): Value =>
      this.#program.isStatement(span.expression)
        ? this.#value(span.expression, scope)
        : [statement(PARAMETER)],
    );
    const composed = this.#template(template.head.text, template.templateSpans, parts);
    return composed.map((each) => (each.kind === "text" ? statement(each.text) : each));
  }

  #element(element: Node, scope: Scope): readonly Value[] {
    if (!is.isSpreadElement(element)) {
      return [this.#value(element, scope)];
    }
    return this.#value(element.expression, scope).flatMap((each) =>
      each.kind === "list" ? each.items : [[each]],
    );
  }

  #object(node: Node & { readonly properties: Iterable<Node> }, scope: Scope): Value {
    const members = new Map<string, () => Value>();
    for (const property of node.properties) {
      if (is.isPropertyAssignment(property)) {
        members.set(property.name.getText().replaceAll('"', ""), () =>
          this.#value(property.initializer, scope),
        );
      } else if (is.isShorthandPropertyAssignment(property)) {
        members.set(property.name.getText(), () => this.#value(property.name, scope));
      } else if (is.isSpreadAssignment(property)) {
        const spread = this.#value(property.expression, scope);
        const texts = spread.filter(({ kind }) => kind === "statement" || kind === "unknown");
        if (texts.length > 0) {
          members.set("text", () => texts);
        }
        for (const each of spread) {
          if (each.kind === "object") {
            each.members.forEach((value, name) => members.set(name, value));
          }
        }
      } else if (is.isMethodDeclaration(property)) {
        members.set(property.name.getText(), () => [{ kind: "function", callable: property, scope }]);
      }
    }
    return [{ kind: "object", members }];
  }

  #indexed(
    node: Node & { readonly expression: Node; readonly argumentExpression: Node },
    scope: Scope,
  ): Value {
    const keys = this.#value(node.argumentExpression, scope);
    const found = this.#value(node.expression, scope).flatMap((each): Value => {
      if (each.kind === "list") {
        return each.items.flat();
      }
      if (each.kind !== "object") {
        return unknown(node);
      }
      const named = keys.flatMap((key) =>
        key.kind === "text" ? (each.members.get(key.text)?.() ?? []) : [],
      );
      return named.length > 0 ? named : [...each.members.values()].flatMap((member) => member());
    });
    return found.length === 0 ? unknown(node) : found;
  }

  /** Returns the value of a name: of a parameter, a constant, or a part of one. */
  #named(node: Node, scope: Scope): Value {
    const declaration = this.#program.declarationOf(node);
    return declaration === undefined ? unknown(node) : this.#declared(declaration, scope, node);
  }

  #declared(declaration: Node, scope: Scope, node: Node): Value {
    const bound = scope.get(declaration);
    if (bound !== undefined) {
      return bound.every(({ kind }) => kind === "unknown") ? unknown(node) : bound;
    }
    if (is.isVariableDeclaration(declaration) && declaration.initializer !== undefined) {
      return this.#withPushed(declaration, this.#value(declaration.initializer, scope), scope);
    }
    if (isCallable(declaration)) {
      return [{ kind: "function", callable: declaration, scope }];
    }
    if (is.isParameterDeclaration(declaration)) {
      const literals = this.#program.literalsOf(declaration.name);
      return literals?.flatMap(text) ?? this.#passed(declaration, node);
    }
    if (is.isBindingElement(declaration)) {
      return this.#bindingElement(declaration, scope, node);
    }
    // Of a loop: each of the list.
    if (is.isVariableDeclaration(declaration) && is.isForOfStatement(declaration.parent.parent)) {
      return eachOf(this.#value(declaration.parent.parent.expression, scope), node);
    }
    return unknown(node);
  }

  #bindingElement(declaration: BindingElement, scope: Scope, node: Node): Value {
    const pattern = declaration.parent;
    const whole = this.#declared(pattern.parent, scope, node);
    const found = is.isArrayBindingPattern(pattern)
      ? whole.flatMap((each): Value =>
          each.kind === "list"
            ? (each.items[[...pattern.elements].indexOf(declaration as never)] ?? [])
            : unknown(node),
        )
      : memberOf(whole, (declaration.propertyName ?? declaration.name)?.getText() ?? "", node);
    const otherwise =
      declaration.initializer === undefined ? [] : this.#value(declaration.initializer, scope);
    const present = found.filter(({ kind }) => kind !== "absent");
    const optional = present.length < found.length || present.some(({ kind }) => kind === "unknown");
    const value = optional ? [...present, ...otherwise] : present;
    return value.length > 0 ? value : ABSENT;
  }

  /** Adds what is pushed to a list after its declaration. */
  #withPushed(declaration: Node & { readonly name: Node }, value: Value, scope: Scope): Value {
    if (!value.some(({ kind }) => kind === "list") || !is.isIdentifier(declaration.name)) {
      return value;
    }
    const { name } = declaration;
    const pushed: Value[] = [];
    walk(declaration.parent.parent.parent, (node) => {
      if (
        is.isCallExpression(node) &&
        is.isPropertyAccessExpression(node.expression) &&
        node.expression.name.text === "push" &&
        node.expression.expression.getText() === name.text
      ) {
        pushed.push(...[...node.arguments].flatMap((argument) => this.#element(argument, scope)));
      }
    });
    return value.map((each) =>
      each.kind === "list" ? { kind: "list", items: [...each.items, ...pushed] } : each,
    );
  }

  /** Returns what callers pass for a parameter that has no value yet. */
  #passed(parameter: Node, node: Node): Value {
    const callable = parameter.parent;
    if (!isCallable(callable) || !is.isParameterDeclaration(parameter)) {
      return unknown(node);
    }
    const at = [...callable.parameters].indexOf(parameter);
    const owner =
      is.isVariableDeclaration(callable.parent) ||
      is.isFunctionDeclaration(callable) ||
      is.isMethodDeclaration(callable);
    const passed = owner
      ? this.#program.callersOf(callable).flatMap((call) => {
          const argument = call.arguments[at];
          if ([...call.arguments].some((each) => is.isSpreadElement(each))) {
            return unknown(node);
          }
          return argument === undefined
            ? parameter.initializer
              ? this.#value(parameter.initializer, NONE)
              : ABSENT
            : this.#value(argument, NONE);
        })
      : [];
    const known = distinct(passed.filter(({ kind }) => kind !== "unknown"));
    return known.length === 0 || known.length < distinct(passed).length
      ? known.length > 0
        ? [...known, ...unknown(node)]
        : unknown(node)
      : known;
  }

  #called(node: CallExpression, scope: Scope): Value {
    const callee = bare(node.expression);
    const name = is.isPropertyAccessExpression(callee) ? callee.name.text : callee.getText();
    if (Object.hasOwn(COMPUTED, name)) {
      return text(COMPUTED[name] ?? "");
    }
    const given = [...node.arguments];
    if (["String", "raw"].includes(name) && given[0] !== undefined) {
      const value = this.#value(given[0], scope);
      return value.map((each) => (each.kind === "text" && name === "raw" ? statement(each.text) : each));
    }
    if (is.isPropertyAccessExpression(callee)) {
      const built = methodOf(this.#value(callee.expression, scope), {
        evaluation: { apply: this.apply.bind(this), inserted: this.inserted.bind(this) },
        node,
        given: given.map((argument) => this.#value(argument, scope)),
      });
      if (built !== undefined) {
        return built;
      }
    }
    const functions = this.#value(callee, scope);
    const callable = functions.length === 1 && functions[0]?.kind === "function" ? functions[0] : undefined;
    const declared = callable ?? this.#ownFunction(node, scope);
    return declared === undefined
      ? unknown(node)
      : this.apply(
          declared,
          given.map((argument) => this.#value(argument, scope)),
          node,
        );
  }

  #ownFunction(node: CallExpression, scope: Scope): Closure | undefined {
    const callable = this.#program.calleeOf(node);
    return callable === undefined ? undefined : { kind: "function", callable, scope };
  }

  apply({ callable, scope }: Closure, given: readonly Value[], at: Node): Value {
    const computed = is.isFunctionDeclaration(callable) ? (callable.name?.text ?? "") : "";
    if (Object.hasOwn(COMPUTED, computed)) {
      return text(COMPUTED[computed] ?? "");
    }
    const inner = new Map(scope);
    callable.parameters.forEach((parameter, place) => {
      const value =
        given[place] ?? (parameter.initializer ? this.#value(parameter.initializer, scope) : ABSENT);
      inner.set(parameter, value);
    });
    const { body } = callable;
    if (body === undefined) {
      return unknown(at);
    }
    if (!is.isBlock(body)) {
      return this.#value(body, inner);
    }
    const returned: Possible[] = [];
    walk(body, (node) => {
      if (is.isReturnStatement(node) && node.expression !== undefined) {
        returned.push(...this.#value(node.expression, inner));
      }
      return !isCallable(node);
    });
    return returned.length === 0 ? unknown(at) : returned;
  }
}
