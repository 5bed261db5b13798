/** Form fields for an endpoint's authentication to the receiver. Secrets are write-only. */
import { Type } from "typebox";
import { OneOf } from "#http/common.ts";
import type { Authentication, NewAuthentication } from "#lib/client/api-types.ts";
import { type FieldProblem, type SignetError, validationFailed } from "#domain/errors.ts";
import { areaField, lineField } from "#portal/fields.ts";
import { Line } from "#portal/forms.ts";
import { html, type Html, type Part } from "#portal/html.ts";
import { moment } from "#portal/parts.ts";
import type { FieldErrors } from "#portal/problems.ts";
import { addressAgain, certificatesAgain, isPrivateKey, textAgain } from "#portal/typed-again.ts";

const PEM_MAX = 32_768;

/** Members of each kind of authentication, and their form fields. */
const KINDS = {
  header: { name: "auth_name", value: "auth_value" },
  oauth2_client_credentials: {
    token_url: "auth_token_url",
    client_id: "auth_client_id",
    client_secret: "auth_client_secret",
    scope: "auth_scope",
  },
  client_certificate: { certificate: "auth_certificate", private_key: "auth_private_key" },
} as const satisfies {
  readonly [Type in NewAuthentication["type"]]: Readonly<
    Record<Exclude<keyof Extract<NewAuthentication, { type: Type }>, "type">, string>
  >;
};

type Kind = keyof typeof KINDS;
type Choice = Kind | "keep" | "none";

const CHOICES: readonly Choice[] = ["keep", "none", ...(Object.keys(KINDS) as Kind[])];

/** Fields of the form; all are optional. */
export const AUTHENTICATION_FIELDS = {
  authentication: Type.Optional(OneOf(CHOICES)),
  auth_name: Type.Optional(Line(128)),
  auth_value: Type.Optional(Line(4_096)),
  auth_token_url: Type.Optional(Line(2_048)),
  auth_client_id: Type.Optional(Line(512)),
  auth_client_secret: Type.Optional(Line(1_024)),
  auth_scope: Type.Optional(Line(1_024)),
  auth_certificate: Type.Optional(Line(PEM_MAX)),
  auth_private_key: Type.Optional(Line(PEM_MAX)),
};

type FieldName = Exclude<keyof typeof AUTHENTICATION_FIELDS, "authentication">;

/** Typed values; undefined if the form did not have the field. */
export type AuthenticationFields = { readonly authentication?: Choice } & {
  readonly [Name in FieldName]?: string;
};

function isKind(choice: Choice | undefined): choice is Kind {
  return choice !== undefined && choice in KINDS;
}

/** Returns a problem if the certificates contain a private key. */
export function authenticationProblem(fields: AuthenticationFields): FieldProblem | undefined {
  const { authentication: choice, auth_certificate: certificate = "" } = fields;
  const detail = "contains a private key: enter only certificates here, and the key in its own field";
  return choice === "client_certificate" && isPrivateKey(certificate)
    ? { pointer: "/auth_certificate", code: "private_key", detail }
    : undefined;
}

/**
 * Converts the fields to the API's member: undefined for no change, null for no authentication. A private key among the
 * certificates is not sent: the API rejects the text in its place.
 */
export function authenticationBody(fields: AuthenticationFields): NewAuthentication | null | undefined {
  const { authentication: choice } = fields;
  if (!isKind(choice)) {
    return choice === "none" ? null : undefined;
  }
  if (authenticationProblem(fields) !== undefined) {
    return "withheld" as unknown as NewAuthentication;
  }
  const members = Object.entries<FieldName>(KINDS[choice]).map(
    ([member, field]) => [member, (fields[field] ?? "").trim()] as const,
  );
  // Omit an empty scope; the API reports other missing members.
  const given = members.filter(([member, value]) => member !== "scope" || value !== "");
  return { type: choice, ...Object.fromEntries(given) } as NewAuthentication;
}

/** Maps the API's errors to the form fields of the chosen kind. */
export function authenticationRefusal(error: SignetError, { authentication: choice }: AuthenticationFields) {
  const problems = (error.extensions["errors"] ?? []) as readonly FieldProblem[];
  if (!problems.some(({ pointer }) => pointer.startsWith("/authentication"))) {
    return error;
  }
  // The secret of an unchanged authentication has no field, but the choice has.
  const fields: Readonly<Record<string, string>> = isKind(choice)
    ? KINDS[choice]
    : { value: "authentication", client_secret: "authentication", private_key: "authentication" };
  return validationFailed(
    problems.map((problem) => {
      const [, top, member = ""] = problem.pointer.split("/");
      const field = top === "authentication" ? fields[member] : undefined;
      return field === undefined ? problem : { ...problem, pointer: `/${field}` };
    }),
  );
}

