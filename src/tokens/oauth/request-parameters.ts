/**
 * Reads the parameters of an OAuth request, from JSON (contract 4) or a form (RFC 6749 section 4.4.2). Rejects
 * bytes that are not UTF-8, repeated parameters and values that are not strings. An empty value counts as absent.
 */
import { isUtf8 } from "node:buffer";
import { readPairs } from "#http/query-string.ts";
import { createStrictJsonParser } from "#http/strict-json.ts";
import { SignetError } from "#domain/errors.ts";

export type RequestParameters = Readonly<Record<string, string | undefined>>;

const RESOURCE = "resource";
const readJson = createStrictJsonParser({ maxDepth: 8 });

function invalidRequest(detail: string): SignetError {
  return new SignetError("INVALID_REQUEST", { detail });
}

/** RFC 8707 allows several resources, but our tokens have one audience. */
function severalResources(): SignetError {
  return new SignetError("INVALID_TARGET", {
    detail: "A token is for one resource; request a separate token for each.",
  });
}

function fromJson(body: Buffer, known: readonly string[]): RequestParameters {
  const value = readJson(body);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidRequest("The body must be a JSON object.");
  }
  const members = value as Readonly<Record<string, unknown>>;
  const parameters: Record<string, string> = {};
  // Unknown parameters are ignored, whatever their values (RFC 6749 section 3.2).
  for (const name of known) {
    const member = members[name];
    if (name === RESOURCE && Array.isArray(member)) {
      throw severalResources();
    }
    if (member !== undefined && typeof member !== "string") {
      throw invalidRequest(`Parameter ${name} must be a string.`);
    }
    if (member !== undefined && member !== "") {
      parameters[name] = member;
    }
  }
  return parameters;
}

function fromForm(body: Buffer, known: readonly string[]): RequestParameters {
  const text = isUtf8(body) ? body.toString("utf8") : undefined;
  const pairs = text === undefined ? "malformed" : readPairs(text);
  if (
    pairs === "repeated" &&
    known.includes(RESOURCE) &&
    new URLSearchParams(text).getAll(RESOURCE).length > 1
  ) {
    throw severalResources();
  }
  if (typeof pairs === "string") {
    throw invalidRequest(
      pairs === "repeated" ? "A parameter is repeated." : "The body is not a well-formed form.",
    );
  }
  const parameters: Record<string, string> = {};
  for (const name of known) {
    const value = pairs[name];
    if (value !== undefined && value !== "") {
      parameters[name] = value;
    }
  }
  return parameters;
}

/** Reads the `known` parameters of a body. */
export function readParameters(
  body: Buffer | undefined,
  contentType: string | undefined,
  known: readonly string[],
): RequestParameters {
  if (body === undefined || body.length === 0) {
    throw invalidRequest("The body is missing.");
  }
  return contentType?.toLowerCase().startsWith("application/json") === true
    ? fromJson(body, known)
    : fromForm(body, known);
}

/** Rejects parameters in the query: secrets or tokens there end up in logs on the way. */
export function refuseQueryParameters(query: Readonly<Record<string, unknown>>): void {
  for (const name in query) {
    throw invalidRequest(`Parameters belong in the body, not in the query (${name.slice(0, 64)}).`);
  }
}
