/** Form fields for an endpoint's optional settings. */
import { Type } from "typebox";
import { JsonText } from "../../../api/in-process.ts";
import { spliceMember } from "../../../http/raw-json.ts";
import { createStrictJsonParser, type RawJson } from "../../../http/strict-json.ts";
import type { Endpoint } from "../../../lib/client/api-types.ts";
import { type FieldProblem, validationFailed } from "../../../domain/errors.ts";
import { areaField, lineField } from "../../fields.ts";
import { Line } from "../../forms.ts";
import { html, type Html, type Part } from "../../html.ts";
import type { FieldErrors } from "../../problems.ts";
import type { Visit } from "../../visit.ts";

/** More than the API accepts, so that the API's error is shown, not the form's. */
const JSON_MAX = 16_384;
const HEADERS_MAX = 24_576;
/** Maximum nesting of an endpoint from the API; for metadata, more than the API accepts. */
const ENDPOINT_DEPTH = 64;

/** Fields of the form; all are optional. */
export const SETTINGS_FIELDS = {
  filter: Type.Optional(Line(JSON_MAX)),
  headers: Type.Optional(Line(HEADERS_MAX)),
  metadata: Type.Optional(Line(JSON_MAX)),
  rate_limit: Type.Optional(Line(16)),
  require_echo: Type.Optional(Line(8)),
};

/** Typed values; undefined if the form did not have the field. */
export type SettingsFields = { readonly [Name in keyof typeof SETTINGS_FIELDS]?: string };

const isEmpty = (text: string): boolean => text.trim() === "";

/** Returns a field's JSON text, `null` for an empty field, and a problem if the text is not JSON. */
export function jsonMember(
  name: string,
  text: string,
): { readonly json: string; readonly problem?: FieldProblem } {
  if (isEmpty(text)) {
    return { json: "null" };
  }
  try {
    JSON.parse(text);
    return { json: text };
  } catch {
    return { json: "null", problem: { pointer: `/${name}`, code: "json", detail: "is not JSON" } };
  }
}

/** Parses lines of the form `Name: value`. */
function headersOf(text: string, problems: FieldProblem[]): Record<string, string> | null {
  const headers = new Map<string, string>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (isEmpty(line)) {
      continue;
    }
    const colon = line.indexOf(":");
    const name = line.slice(0, Math.max(colon, 0)).trim();
    if (name === "") {
      problems.push({
        pointer: "/headers",
        code: "form",
        detail: `takes lines of the form Name: value, which line ${index + 1} is not`,
      });
    } else if (headers.has(name)) {
      problems.push({ pointer: "/headers", code: "duplicate", detail: `has ${name} twice` });
    }
    headers.set(name, line.slice(colon + 1).trim());
  }
  return headers.size === 0 ? null : Object.fromEntries(headers);
}

/** Parses a whole number; returns null for an empty field, and other text unchanged, so that the API rejects it. */
export function numberMember(text: string): number | string | null {
  const number = text.trim();
  if (number === "") {
    return null;
  }
  return /^\d{1,9}$/.test(number) ? Number(number) : number;
}

/**
 * Adds the settings to the API's body. Metadata and filter are sent as typed, so that their numbers stay exact.
 *
 * @param body the other members
 * @param isNew true for a new endpoint, which has no metadata to remove
 * @throws SignetError VALIDATION_FAILED if a field is malformed
 */
export function settingsBody(
  fields: SettingsFields,
  body: Readonly<Record<string, unknown>>,
  isNew: boolean,
): JsonText {
  const { filter, headers, metadata, rate_limit: rate, require_echo: echo } = fields;
  const problems: FieldProblem[] = [];
  const raw = Object.entries({ metadata, filter }).flatMap(([name, text]) =>
    text === undefined ? [] : [{ name, ...jsonMember(name, text) }],
  );
  problems.push(...raw.flatMap(({ problem }) => problem ?? []));
  const members = {
    ...body,
    ...(headers === undefined ? {} : { headers: headersOf(headers, problems) }),
    ...(rate === undefined ? {} : { rate_limit: numberMember(rate) }),
    ...(echo === undefined ? {} : { require_echo: echo === "yes" }),
  };
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
  const text = raw
    .filter(({ json }) => !(isNew && json === "null"))
    .reduce((whole, { name, json }) => spliceMember(whole, name, json), JSON.stringify(members));
  return new JsonText(text);
}

