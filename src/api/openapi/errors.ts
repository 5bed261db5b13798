/** The errors of each operation, with an example of each code (security decisions J). */
import { ERROR_CATALOGUE, type ErrorCode, errorSlug, SignetError, validationFailed } from "#domain/errors.ts";
import { OAUTH_PATHS, oauthErrorBody } from "#http/oauth-error.ts";
import { PROBLEM_JSON, problemDocument } from "#http/problem.ts";
import { ERROR_DESCRIPTIONS } from "#http/error-descriptions.ts";

const REQUEST_ID = "req_01jd3c5xq8m2v7k9r4t6w0zy";

/** Errors of every operation. */
const ALWAYS: readonly ErrorCode[] = [
  "INVALID_REQUEST",
  "URI_TOO_LONG",
  "RATE_LIMITED",
  "HEADERS_TOO_LARGE",
  "INTERNAL",
  "UNAVAILABLE",
];
const WITH_TOKEN: readonly ErrorCode[] = [
  "TOKEN_MISSING",
  "TOKEN_INVALID",
  "TOKEN_EXPIRED",
  "TOKEN_REVOKED",
  "CLIENT_CERT_REQUIRED",
  "CERT_BINDING_MISMATCH",
  "SCOPE_VIOLATION",
  "REGION_MISMATCH",
  "MISDIRECTED_REQUEST",
  "TENANT_SUSPENDED",
  "REVOCATION_STALE",
];
const WITH_OPERATOR: readonly ErrorCode[] = ["TOKEN_MISSING", "TOKEN_INVALID", "SCOPE_VIOLATION"];
const WITH_BODY: readonly ErrorCode[] = ["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "VALIDATION_FAILED"];
/** Errors of the Idempotency-Key of every POST. */
const ONCE: readonly ErrorCode[] = ["CONFLICT", "IDEMPOTENCY_KEY_REUSED"];

/** The traits of an operation that decide its errors. */
export interface OperationTraits {
  readonly method: string;
  readonly path: string;
  readonly caller: "tenant" | "operator" | "anybody";
  readonly takesBody: boolean;
  /** Additional codes of this operation. */
  readonly own: readonly ErrorCode[];
}

/** Returns the error codes of an operation. */
function errorsOf({ method, path, caller, takesBody, own }: OperationTraits): readonly ErrorCode[] {
  if (OAUTH_PATHS.has(path)) {
    return [...ALWAYS, "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", ...own];
  }
  return [
    ...ALWAYS,
    ...(caller === "tenant" ? WITH_TOKEN : caller === "operator" ? WITH_OPERATOR : []),
    ...(path.includes("{") ? (["NOT_FOUND"] as const) : []),
    ...(takesBody ? WITH_BODY : []),
    ...(method === "POST" ? ONCE : []),
    ...own,
  ];
}

const SCOPE_EXTENSIONS = {
  missing_permission: "webhooks:write",
  missing_scopes: ["webhooks:write"],
  required_scopes: ["webhooks:write"],
  granted_scopes: ["webhooks:read"],
};

function exampleError(code: ErrorCode): SignetError {
  if (code === "VALIDATION_FAILED") {
    return validationFailed([
      {
        pointer: "/url",
        code: "required",
        detail: "is required: an https URL such as https://example.com/hooks",
      },
    ]);
  }
  return new SignetError(code, {
    detail: ERROR_DESCRIPTIONS[code].meaning,
    extensions: code === "SCOPE_VIOLATION" ? SCOPE_EXTENSIONS : {},
  });
}

const FieldProblems = {
  type: "array",
  items: {
    type: "object",
    required: ["pointer", "code", "detail"],
    properties: {
      pointer: {
        type: "string",
        description: "JSON pointer into the body; in a 400, `/` and the name of the parameter or header",
      },
      code: { type: "string" },
      detail: { type: "string", description: "For humans: what is expected and what was sent" },
    },
  },
};

const texts = { type: "array", items: { type: "string" } };

/** The two formats of errors. */
export const ERROR_SCHEMAS = {
  Problem: {
    type: "object",
    description: "A problem document (RFC 9457). Some codes add members that are not listed here.",
    required: ["type", "title", "status", "code", "detail", "request_id"],
    properties: {
      type: { type: "string", format: "uri", description: "URL of a page about the code" },
      title: { type: "string" },
      status: { type: "integer" },
      code: { type: "string", enum: Object.keys(ERROR_CATALOGUE), description: "Stable; branch on it" },
      detail: { type: "string", description: "For humans; may change" },
      instance: { type: "string", description: "Path of the request" },
      request_id: { type: "string", description: "Also in the header X-Request-Id" },
      errors: {
        ...FieldProblems,
        description:
          "For VALIDATION_FAILED: every invalid member, 50 at most. For INVALID_REQUEST: every invalid query parameter or header",
      },
      missing_permission: { type: "string", description: "Only for SCOPE_VIOLATION" },
      missing_scopes: texts,
      required_scopes: texts,
      granted_scopes: texts,
    },
    additionalProperties: true,
  },
  OAuthError: {
    type: "object",
    description: "An error of an OAuth endpoint (RFC 6749 section 5.2)",
    required: ["error", "error_description", "code", "request_id"],
    properties: {
      error: { type: "string", examples: ["invalid_client"] },
      error_description: { type: "string" },
      code: { type: "string", enum: Object.keys(ERROR_CATALOGUE) },
      request_id: { type: "string" },
    },
  },
} as const;

/** Returns an example problem document for each code, for `components.examples`. */
export function errorExamples(baseUrl: string): Record<string, object> {
  const codes = Object.keys(ERROR_CATALOGUE) as ErrorCode[];
  return Object.fromEntries(
    codes.map((code) => {
      const context = { baseUrl, requestId: REQUEST_ID, path: "/v1/webhooks/endpoints" };
      const value = problemDocument(exampleError(code), context);
      return [code, { summary: ERROR_DESCRIPTIONS[code].meaning, value }];
    }),
  );
}

function problemResponse(codes: readonly ErrorCode[]): object {
  const retry = codes.some((code) => [429, 503].includes(ERROR_CATALOGUE[code].status));
  return {
    description: described(codes),
    ...(retry
      ? { headers: { "Retry-After": { description: "Seconds to wait", schema: { type: "integer" } } } }
      : {}),
    content: {
      [PROBLEM_JSON]: {
        schema: { $ref: "#/components/schemas/Problem" },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

/** Returns the codes, without their meanings: the examples have those. */
function described(codes: readonly ErrorCode[]): string {
  return codes.map((code) => `\`${code}\``).join(", ");
}

function oauthResponse(codes: readonly ErrorCode[]): object {
  return {
    description: described(codes),
    content: {
      "application/json": {
        schema: { $ref: "#/components/schemas/OAuthError" },
        examples: Object.fromEntries(
          codes.map((code) => [code, { value: oauthErrorBody(exampleError(code), REQUEST_ID) }]),
        ),
      },
    },
  };
}

/** Returns the error responses of an operation, by status. */
export function errorResponses(traits: OperationTraits): Record<string, object> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set(errorsOf(traits))) {
    const { status } = ERROR_CATALOGUE[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const respond = OAUTH_PATHS.has(traits.path) ? oauthResponse : problemResponse;
  return Object.fromEntries(
    [...byStatus].toSorted(([a], [b]) => a - b).map(([status, codes]) => [status, respond(codes)]),
  );
}

/** Returns a Markdown table of all codes, for the document's introduction. */
export function errorTable(baseUrl: string): string {
  const rows = (Object.keys(ERROR_CATALOGUE) as ErrorCode[]).map(
    (code) =>
      `| ${ERROR_CATALOGUE[code].status} | [\`${code}\`](${baseUrl}/errors/${errorSlug(code)}) | ${ERROR_DESCRIPTIONS[code].meaning} |`,
  );
  return ["| Status | Code | When |", "| --- | --- | --- |", ...rows].join("\n");
}
