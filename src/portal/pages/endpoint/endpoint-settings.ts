/** What an endpoint can have besides address and event types, as part of its form. */
import { Type } from "typebox";
import { JsonText } from "../../../api/in-process.ts";
import { spliceMember } from "../../../http/raw-json.ts";
import { createStrictJsonParser, type RawJson } from "../../../http/strict-json.ts";
import type { Endpoint } from "../../../lib/client/resources/endpoints.ts";
import { type FieldProblem, validationFailed } from "../../../domain/errors.ts";
import { areaField, lineField } from "../../fields.ts";
import { Line } from "../../forms.ts";
import { html, type Html, type Part } from "../../html.ts";
import type { FieldErrors } from "../../problems.ts";
import type { Visit } from "../../visit.ts";

/** More than the API takes, so that its words are shown and not those of a form. */
const JSON_MAX = 16_384;
const HEADERS_MAX = 24_576;
/** Deepest nesting of an endpoint as the API answers; of metadata, more than it takes. */
const ENDPOINT_DEPTH = 64;

/** Fields of the form; none of them has to be there. */
export const SETTINGS_FIELDS = {
  filter: Type.Optional(Line(JSON_MAX)),
  headers: Type.Optional(Line(HEADERS_MAX)),
  metadata: Type.Optional(Line(JSON_MAX)),
  rate_limit: Type.Optional(Line(16)),
  require_echo: Type.Optional(Line(8)),
};

/** What was typed; absent where the form had no such field. */
export type SettingsFields = { readonly [Name in keyof typeof SETTINGS_FIELDS]?: string };

const isEmpty = (text: string): boolean => text.trim() === "";

/** What a field holds as JSON text, null for an empty one; a problem where it is none. */
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

/** `Name: value`, one on each line. */
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
        detail: `takes lines like Name: value, and line ${index + 1} is none`,
      });
    } else if (headers.has(name)) {
      problems.push({ pointer: "/headers", code: "duplicate", detail: `has ${name} twice` });
    }
    headers.set(name, line.slice(colon + 1).trim());
  }
  return headers.size === 0 ? null : Object.fromEntries(headers);
}

/** A whole number as one, null for an empty field; what is none, the API refuses in its own words. */
export function numberMember(text: string): number | string | null {
  const number = text.trim();
  if (number === "") {
    return null;
  }
  return /^\d{1,9}$/.test(number) ? Number(number) : number;
}

/**
 * Settings as members of what the API takes. Metadata and filter go as they were typed: no number is read and written
 * again on its way.
 *
 * @param body the other members
 * @param isNew a new endpoint has no metadata to take away
 * @throws SignetError VALIDATION_FAILED for what could not be sent
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

/** An endpoint, and its metadata as the tenant spelled them; null where there are none. */
export async function readEndpoint(
  { api }: Visit,
  id: string,
): Promise<{ readonly endpoint: Endpoint; readonly metadata: string | null }> {
  const text = await api.text(`/v1/webhooks/endpoints/${id}`);
  const { metadata } = parseEndpoint(Buffer.from(text)) as { readonly metadata: RawJson };
  const endpoint = JSON.parse(text) as Endpoint;
  return { endpoint, metadata: metadata.kind === "null" ? null : metadata.text };
}

/** The fields of an endpoint as it is. */
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

/** Of a field for a number; what is none, the API refuses in its own words. */
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
    <label for="require_echo">A ping is acknowledged by</label>
    <select id="require_echo" name="require_echo" ${errors.attributes("require_echo", "require_echo-help")}>
      <option value="no" ${!yes && html`selected`}>status 200</option>
      <option value="yes" ${yes && html`selected`}>status 200 and the ping's challenge in the answer</option>
    </select>
    <p class="muted" id="require_echo-help">
      Some hosts answer 200 to anything. The challenge shows that the receiver has read the ping.
    </p>
    ${errors.text("require_echo")}
  </div>`;
}

/** The part of the form. */
export function settingsFields(fields: SettingsFields, errors: FieldErrors): Html {
  const group = { fields, errors };
  return html`${area(
    "filter",
    {
      label: "Filter",
      help: html`Only events that pass are delivered: a query document over <code>type</code> and
        <code>data</code>, for instance <code>{"data.amount": {"$gte": 100}}</code>.`,
    },
    group,
  )}
  ${area(
    "headers",
    {
      label: "Further headers",
      help: html`One on each line, <code>Name: value</code>; 16 at most. They are shown to everyone who may
        read the endpoint: secrets belong below.`,
    },
    group,
  )}
  ${area(
    "metadata",
    { label: "Metadata", help: "A JSON object of yours; it comes along with every delivery." },
    group,
  )}
  ${lineField(
    {
      name: "rate_limit",
      label: "Deliveries per second",
      optional: true,
      value: fields.rate_limit ?? "",
      attributes: NUMBER_ATTRIBUTES,
      help: "At most so many, 1 to 1000; what is beyond waits for its turn.",
    },
    errors,
  )}
  ${echoField(fields.require_echo, errors)}`;
}
