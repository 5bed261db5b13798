/** Form fields and facts for the settings of an endpoint that have a field in domain/endpoint-settings.ts. */
import { Type } from "typebox";
import { createStrictJsonParser, type RawJson as RawMember } from "#http/strict-json.ts";
import type { Endpoint, NewEndpoint } from "#lib/client/api-types.ts";
import { RawJson } from "#lib/client/raw-json.ts";
import { ENDPOINT_SETTINGS } from "#domain/endpoint-settings.ts";
import type { FieldProblem } from "#domain/errors.ts";
import { areaField, lineField } from "#portal/fields.ts";
import { Line } from "#portal/forms.ts";
import { html, type Html, type Part } from "#portal/html.ts";
import type { FieldErrors } from "#portal/problems.ts";
import { headersAgain, textAgain } from "#portal/typed-again.ts";
import type { Visit } from "#portal/visit.ts";

/** More than the API accepts, so that the API's error is shown, not the form's. */
const JSON_MAX = 16_384;
const HEADERS_MAX = 24_576;
const NUMBER_MAX = 16;
/** Maximum nesting of an endpoint from the API; for metadata, more than the API accepts. */
const ENDPOINT_DEPTH = 64;

/** The settings with a field, in the order of the form. */
const FIELDS = ENDPOINT_SETTINGS.filter((setting) => "field" in setting).toSorted(
  (one, other) => one.field.place - other.field.place,
);

type FieldSetting = (typeof FIELDS)[number];

const isBasic = ({ field }: FieldSetting): boolean => "basic" in field;

/** Returns the maximum length of a typed value. */
function sizeOf(setting: FieldSetting): number {
  if (setting.kind === "text") {
    return setting.maxLength;
  }
  return { object: JSON_MAX, headers: HEADERS_MAX, number: NUMBER_MAX, flag: 8 }[setting.kind];
}

/** Fields of the form. */
export const SETTINGS_FIELDS = Object.fromEntries(
  FIELDS.map((setting) => {
    const line = Line(sizeOf(setting));
    return [setting.wire, isBasic(setting) ? line : Type.Optional(line)];
  }),
) as Record<FieldSetting["wire"], Type.TOptional<Type.TString>>;

/** Typed values; undefined if the form did not have the field. */
export type SettingsFields = { readonly [Name in FieldSetting["wire"]]?: string };

/** Whether a collapsed field has an error, or another value than an empty form's. */
export function hasCollapsed(fields: SettingsFields, errors: FieldErrors): boolean {
  return FIELDS.some(
    (setting) =>
      !isBasic(setting) &&
      (errors.has(setting.wire) ||
        (setting.kind === "flag" ? fields[setting.wire] === "yes" : (fields[setting.wire] ?? "") !== "")),
  );
}

/** A text that no field accepts, sent in place of a malformed value. */
const MALFORMED = "malformed";

const isEmpty = (text: string): boolean => text.trim() === "";

/** Returns a field's JSON, null for an empty field, or a problem if the text is not JSON. */
export function jsonMember(
  name: string,
  text: string,
): { readonly json: RawJson | null; readonly problem?: FieldProblem } {
  if (isEmpty(text)) {
    return { json: null };
  }
  try {
    return { json: new RawJson(text) };
  } catch {
    return { json: null, problem: { pointer: `/${name}`, code: "json", detail: "is not JSON" } };
  }
}

/** Returns the headers of lines of the form `Name: value`. Adds problems if lines are malformed. */
function headersOf(text: string, problems: FieldProblem[]): object | string | null {
  const before = problems.length;
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
        detail: `Line ${index + 1} is not of the form Name: value`,
      });
    } else if (headers.has(name)) {
      problems.push({ pointer: "/headers", code: "duplicate", detail: `The header ${name} appears twice` });
    }
    headers.set(name, line.slice(colon + 1).trim());
  }
  if (problems.length > before) {
    return MALFORMED;
  }
  return headers.size === 0 ? null : Object.fromEntries(headers);
}

/** Parses a whole number; returns null for an empty field, and other text unchanged, so that the API rejects it. */
export function numberMember(text: string): number | null {
  const number = text.trim();
  if (number === "") {
    return null;
  }
  return /^\d{1,9}$/.test(number) ? Number(number) : (number as unknown as number);
}

/** Returns the member of a typed value. Adds a problem if the value is malformed. */
function memberOf({ wire, kind }: FieldSetting, text: string, problems: FieldProblem[]): unknown {
  switch (kind) {
    case "object": {
      const { json, problem } = jsonMember(wire, text);
      problems.push(...(problem === undefined ? [] : [problem]));
      return problem === undefined ? json : MALFORMED;
    }
    case "headers":
      return headersOf(text, problems);
    case "number":
      return numberMember(text);
    case "flag":
      return text === "yes";
    case "text":
    default:
      return isEmpty(text) ? null : text.trim();
  }
}

/**
 * Returns the settings for the API's body. Metadata and filter are sent as typed, so that their numbers stay exact.
 *
 * @param form.isNew true for a new endpoint, which has no metadata to remove
 * @param form.problems receives a problem for each malformed field, which the API then rejects as well
 */
