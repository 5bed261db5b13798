/** Converts any thrown value to an error of the catalogue, to hide details of the framework and the database. */
import type { FastifyError } from "fastify";
import { isDatabaseAway } from "#database/errors.ts";
import {
  DuplicateError,
  type ErrorCode,
  invalidParameters,
  noSuch,
  nothingHere,
  SignetError,
  validationFailed,
} from "#domain/errors.ts";
import { uriTooLong } from "./uri-length.ts";
import { fieldProblems } from "./validation.ts";

const FRAMEWORK_CODES: Readonly<Record<string, { code: ErrorCode; detail: string }>> = {
  FST_ERR_BAD_URL: { code: "INVALID_REQUEST", detail: "The path is malformed." },
  FST_ERR_CTP_BODY_TOO_LARGE: {
    code: "PAYLOAD_TOO_LARGE",
    detail: "The body is larger than this route accepts.",
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: "UNSUPPORTED_MEDIA_TYPE",
    detail: "The body must be application/json.",
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: "INVALID_REQUEST",
    detail: "The length of the body differs from Content-Length.",
  },
};

/** A crashed database recovers within seconds. */
const RETRY_AFTER_SECONDS = "5";

function schemaError(error: FastifyError): SignetError {
  const problems = fieldProblems(error.validation ?? []);
  if (error.validationContext === "body") {
    return validationFailed(problems);
  }
  if (error.validationContext === "params") {
    // A malformed id gets the same response as an unknown one.
    const [fault] = (error.validation ?? []) as readonly { readonly parentSchema?: { "x-noun"?: string } }[];
    const what = fault?.parentSchema?.["x-noun"];
    return what === undefined ? nothingHere() : noSuch(what);
  }
  const part = error.validationContext === "headers" ? "Header" : "Query parameter";
  return invalidParameters(problems, part);
}

/** Returns the catalogue's error for anything thrown while a request is handled. */
export function toSignetError(thrown: unknown): SignetError {
  if (thrown instanceof SignetError) {
    return thrown;
  }
  if (thrown instanceof DuplicateError) {
    return new SignetError("CONFLICT", { detail: thrown.message, cause: thrown.cause });
  }
  const error = thrown as Partial<FastifyError>;
  if (error.validation !== undefined) {
    return schemaError(error as FastifyError);
  }
  if (error.code === "FST_ERR_MAX_PARAM_LENGTH") {
    return uriTooLong(thrown);
  }
  const known = error.code === undefined ? undefined : FRAMEWORK_CODES[error.code];
  if (known !== undefined) {
    return new SignetError(known.code, { detail: known.detail, cause: thrown });
  }
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return new SignetError("INVALID_REQUEST", {
      detail: "The request could not be read.",
      cause: thrown,
    });
  }
  if (isDatabaseAway(thrown)) {
    return new SignetError("UNAVAILABLE", {
      detail: "The service is temporarily unavailable; retry the request.",
      headers: { "retry-after": RETRY_AFTER_SECONDS },
      cause: thrown,
    });
  }
  return new SignetError("INTERNAL", {
    detail: "An internal error occurred; report the request id to the operator.",
    cause: thrown,
  });
}