/** Renders an authentication without its secrets. */
export function authenticationText(authentication: Authentication | null): Part {
  if (authentication === null) {
    return "only the signature";
  }
  const set = html`, set ${moment(authentication.updated_at)}`;
  switch (authentication.type) {
    case "header":
      return html`header <code>${authentication.name}</code>${set}`;
    case "oauth2_client_credentials":
      return html`OAuth 2.0 client <code>${authentication.client_id}</code> at
        <span class="break">${authentication.token_url}</span>${set}`;
    case "client_certificate":
    default:
      return html`client certificate <span class="break">${authentication.subject}</span>, valid until
        ${moment(authentication.not_after)}${set}`;
  }
}

interface FieldLook {
  readonly label: string;
  readonly help?: string;
  readonly attributes?: Part;
}

const LINES: Readonly<Record<Exclude<FieldName, "auth_certificate" | "auth_private_key">, FieldLook>> = {
  auth_name: { label: "Header name", attributes: html`placeholder="Authorization"` },
  auth_value: { label: "Header value", attributes: html`type="password" autocomplete="new-password"` },
  auth_token_url: { label: "Token URL", attributes: html`type="url" inputmode="url"` },
  auth_client_id: { label: "Client id" },
  auth_client_secret: {
    label: "Client secret",
    attributes: html`type="password" autocomplete="new-password"`,
  },
  auth_scope: { label: "Scope", help: "Optional. Separate several scopes with spaces." },
};

/** Returns the typed value to show again; secrets must be typed again. */
function typed(name: FieldName, fields: AuthenticationFields): string {
  const text = fields[name] ?? "";
  switch (name) {
    case "auth_value":
    case "auth_client_secret":
    case "auth_private_key":
      return "";
    case "auth_certificate":
      return certificatesAgain(text);
    case "auth_token_url":
      return addressAgain(text);
    case "auth_name":
    case "auth_client_id":
    case "auth_scope":
    default:
      return textAgain(text);
  }
}

function line(name: keyof typeof LINES, fields: AuthenticationFields, errors: FieldErrors): Html {
  const { attributes = html`autocomplete="off"`, ...look } = LINES[name];
  const value = typed(name, fields);
  return lineField({ ...look, name, value, attributes: html`spellcheck="false" ${attributes}` }, errors);
}

function pem(
  name: "auth_certificate" | "auth_private_key",
  look: FieldLook,
  { fields, errors }: { readonly fields: AuthenticationFields; readonly errors: FieldErrors },
): Html {
  const attributes = html`rows="4" maxlength="${PEM_MAX}" autocomplete="off"`;
  return areaField({ ...look, name, value: typed(name, fields), attributes }, errors);
}

function radio(value: Choice, label: Part, chosen: Choice): Html {
  return html`<p class="choice">
    <label
      ><input type="radio" name="authentication" value="${value}" ${value === chosen && html`checked`} />
      ${label}</label
    >
  </p>`;
}

/**
 * Renders the fields.
 *
 * @param current authentication of the endpoint; undefined for a new endpoint
 */
export function authenticationFields(
  fields: AuthenticationFields,
  errors: FieldErrors,
  current: Authentication | null | undefined,
): Html {
  const kept = current === null || current === undefined ? undefined : current;
  const chosen = fields.authentication ?? (kept === undefined ? "none" : "keep");
  const group = { fields, errors };
  return html`<fieldset class="choices">
    <legend>Authentication to the receiver</legend>
    <p class="muted">
      Every request is signed in any case. Secrets that you enter here are encrypted and never shown again. If
      the form has errors, you must enter the secrets again.
    </p>
    ${kept !== undefined && radio("keep", html`Unchanged: ${authenticationText(kept)}`, chosen)}
    ${radio("none", "None", chosen)}${radio("header", "A secret header", chosen)}
    <div class="choice-fields header">
      ${line("auth_name", fields, errors)}${line("auth_value", fields, errors)}
    </div>
    ${radio("oauth2_client_credentials", "OAuth 2.0 client credentials", chosen)}
    <div class="choice-fields oauth2">
      ${line("auth_token_url", fields, errors)}${line("auth_client_id", fields, errors)}
      ${line("auth_client_secret", fields, errors)}${line("auth_scope", fields, errors)}
    </div>
    ${radio("client_certificate", "A client certificate", chosen)}
    <div class="choice-fields certificate">
      ${pem("auth_certificate", { label: "Certificate", help: "PEM, followed by the intermediate certificates." }, group)}
      ${pem("auth_private_key", { label: "Private key", help: "PEM, not encrypted." }, group)}
    </div>
    ${errors.text("authentication", "Authentication to the receiver")}
  </fieldset>`;
}
