/** Schemas of operators and their tokens. */
import { Type } from "typebox";
import { OPERATOR_ROLES } from "#domain/operator-roles.ts";
import { SanUri, Thumbprints } from "./certificates.ts";
import { Body, Id, Name, Nullable, OneOf, Resource, TextLine, Timestamp } from "#http/common.ts";
import { presenter } from "#http/present.ts";

const EXPIRES_IN_DAYS_MAX = 366;
/** Default lifetime of an operator's token, in days. */
export const EXPIRES_IN_DAYS = 90;

export const Operator = Resource("Operator", {
  id: Id("operator"),
  name: Type.String({ examples: ["Ada"] }),
  role: OneOf(OPERATOR_ROLES),
  state: OneOf(["ACTIVE", "REVOKED"]),
  san_uri: Nullable(Type.String()),
  certificate_thumbprints: Type.Array(Type.String()),
  created_by: Type.String({ description: "Id of the operator who created this one, or bootstrap" }),
  created_at: Timestamp,
  revoked_at: Nullable(Timestamp),
});

export const NewOperator = Body("OperatorInput", {
  name: Name,
  role: OneOf(OPERATOR_ROLES),
  san_uri: Type.Optional(Nullable(SanUri)),
  certificate_thumbprints: Type.Optional(Thumbprints),
});

export const OperatorChange = Resource(
  "OperatorChange",
  {
    role: Type.Optional(OneOf(OPERATOR_ROLES)),
    san_uri: Type.Optional(Nullable(SanUri)),
    certificate_thumbprints: Type.Optional(Thumbprints),
  },
  { additionalProperties: false, minProperties: 1 },
);

export const OperatorToken = Resource("OperatorToken", {
  id: Id("operatorToken"),
  operator_id: Id("operator"),
  prefix: Type.String({ description: "The beginning of the token" }),
  created_by: Type.String(),
  created_at: Timestamp,
  expires_at: Timestamp,
  last_used_at: Nullable(Timestamp),
  revoked_at: Nullable(Timestamp),
});

export const IssuedOperatorToken = Resource("IssuedOperatorToken", {
  ...OperatorToken.properties,
  token: Type.String({ description: "Shown only here" }),
});

export const NewOperatorToken = Body("OperatorTokenInput", {
  expires_in_days: Type.Optional(
    Type.Integer({ minimum: 1, maximum: EXPIRES_IN_DAYS_MAX, default: EXPIRES_IN_DAYS }),
  ),
});

/** The reason for ending or resuming something, for the compliance log; no personal data. */
export const ReasonGiven = Body("ReasonGiven", {
  reason: Type.Optional(TextLine(256)),
});

export const toOperator = presenter(Operator);

export const toOperatorToken = presenter(OperatorToken);
