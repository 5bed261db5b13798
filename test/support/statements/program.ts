/** The program as the compiler sees it: nodes, and what names mean. */
import { join } from "node:path";
import * as is from "typescript/unstable/ast/is";
import { type Node, SyntaxKind } from "typescript/unstable/ast";
import type {
  ArrowFunction,
  CallExpression,
  FunctionDeclaration,
  FunctionExpression,
  MethodDeclaration,
} from "typescript/unstable/ast";
import {
  API,
  type Checker,
  type NodeHandle,
  type Project,
  type Symbol,
  type Type,
  TypeFlags,
} from "typescript/unstable/sync";

export const ROOT = join(import.meta.dirname, "..", "..", "..");

/** A function with a body. */
export type Callable = (ArrowFunction | FunctionDeclaration | FunctionExpression | MethodDeclaration) & Node;

export function isCallable(node: Node | undefined): node is Callable {
  return (
    node !== undefined &&
    (is.isArrowFunction(node) ||
      is.isFunctionDeclaration(node) ||
      is.isFunctionExpression(node) ||
      is.isMethodDeclaration(node))
  );
}

/** Calls `visit` with each node below, in order; not below those for which it returns false. */
export function walk(node: Node, visit: (node: Node) => boolean | void): void {
  node.forEachChild((child) => {
    if (visit(child) !== false) {
      walk(child, visit);
    }
    return undefined;
  });
}

/** Removes what does not change a value: parentheses, types, await. */
export function bare(node: Node): Node {
  let inner = node;
  while (
    is.isParenthesizedExpression(inner) ||
    is.isAsExpression(inner) ||
    is.isSatisfiesExpression(inner) ||
    is.isNonNullExpression(inner) ||
    is.isAwaitExpression(inner)
  ) {
    inner = inner.expression;
  }
  return inner;
}

/** The name of the function around a node, as its file calls it. */
export function nameAround(node: Node): string {
  let name = "";
  for (let outer: Node | undefined = node; outer !== undefined; outer = outer.parent) {
    if (
      (is.isFunctionDeclaration(outer) || is.isMethodDeclaration(outer) || is.isVariableDeclaration(outer)) &&
      outer.name !== undefined
    ) {
      name = outer.name.getText();
    }
  }
  return name;
}

/** The sources below src and activities, with the compiler's knowledge about them. Close it after use. */
export class Program {
  readonly #api = new API({ cwd: ROOT });
  readonly #project: Project;
  readonly checker: Checker;
  readonly calls: readonly CallExpression[];
  readonly #callers = new Map<Node, CallExpression[]>();
  readonly #resolved = new Map<NodeHandle["path"], Map<number, Node | undefined>>();
  readonly #symbols = new Map<Node, Symbol | undefined>();

  constructor() {
    const config = join(ROOT, "tsconfig.json");
    const project = this.#api.updateSnapshot({ openProjects: [config] }).getProject(config);
    if (project === undefined) {
      throw new Error(`${config} is no project`);
    }
    this.#project = project;
    this.checker = project.checker;
    const calls: CallExpression[] = [];
    for (const file of this.files()) {
      walk(file, (node) => void (is.isCallExpression(node) && calls.push(node)));
    }
    this.calls = calls;
    this.#resolveNames(calls);
    for (const call of calls) {
      const callee = this.calleeOf(call);
      if (callee !== undefined) {
        this.#callers.set(callee, [...(this.#callers.get(callee) ?? []), call]);
      }
    }
  }

