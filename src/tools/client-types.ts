/**
 * The types of requests and responses in the client library, from the OpenAPI document and so from the routes' schemas.
 * `npm run docs` writes src/lib/client/api-types.ts, and a test fails when it is stale.
 */
import { format } from "oxfmt";
import {
  bodyOf,
  type Described,
  type Document,
  INSTANT,
  isExtension,
  LITERALS_MAX,
  memberText,
  nameOf,
  nonNull,
  OMITTED,
  type Operation,
  operationsOf,
  type Schema,
  withClientNames,
  withoutReferences,
} from "./openapi-schema.ts";

/**
 * Sources by type: the operation; `body`, `query` or the status of the response; then members, `items` of an array, or
 * the index of an alternative. A type may extend an earlier one.
 */
const SOURCES: Readonly<Record<string, string>> = {
  Authentication: "getEndpoint 200 authentication",
  NewAuthentication: "createEndpoint body authentication",
  Endpoint: "getEndpoint 200",
  RegisteredEndpoint: "createEndpoint 201",
  NewEndpoint: "createEndpoint body",
  EndpointChange: "updateEndpoint body",
  EndpointQuery: "listEndpoints query",
  TestEvent: "testEndpoint body",
  EndpointSecretVersion: "listEndpointSecrets 200 data items",
  EndpointSecretVersions: "listEndpointSecrets 200",
  RotatedEndpointSecret: "rotateEndpointSecret 200",
  SecretRotation: "rotateEndpointSecret body",
  GradeCheck: "getGrade 200 report checks items",
  GradeFinding: "getGrade 200 report findings items",
  GradeReport: "getGrade 200 report",
  Grade: "getGrade 200",
  GradeSummary: "listGrades 200 data items",
  EventType: "getEventType 200",
  EventTypeSchema: "listEventTypeVersions 200 data items",
  NewEventType: "createEventType body",
  EventTypeChange: "updateEventType body",
  EventTypeQuery: "listEventTypes query",
  NewEvent: "publishEvents body 0",
  AcceptedEvent: "publishEvents 202 0",
  AcceptedBatchItem: "publishEvents 202 1 data items 0",
  RefusedBatchItem: "publishEvents 202 1 data items 1",
  StoredEvent: "getEvent 200",
  EventQuery: "listEvents query",
  AttemptError: "getDelivery 200 last_error",
  DeliveryState: "getDelivery 200 state",
  Delivery: "getDelivery 200",
  DeliveryQuery: "listDeliveries query",
  Attempt: "listAttempts 200 data items",
  DeliveryHour: "getDeliveryStats 200 data items",
  Usage: "getUsage 200 data items",
  DeadLetter: "getDeadLetter 200",
  DeadLetterGroup: "listDeadLetterGroups 200 data items",
  DeadLetterSummary: "getDeadLetterSummary 200",
  ReplayCount: "replayDeadLetters 200 0",
  ReplayJob: "getReplay 200",
  ReplayItem: "listReplayItems 200 data items",
  ReplayOutcomes: "getReplayOutcomes 200",
  NewReplay: "replayDeliveries body",
  MissedEvents: "replayMissing body",
  Credential: "updateCredential 200",
  SecretVersion: "getCredential 200 versions items",
  CredentialDetails: "getCredential 200",
  NewCredential: "createCredential body",
  CreatedCredential: "createCredential 201",
  Revocation: "revokeCredential 200",
  LeakRevocation: "revokeLeak 200",
  SigningSecret: "listSigningSecrets 200 data items",
  CreatedSigningSecret: "createSigningSecret 201",
  ComplianceEntry: "listComplianceEntries 200 data items",
  ComplianceEntryDetails: "getComplianceEntry 200",
  ComplianceCheckpoint: "getCheckpoint 200",
  ComplianceQuery: "listComplianceEntries query",
  NewStream: "createStream body",
  Stream: "createStream 201",
  StreamChange: "updateStream body",
  StreamStatus: "readStreamStatus 200",
  StreamStatusChange: "updateStreamStatus body",
  SubjectIdentifier: "removeStreamSubject body subject",
  PollRequest: "pollStream body",
  PollAnswer: "pollStream 200",
  NewPortalLink: "createPortalLink body",
  PortalLink: "createPortalLink 201",
};

