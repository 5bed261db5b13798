/** The database roles that a statement can run as, found from where its pool is opened. */
import { SERVICE_ROLES, type ServiceRole } from "#database/pool.ts";
import {
  bare,
  type CallExpression,
  is,
  isCallable,
  type Node,
  partsOf,
  type Program,
  SyntaxKind,
  walk,
} from "./program.ts";
import type { Symbol, Type } from "typescript/unstable/sync";

const CONNECTIONS = new Set(["Pool", "PoolClient", "Queryable", "ClientBase", "Client", "BoundedPool"]);
/** How many objects a pool may be inside of. */
const NESTED = 3;

/** Where a connection comes from: roles, and other expressions or declarations. */
interface Sources {
  readonly roles: ServiceRole[];
  readonly from: Node[];
}

function isRole(text: string | undefined): text is ServiceRole {
  return SERVICE_ROLES.some((role) => role === text);
}

/** Follows connections from where they are used to where their pools are opened. */
export class Roles {
  readonly #program: Program;
  /** What flows into a declared property, parameter or variable. */
  readonly #into = new Map<Node, Set<Node>>();
  /** Calls through a declared property or parameter. */
  readonly #calledThrough = new Map<Node, CallExpression[]>();
  readonly #kinds = new Map<number, boolean>();

  constructor(program: Program) {
    this.#program = program;
    for (const file of program.files()) {
      walk(file, (node) => {
        this.#note(node);
      });
    }
  }