  files(): readonly Node[] {
    return this.#project.program
      .getSourceFileNames()
      .filter((name) => name.startsWith(join(ROOT, "src/")) || name.startsWith(join(ROOT, "activities/")))
      .flatMap((name) => this.#project.program.getSourceFile(name) ?? []);
  }

  /** Resolves the names of all calls in one request to the compiler. */
  #resolveNames(calls: readonly CallExpression[]): void {
    const names = calls.map((call) => calleeName(call));
    const symbols = this.checker.getSymbolAtLocation(names);
    names.forEach((name, at) => this.#symbols.set(name, symbols[at]));
  }

  symbolOf(node: Node): Symbol | undefined {
    if (!this.#symbols.has(node)) {
      this.#symbols.set(node, this.checker.getSymbolAtLocation(node));
    }
    return this.#symbols.get(node);
  }

  /** Returns where a symbol is declared, in this program's own sources or elsewhere. */
  declarationOfSymbol(symbol: Symbol | undefined): Node | undefined {
    if (symbol === undefined) {
      return undefined;
    }
    const handle = symbol.valueDeclaration ?? symbol.declarations[0];
    if (handle === undefined) {
      return undefined;
    }
    const known = this.#resolved.get(handle.path) ?? new Map<number, Node | undefined>();
    this.#resolved.set(handle.path, known);
    if (!known.has(handle.index)) {
      const node = handle.resolve();
      const aliased = node !== undefined && (is.isImportSpecifier(node) || is.isExportSpecifier(node));
      known.set(
        handle.index,
        aliased ? this.declarationOfSymbol(this.checker.getAliasedSymbol(symbol)) : node,
      );
    }
    return known.get(handle.index);
  }

  declarationOf(node: Node): Node | undefined {
    if (is.isIdentifier(node) && is.isShorthandPropertyAssignment(node.parent)) {
      return this.declarationOfSymbol(this.checker.getShorthandAssignmentValueSymbol(node.parent));
    }
    return this.declarationOfSymbol(this.symbolOf(node));
  }

  /** Returns the function that a call calls, if it is written in the sources. */
  calleeOf(call: CallExpression): Callable | undefined {
    return this.functionOf(this.declarationOf(calleeName(call)));
  }

  functionOf(declaration: Node | undefined): Callable | undefined {
    if (declaration !== undefined && is.isVariableDeclaration(declaration) && declaration.initializer) {
      const value = bare(declaration.initializer);
      return isCallable(value) ? value : undefined;
    }
    return isCallable(declaration) ? declaration : undefined;
  }

  callersOf(callee: Node): readonly CallExpression[] {
    return this.#callers.get(callee) ?? [];
  }

  /** Returns the strings that the type of an expression permits, if it permits only these. */
  literalsOf(node: Node): readonly string[] | undefined {
    const types = partsOf(this.checker.getTypeAtLocation(node));
    const texts = types.flatMap((each) =>
      each.isLiteralType() && typeof each.value === "string" ? [each.value] : [],
    );
    return texts.length > 0 && texts.length === types.length ? texts : undefined;
  }

  /** Whether a type is that of numbers. */
  isNumber(type: Type): boolean {
    return (type.flags & (TypeFlags.Number | TypeFlags.NumberLiteral)) !== 0;
  }

  /** Whether an expression is a part of a statement, not a value. */
  isStatement(node: Node): boolean {
    const types = partsOf(this.checker.getTypeAtLocation(node));
    return types.some((each) => each.getSymbol()?.name === "Statement");
  }

  /** The place of a node: file, function and line. */
  placeOf(node: Node): string {
    const file = node.getSourceFile();
    const line = file.text.slice(0, node.getStart()).split("\n").length;
    return `${file.fileName.slice(ROOT.length + 1)}:${line} ${nameAround(node)}`;
  }

  close(): void {
    this.#api.close();
  }
}

/** Returns the alternatives of a type: itself, unless it is a union. */
export function partsOf(type: Type | undefined): readonly Type[] {
  return type?.isUnionType() === true ? (type.getTypes() ?? []) : type === undefined ? [] : [type];
}

export function calleeName(call: CallExpression): Node {
  const callee = bare(call.expression);
  return is.isPropertyAccessExpression(callee) ? callee.name : callee;
}

export type { CallExpression, Node };
export { is, SyntaxKind };