/** Open objects that programs read by member. Programs give the others a type of their own. */
const RECORDS: ReadonlySet<string> = new Set(["details", "error"]);

const HEADER = `/**
 * The members of requests and responses, from the schemas of the service's routes: \`npm run docs\` writes this file. Times
 * in responses are RFC 3339, in UTC with milliseconds.
 */`;

type Schemas = Readonly<Record<string, Schema>>;

interface Declared {
  readonly name: string;
  readonly doc: string;
  readonly schema: Schema;
}

function queryOf({ parameters = [] }: Operation): Schema {
  const members = parameters
    .filter((parameter) => parameter.in === "query")
    .map(({ name, description, schema }) => [
      name,
      description === undefined ? schema : { ...schema, description },
    ]);
  return { type: "object", properties: Object.fromEntries(members) as Record<string, Schema> };
}

function memberOf(schema: Schema | undefined, step: string): Schema | undefined {
  const { anyOf, items, properties } = nonNull(schema ?? {});
  return /^\d+$/.test(step) ? anyOf?.[Number(step)] : step === "items" ? items : properties?.[step];
}

function withoutOmitted(schema: Schema): Schema {
  if (schema.properties === undefined) {
    return schema;
  }
  const members = Object.entries(schema.properties).filter(([name]) => !OMITTED.has(name));
  return { ...schema, properties: Object.fromEntries(members) };
}

function partOf(operation: Operation, part: string): Schema | undefined {
  const { requestBody, responses } = operation;
  return part === "query" ? queryOf(operation) : bodyOf(part === "body" ? requestBody : responses[part]);
}

/** Finds the schema of a type. @throws Error if the document has none at its source */
function declare(operations: ReadonlyMap<string, Described>, [name, source]: [string, string]): Declared {
  const [id = "", part = "", ...steps] = source.split(" ");
  const operation = operations.get(id);
  const schema = operation && steps.reduce(memberOf, partOf(operation, part));
  if (operation === undefined || schema === undefined) {
    throw new Error(`no schema of ${name} at: ${source}`);
  }
  const kind = /^\d/.test(part) ? "response" : part;
  const doc = `${steps.length > 0 ? "Part of the" : "The"} ${kind} of \`${operation.route}\`.`;
  return { name, doc, schema: withoutOmitted(nonNull(schema)) };
}

/** Returns a text that is equal for schemas of the same type. */
function keyOf(schema: Schema): string {
  return JSON.stringify(schema, (name, value: unknown) => {
    const isText = name === "description" && typeof value === "string";
    return isText || (name === "examples" && Array.isArray(value)) ? undefined : value;
  });
}

/** Declared types by the keys of their schemas. */
type Names = ReadonlyMap<string, string>;

/** Returns a union; `string` includes its literals. */
function unionOf(types: readonly string[]): string {
  const unique = [...new Set(types)];
  return unique.filter((type) => !(type.startsWith('"') && unique.includes("string"))).join(" | ");
}

function choicesOf(choices: readonly Schema[], names: Names): string {
  const lists = choices.flatMap(({ items }) => (items === undefined ? [] : [items]));
  const merged = lists.length < 2 ? [] : [{ type: "array", items: { anyOf: lists } }];
  const others = choices.filter(({ items }) => merged.length === 0 || items === undefined);
  return unionOf([...merged, ...others].map((choice) => typeOf(choice, names)));
}

function objectOf(schema: Schema, names: Names): string {
  const { properties, additionalProperties: values } = schema;
  if (properties !== undefined) {
    return membersOf(schema, properties, names);
  }
  const isMap = typeof values === "object" && values.type !== undefined;
  return isMap ? `Readonly<Record<string, ${typeOf(values, names)}>>` : "object";
}