  /** Returns the roles of a connection. */
  of(connection: Node): ReadonlySet<ServiceRole> {
    const roles = new Set<ServiceRole>();
    const seen = new Set<Node>();
    const open = [connection];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (!seen.has(node)) {
        seen.add(node);
        const { roles: found, from } = this.#sources(node);
        found.forEach((role) => roles.add(role));
        open.push(...from);
      }
    }
    return roles;
  }

  #add(target: Node | undefined, source: Node | undefined): void {
    if (target !== undefined && source !== undefined && target !== source) {
      const known = this.#into.get(target) ?? new Set();
      this.#into.set(target, known.add(source));
    }
  }

  /** Notes what a node makes flow: arguments, members of objects, values of variables. */
  #note(node: Node): void {
    if (is.isCallExpression(node) || is.isNewExpression(node)) {
      this.#noteCall(node as CallExpression);
    } else if (is.isObjectLiteralExpression(node)) {
      const type = this.#program.checker.getContextualType(node);
      for (const property of node.properties) {
        this.#noteMember(type, property);
      }
    } else if (is.isVariableDeclaration(node) && node.type !== undefined && node.initializer !== undefined) {
      this.#flow(this.#typeOf(node.name), node.initializer);
    } else if (is.isReturnStatement(node) && node.expression !== undefined) {
      this.#flow(this.#program.checker.getContextualType(node.expression), node.expression);
    } else if (is.isBinaryExpression(node) && node.operatorToken.kind === SyntaxKind.EqualsToken) {
      const target = is.isPropertyAccessExpression(node.left) ? node.left.name : node.left;
      if (this.#holds(this.#typeOf(node.right), 0)) {
        this.#add(this.#program.declarationOf(target), node.right);
      }
      this.#flow(this.#typeOf(node.left), node.right);
    }
  }

  #noteCall(call: CallExpression): void {
    const { checker } = this.#program;
    const declaration = checker.getResolvedSignature(call)?.declaration?.resolve();
    const parameters = (declaration as { parameters?: Iterable<Node> } | undefined)?.parameters;
    const own = declaration?.getSourceFile().fileName.includes("node_modules") === false;
    const named = is.isPropertyAccessExpression(call.expression) ? call.expression.name : call.expression;
    const through = this.#program.declarationOf(named);
    if (through !== undefined) {
      this.#calledThrough.set(through, [...(this.#calledThrough.get(through) ?? []), call]);
    }
    if (!own || parameters === undefined) {
      return;
    }
    const list = [...parameters];
    (call.arguments ?? []).forEach((argument, at) => {
      const parameter = list[at];
      if (parameter !== undefined) {
        this.#add(parameter, argument);
        this.#flow(this.#typeOf(parameter), argument);
      }
    });
  }

  #noteMember(type: Type | undefined, property: Node): void {
    const { checker } = this.#program;
    if (is.isSpreadAssignment(property)) {
      this.#flow(type, property.expression);
      return;
    }
    if (!is.isPropertyAssignment(property) && !is.isShorthandPropertyAssignment(property)) {
      return;
    }
    const value = is.isPropertyAssignment(property) ? property.initializer : property.name;
    const target = this.#memberOf(type, property.name.getText());
    for (const handle of target?.declarations ?? []) {
      this.#add(handle.resolve(), value);
    }
    this.#add(property, value);
    if (target !== undefined && !is.isObjectLiteralExpression(value)) {
      this.#flow(checker.getTypeOfSymbol(target), value);
    }
  }

  /** Notes that an object of one type becomes one of another: members of the same name are the same. */
  #flow(target: Type | undefined, value: Node, depth = 0): void {
    if (target === undefined || is.isObjectLiteralExpression(bare(value)) || isCallable(bare(value))) {
      return;
    }
    this.#flowTypes(target, this.#typeOf(value), depth);
  }

  #flowTypes(target: Type, source: Type | undefined, depth: number): void {
    const { checker } = this.#program;
    if (source === undefined || source === target || depth > NESTED || !this.#holds(target, 0)) {
      return;
    }
    for (const member of this.#members(target)) {
      const type = checker.getTypeOfSymbol(member);
      const from =
        type === undefined || !this.#holds(type, 0)
          ? undefined
          : checker.getPropertyOfType(source, member.name);
      if (from !== undefined) {
        this.#addAll(member, from);
      }
      if (type !== undefined && from !== undefined && !this.#isConnection(type)) {
        this.#flowTypes(type, checker.getTypeOfSymbol(from), depth + 1);
      }
    }
  }

  #addAll(target: Symbol, source: Symbol): void {
    for (const handle of target.declarations) {
      for (const origin of source.declarations) {
        this.#add(handle.resolve(), origin.resolve());
      }
    }
  }

  #typeOf(node: Node): Type | undefined {
    try {
      return this.#program.checker.getTypeAtLocation(node);
    } catch {
      // The compiler does not type parts of an assignment's pattern.
      return undefined;
    }
  }

  #isConnection(type: Type): boolean {
    const names = [type.getAliasSymbol()?.name, type.getSymbol()?.name];
    return names.some((name) => name !== undefined && CONNECTIONS.has(name));
  }

  /** Returns a member of a type. What an async function returns may also be a promise of it. */
  #memberOf(type: Type | undefined, name: string): Symbol | undefined {
    return partsOf(type)
      .map((part) => this.#program.checker.getPropertyOfType(part, name))
      .find(Boolean);
  }

  #members(type: Type): ReturnType<Program["checker"]["getPropertiesOfType"]> {
    return partsOf(type).flatMap((part) => [...this.#program.checker.getPropertiesOfType(part)]);
  }

  /** Whether a value of this type is a connection, or has one inside. */
  #holds(type: Type | undefined, depth: number): boolean {
    if (type === undefined || depth > NESTED) {
      return false;
    }
    const known = this.#kinds.get(type.id);
    if (known !== undefined) {
      return known;
    }
    this.#kinds.set(type.id, false);
    const found = partsOf(type).some(
      (part) =>
        this.#isConnection(part) ||
        (this.#isOwnObject(part) &&
          this.#program.checker
            .getPropertiesOfType(part)
            .some((member) => this.#holds(this.#program.checker.getTypeOfSymbol(member), depth + 1))),
    );
    this.#kinds.set(type.id, found);
    return found;
  }

  /** Types of libraries hold no pools of the service, and many members. */
  #isOwnObject(type: Type): boolean {
    const declared =
      type.getSymbol()?.declarations[0]?.path ?? type.getAliasSymbol()?.declarations[0]?.path ?? "";
    return (
      (type.isObjectType() &&
        !type.isLiteralType() &&
        /\/(?:src|activities)\//u.test(declared) &&
        !declared.includes("node_modules")) ||
      (type.getAliasSymbol() !== undefined && type.isObjectType() && !/node_modules/u.test(declared)) ||
      type.isIntersectionType()
    );
  }

  #sources(node: Node): Sources {
    const role = actingAs(node);
    if (role !== undefined) {
      return { roles: [role], from: [] };
    }
    const flown = [...(this.#into.get(node) ?? [])];
    const here = this.#here(bare(node));
    return { roles: here.roles, from: [...flown, ...here.from] };
  }

  #here(node: Node): Sources {
    if (is.isIdentifier(node) || is.isPropertyAccessExpression(node)) {
      const declaration = this.#program.declarationOf(is.isIdentifier(node) ? node : node.name);
      return { roles: [], from: declaration === undefined ? [] : [declaration] };
    }
    if (is.isCallExpression(node)) {
      return this.#opened(node);
    }
    if (is.isConditionalExpression(node)) {
      return { roles: [], from: [node.whenTrue, node.whenFalse] };
    }
    if (is.isBinaryExpression(node)) {
      return { roles: [], from: [node.left, node.right] };
    }
    if (is.isVariableDeclaration(node) && node.initializer !== undefined) {
      return { roles: [], from: [node.initializer] };
    }
    if (is.isBindingElement(node)) {
      return { roles: [], from: this.#bound(node) };
    }
    if (is.isParameterDeclaration(node)) {
      return { roles: [], from: this.#callback(node) };
    }
    if (is.isPropertyAssignment(node)) {
      return { roles: [], from: [node.initializer] };
    }
    if (is.isShorthandPropertyAssignment(node)) {
      return this.#here(node.name);
    }
    return { roles: [], from: [] };
  }

  /** A pool that a call opens, or what a function of the program returns. */
  #opened(call: CallExpression): Sources {
    const named = call.expression.getText();
    if (named === "createPool") {
      return { roles: rolesIn(call, this.#program), from: [] };
    }
    const [first] = call.arguments;
    const literals = first === undefined ? undefined : this.#program.literalsOf(first);
    const callee = this.#program.calleeOf(call);
    if (callee?.body?.getText().includes("createPool(") === true && literals?.every(isRole) === true) {
      return { roles: literals.filter(isRole), from: [] };
    }
    const from: Node[] = [];
    if (callee?.body !== undefined && !is.isBlock(callee.body)) {
      from.push(callee.body);
    } else if (callee?.body !== undefined) {
      walk(callee.body, (inner) => {
        if (is.isReturnStatement(inner) && inner.expression !== undefined) {
          from.push(inner.expression);
        }
        return !isCallable(inner);
      });
    }
    return { roles: [], from };
  }

  /** A part of a pattern is that member of what is taken apart. */
  #bound(
    element: Node & { readonly name?: Node | undefined; readonly propertyName?: Node | undefined },
  ): Node[] {
    const pattern = element.parent;
    if (is.isArrayBindingPattern(pattern)) {
      const at = [...pattern.elements].indexOf(element as never);
      const list = is.isVariableDeclaration(pattern.parent) ? pattern.parent.initializer : undefined;
      const items = list !== undefined && is.isArrayLiteralExpression(list) ? [...list.elements] : [];
      return items[at] === undefined ? [] : [items[at]];
    }
    const type = this.#typeOf(pattern);
    const name = (element.propertyName ?? element.name)?.getText() ?? "";
    const member = type === undefined ? undefined : this.#program.checker.getPropertyOfType(type, name);
    return (member?.declarations ?? []).flatMap((handle) => handle.resolve() ?? []);
  }

  /** The connection that a function gets which is passed on, such as the work of a transaction. */
  #callback(parameter: Node): Node[] {
    const callable = parameter.parent;
    const call = callable.parent;
    if (!isCallable(callable)) {
      return [];
    }
    if (is.isCallExpression(call) && [...call.arguments].includes(callable as never)) {
      return this.#lent(call, callable);
    }
    return [];
  }

  #lent(call: CallExpression, except: Node): Node[] {
    const given = [...call.arguments].filter((argument) => argument !== except);
    const connections = given.filter((argument) => {
      const type = this.#typeOf(argument);
      return type !== undefined && this.#isConnection(type);
    });
    if (connections.length > 0) {
      return connections;
    }
    // A function that has a connection itself: what it calls its parameter with.
    const parameter = this.#program.calleeOf(call)?.parameters[[...call.arguments].indexOf(except as never)];
    const calls = parameter === undefined ? [] : (this.#calledThrough.get(parameter) ?? []);
    return calls.flatMap((inner) => [...inner.arguments]);
  }
}

/** The role of `actAs` around a node. */
function actingAs(node: Node): ServiceRole | undefined {
  for (let inner = node; inner.parent !== undefined; inner = inner.parent) {
    const call = inner.parent;
    if (is.isCallExpression(call) && call.expression.getText() === "actAs" && call.arguments[2] === inner) {
      const text = call.arguments[1]?.getText().replaceAll('"', "");
      return isRole(text) ? text : undefined;
    }
  }
  return undefined;
}

function rolesIn(call: CallExpression, program: Program): ServiceRole[] {
  const [options] = call.arguments;
  const roles: ServiceRole[] = [];
  if (options !== undefined && is.isObjectLiteralExpression(options)) {
    for (const property of options.properties) {
      const named = is.isPropertyAssignment(property) || is.isShorthandPropertyAssignment(property);
      if (named && property.name.getText() === "role") {
        const value = is.isPropertyAssignment(property) ? property.initializer : property.name;
        roles.push(...(program.literalsOf(value) ?? []).filter(isRole));
      }
    }
  }
  return roles.length < SERVICE_ROLES.length ? roles : [];
}