const parseEndpoint = createStrictJsonParser({
  maxDepth: ENDPOINT_DEPTH,
  opaque: { "/metadata": ENDPOINT_DEPTH },
});

/** Gets an endpoint and its metadata as the tenant wrote it; null if there is none. */
export async function readEndpoint(
  { api }: Visit,
  id: string,
): Promise<{ readonly endpoint: Endpoint; readonly metadata: string | null }> {
  const text = await api.text(`/v1/webhooks/endpoints/${id}`);
  const { metadata } = parseEndpoint(Buffer.from(text)) as { readonly metadata: RawJson };
  const endpoint = JSON.parse(text) as Endpoint;
  return { endpoint, metadata: metadata.kind === "null" ? null : metadata.text };
}

/** Returns the field values of an endpoint. */
export function settingsOf(endpoint: Endpoint, metadata: string | null): SettingsFields {
  const { filter, headers, rate_limit: rate, require_echo: echo } = endpoint;
  return {
    filter: filter === null ? "" : JSON.stringify(filter, undefined, 2),
    headers: Object.entries(headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n"),
    metadata: metadata ?? "",
    rate_limit: rate === null ? "" : String(rate),
    require_echo: echo ? "yes" : "no",
  };
}

/** HTML attributes of a number field; the API rejects other text. */
export const NUMBER_ATTRIBUTES: Html = html`inputmode="numeric" maxlength="16" autocomplete="off"`;

interface AreaLook {
  readonly label: string;
  readonly help: Part;
}

function area(
  name: "filter" | "headers" | "metadata",
  { label, help }: AreaLook,
  { fields, errors }: { readonly fields: SettingsFields; readonly errors: FieldErrors },
): Html {
  const maxLength = name === "headers" ? HEADERS_MAX : JSON_MAX;
  const attributes = html`rows="3" maxlength="${maxLength}" class="code" autocomplete="off"`;
  return areaField({ name, label, optional: true, value: fields[name] ?? "", help, attributes }, errors);
}

function echoField(chosen: string | undefined, errors: FieldErrors): Html {
  const yes = chosen === "yes";
  return html`<div class="field">
    <label for="require_echo">Answer that verifies a ping</label>
    <select id="require_echo" name="require_echo" ${errors.attributes("require_echo", "require_echo-help")}>
      <option value="no" ${!yes && html`selected`}>status 200</option>
      <option value="yes" ${yes && html`selected`}>status 200 and the ping's challenge in the answer</option>
    </select>
    <p class="muted" id="require_echo-help">
      Some hosts answer 200 to everything. The challenge shows that the receiver read the ping.
    </p>
    ${errors.text("require_echo")}
  </div>`;
}

/** Renders the fields. */
export function settingsFields(fields: SettingsFields, errors: FieldErrors): Html {
  const group = { fields, errors };
  return html`${area(
    "filter",
    {
      label: "Filter",
      help: html`Only matching events are delivered. A query document over <code>type</code> and
        <code>data</code>, for instance <code>{"data.amount": {"$gte": 100}}</code>.`,
    },
    group,
  )}
  ${area(
    "headers",
    {
      label: "Additional headers",
      help: html`One <code>Name: value</code> per line, at most 16. Everyone who may read the endpoint can see
        them, so enter secrets under authentication below.`,
    },
    group,
  )}
  ${area("metadata", { label: "Metadata", help: "Your own JSON object, sent with every delivery." }, group)}
  ${lineField(
    {
      name: "rate_limit",
      label: "Deliveries per second",
      optional: true,
      value: fields.rate_limit ?? "",
      attributes: NUMBER_ATTRIBUTES,
      help: "Maximum, 1 to 1000. Deliveries above the limit wait.",
    },
    errors,
  )}
  ${echoField(fields.require_echo, errors)}`;
}