/** Returns the type of a schema: the name of a declared type, or a type expression. */
function typeOf(schema: Schema, names: Names): string {
  const name = names.get(keyOf(schema));
  const { type, anyOf, enum: literals, items = {} } = schema;
  if (name !== undefined || anyOf !== undefined) {
    return name ?? choicesOf(anyOf ?? [], names);
  }
  if (literals !== undefined && literals.length <= LITERALS_MAX) {
    return unionOf(literals.map((literal) => JSON.stringify(literal)));
  }
  if (typeof type === "object") {
    return unionOf(type.map((each) => typeOf({ ...schema, type: each }, names)));
  }
  if (type === "array") {
    return `readonly (${typeOf(items, names)})[]`;
  }
  if (type === "object") {
    return objectOf(schema, names);
  }
  // An instant in a request.
  return schema.pattern === INSTANT ? "string | Date" : type === "integer" ? "number" : String(type);
}

function docOf(schema: Schema): string {
  const text = memberText(schema);
  return text === "" ? "" : `/** ${text}. */\n`;
}

function membersOf({ required = [] }: Schema, properties: Schemas, names: Names): string {
  const members = Object.entries(properties).map(([name, schema]) => {
    const type = typeOf(schema, names);
    const read = type === "object" && RECORDS.has(name) ? "Readonly<Record<string, unknown>>" : type;
    return `${docOf(schema)}readonly ${name}${required.includes(name) ? "" : "?"}: ${read};`;
  });
  return `{\n${members.join("\n")}\n}`;
}

function declarationOf({ name, doc, schema }: Declared, earlier: readonly Declared[], names: Names): string {
  const { properties } = schema;
  if (properties === undefined) {
    const alone = new Map([...names].filter(([, declared]) => declared !== name));
    return `/** ${doc} */\nexport type ${name} = ${typeOf(schema, alone)};`;
  }
  const size = (type: Declared): number => Object.keys(type.schema.properties ?? {}).length;
  const [base] = earlier
    .filter((type) => size(type) > 1 && isExtension(schema, type.schema))
    .toSorted((a, b) => size(b) - size(a));
  const inherited = base?.schema.properties ?? {};
  const own = Object.entries(properties).filter(([member]) => !(member in inherited));
  const heritage = base === undefined ? "" : ` extends ${base.name}`;
  return `/** ${doc} */\nexport interface ${name}${heritage} ${membersOf(schema, Object.fromEntries(own), names)}`;
}

/** Returns the declared types, and their names by the keys of their schemas. */
function declaredTypes(document: Document) {
  const described = operationsOf(withoutReferences(document));
  const operations = new Map(described.map((operation) => [operation.operationId, operation]));
  const types = Object.entries(SOURCES).map((entry) => declare(operations, entry));
  return { types, names: new Map(types.map(({ name, schema }) => [keyOf(schema), name])) };
}

/** Returns a function that returns the type of a schema with references to the clients' names. */
export function clientTypeOf(document: Document): (schema: Schema) => string {
  const { names } = declaredTypes(document);
  const { components } = withClientNames(document);
  const { schemas } = withoutReferences({ components }).components;
  return (schema) => {
    const resolved = JSON.parse(JSON.stringify(schema), (_name, part: Schema | null) =>
      typeof part === "object" && part !== null ? (schemas[nameOf(part) ?? ""] ?? part) : part,
    ) as Schema;
    return typeOf(withoutOmitted(nonNull(resolved)), names);
  };
}

/** Returns generated code as the formatter leaves it. @throws Error if it is invalid */
export async function formatted(name: string, text: string): Promise<string> {
  const { code, errors } = await format(name, text, { printWidth: 110, jsdoc: true });
  if (errors.length > 0) {
    throw new Error(`the generated ${name} is invalid: ${JSON.stringify(errors)}`);
  }
  return code;
}

/** Returns the text of src/lib/client/api-types.ts. @param document the OpenAPI document for tenants */
export async function clientTypes(document: Document): Promise<string> {
  const { types, names } = declaredTypes(document);
  const declarations = types.map((type, index) => declarationOf(type, types.slice(0, index), names));
  return await formatted("api-types.ts", [HEADER, ...declarations].join("\n\n"));
}