export function settingsBody(
  fields: SettingsFields,
  { isNew, problems }: { readonly isNew: boolean; readonly problems: FieldProblem[] },
): Partial<NewEndpoint> {
  const members = FIELDS.flatMap((setting) => {
    const text = fields[setting.wire];
    const member = text === undefined ? undefined : memberOf(setting, text, problems);
    const isAbsent = member === undefined || (isNew && setting.kind === "object" && member === null);
    return isAbsent ? [] : [[setting.wire, member] as const];
  });
  return Object.fromEntries(members);
}

const parseEndpoint = createStrictJsonParser({
  maxDepth: ENDPOINT_DEPTH,
  opaque: { "/metadata": ENDPOINT_DEPTH },
});

/** Gets an endpoint and its metadata as the tenant wrote it; null if there is none. */
export async function readEndpoint(
  visit: Visit,
  id: string,
): Promise<{ readonly endpoint: Endpoint; readonly metadata: string | null }> {
  const endpoint = await visit.api.endpoints.get(id);
  const { metadata } = parseEndpoint(Buffer.from(visit.textOf(endpoint))) as { readonly metadata: RawMember };
  return { endpoint, metadata: metadata.kind === "null" ? null : metadata.text };
}

/** Returns the text of a value in the form. */
function typed(kind: FieldSetting["kind"], value: unknown): string {
  switch (kind) {
    case "flag":
      return value === true ? "yes" : "no";
    case "object":
      return value === null ? "" : JSON.stringify(value, undefined, 2);
    case "headers":
      return Object.entries(value as Endpoint["headers"])
        .map(([name, header]) => `${name}: ${header}`)
        .join("\n");
    case "text":
    case "number":
    default:
      return typeof value === "string" || typeof value === "number" ? String(value) : "";
  }
}

/** Returns the field values of an endpoint. */
export function settingsOf(endpoint: Endpoint, metadata: string | null): SettingsFields {
  const values = FIELDS.map(({ wire, kind }) => [wire, typed(kind, endpoint[wire])] as const);
  return { ...Object.fromEntries(values), metadata: metadata ?? "" };
}

/** Returns the texts and headers to show again after an error, without secrets. */
export function settingsAgain(fields: SettingsFields): SettingsFields {
  const values = FIELDS.flatMap(({ wire, kind }) => {
    const text = fields[wire];
    if (text === undefined || (kind !== "text" && kind !== "headers")) {
      return [];
    }
    return [[wire, kind === "text" ? textAgain(text) : headersAgain(text)] as const];
  });
  return Object.fromEntries(values);
}

/** Returns the basic or the other settings for a list of facts, without the JSON of metadata, filter and headers. */
export function settingFacts(endpoint: Endpoint, basic: boolean): [string, Part][] {
  return FIELDS.filter((setting) => isBasic(setting) === basic).flatMap(({ wire, field }) => {
    if (!("fact" in field)) {
      return [];
    }
    const [label, textOf] = field.fact as readonly [string, (value: unknown) => string];
    return [[label, textOf(endpoint[wire])]];
  });
}

/** HTML attributes of a number field; the API rejects other text. */
export const NUMBER_ATTRIBUTES: Html = html`inputmode="numeric" maxlength="${NUMBER_MAX}" autocomplete="off"`;

/** Renders text with code in backticks. */
function marked(text: string): Part {
  return text.split("`").map((part, index) => (index % 2 === 0 ? part : html`<code>${part}</code>`));
}

function choiceField(
  { wire: name, field: { label, choices, help } }: Extract<FieldSetting, { kind: "flag" }>,
  chosen: string | undefined,
  errors: FieldErrors,
): Html {
  const yes = chosen === "yes";
  return html`<div class="field">
    <label for="${name}">${label}</label>
    <select id="${name}" name="${name}" ${errors.attributes(name, `${name}-help`)}>
      <option value="no" ${!yes && html`selected`}>${choices.no}</option>
      <option value="yes" ${yes && html`selected`}>${choices.yes}</option>
    </select>
    <p class="muted" id="${name}-help">${help}</p>
    ${errors.text(name, label)}
  </div>`;
}

function settingField(setting: FieldSetting, fields: SettingsFields, errors: FieldErrors): Html {
  const { wire: name, field } = setting;
  if (setting.kind === "flag") {
    return choiceField(setting, fields[name], errors);
  }
  const look = {
    name,
    label: field.label,
    optional: true,
    value: fields[name] ?? "",
    ...("help" in field ? { help: marked(field.help) } : {}),
  };
  const limit = html`maxlength="${sizeOf(setting)}"`;
  switch (setting.kind) {
    case "text":
      return lineField({ ...look, attributes: limit }, errors);
    case "number":
      return lineField({ ...look, attributes: NUMBER_ATTRIBUTES }, errors);
    case "object":
    case "headers":
    default:
      return areaField(
        { ...look, attributes: html`rows="3" ${limit} class="code" autocomplete="off"` },
        errors,
      );
  }
}

/** Renders the basic or the collapsed fields. */
export function settingsFields(fields: SettingsFields, errors: FieldErrors, basic: boolean): Part {
  return FIELDS.filter((setting) => isBasic(setting) === basic).map((setting) =>
    settingField(setting, fields, errors),
  );
}
