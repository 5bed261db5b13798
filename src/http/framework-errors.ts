/** Turns whatever was thrown into an error of the catalogue, so that nothing of the framework or the database shows. */
import type { FastifyError } from "fastify";
import { isDatabaseAway } from "../database/errors.ts";
import {
  type ErrorCode,
  invalidParameters,
  noSuch,
  nothingHere,
  SignetError,
  validationFailed,
} from "../domain/errors.ts";
import { uriTooLong } from "./uri-length.ts";
import { fieldProblems } from "./validation.ts";

const FRAMEWORK_CODES: Readonly<Record<string, { code: ErrorCode; detail: string }>> = {
  FST_ERR_BAD_URL: { code: "INVALID_REQUEST", detail: "The path is not well formed." },
  FST_ERR_CTP_BODY_TOO_LARGE: {
    code: "PAYLOAD_TOO_LARGE",
    detail: "The body is larger than this address takes.",
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: "UNSUPPORTED_MEDIA_TYPE",
    detail: "The body must be application/json.",
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: "INVALID_REQUEST",
    detail: "The body is not as long as Content-Length says.",
  },
};

/** A database that has crashed is back within seconds. */
const RETRY_AFTER_SECONDS = "5";

function schemaError(error: FastifyError): SignetError {
  const problems = fieldProblems(error.validation ?? []);
  if (error.validationContext === "body") {
    return validationFailed(problems);
  }
  if (error.validationContext === "params") {
    // An id that cannot exist is answered like one that does not.
    const [fault] = (error.validation ?? []) as readonly { readonly parentSchema?: { "x-noun"?: string } }[];
    const what = fault?.parentSchema?.["x-noun"];
    return what === undefined ? nothingHere() : noSuch(what);
  }
  const part = error.validationContext === "headers" ? "Header" : "Query parameter";
  return invalidParameters(problems, part);
}

/** The catalogue's error for anything thrown while a request is handled. */
export function toSignetError(thrown: unknown): SignetError {
  if (thrown instanceof SignetError) {
    return thrown;
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
      detail: "The service cannot work at the moment; send the request again.",
      headers: { "retry-after": RETRY_AFTER_SECONDS },
      cause: thrown,
    });
  }
  return new SignetError("INTERNAL", {
    detail: "Something went wrong on our side; the request id helps us to find it.",
    cause: thrown,
  });
}
