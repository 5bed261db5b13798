/** The event types of an endpoint's form: a tree of the catalogue's types, and lines for all others. */
import { Type } from "typebox";
import { EVENT_TYPE } from "#api/schemas/endpoints.ts";
import type { FieldProblem } from "#domain/errors.ts";
import { areaField } from "#portal/fields.ts";
import { Line } from "#portal/forms.ts";
import { html, type Html, type Part } from "#portal/html.ts";
import { badge } from "#portal/parts.ts";
import type { FieldErrors } from "#portal/problems.ts";
import { textAgain } from "#portal/typed-again.ts";
import type { Visit } from "#portal/visit.ts";

const TYPE = new RegExp(EVENT_TYPE);
const EVENTS_MAX = 8_192;
/** Types of the catalogue on the page: the API's page limit. */
const OFFERED_MAX = 100;
/** Maximum characters of their names, so that the page stays below 100 KB. */
const NAMES_MAX = 4_096;
/** Groups are open at first if there are few types. */
const OPEN_MAX = 12;
/** Maximum length of a repeated line, in characters. */
const SHOWN_MAX = 40;

/** Fields of the form. */
export const EVENTS_FIELDS = {
  events: Line(EVENTS_MAX),
  "types[]": Type.Optional(Type.Array(Line(128), { maxItems: OFFERED_MAX })),
};

/** Values as typed: lines, and the selected types of the catalogue. */
export interface EventsFields {
  readonly events: string;
  readonly "types[]"?: readonly string[];
}

/** A type of the catalogue, for the tree. */
export interface OfferedType {
  readonly name: string;
  readonly deprecated: boolean;
}

/** Returns the types of the catalogue in alphabetical order, without archived ones. */
export async function offeredTypes({ api }: Visit): Promise<readonly OfferedType[]> {
  const { data } = await api.eventTypes.list({ limit: OFFERED_MAX }).page();
  let length = 0;
  return data
    .filter(({ archived_at: archived }) => archived === null)
    .map(({ name, deprecated_at: deprecated }) => ({ name, deprecated: deprecated !== null }))
    .filter(({ name }) => (length += name.length) <= NAMES_MAX)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

const isType = (word: string): boolean => word === "*" || TYPE.test(word);

/** Splits lines and commas. Words of one line are separate types if all of them are valid. */
function linesOf(text: string): string[] {
  return text
    .split(/[\r\n,]+/)
    .map((line) => line.trim())
    .flatMap((line) => {
      const words = line.split(/\s+/);
      return words.every(isType) ? words : line;
    })
    .filter((line) => line !== "");
}

/** Returns the API's member: the selected and the typed event types, all of them if there are none. */
export function eventsOf({ events, "types[]": selected = [] }: EventsFields): readonly string[] {
  const types = [...new Set([...selected, ...linesOf(events)])];
  return types.length === 0 ? ["*"] : types;
}

/** Returns the nearest valid name, for instance `invoice.paid` for `Invoice Paid!`; undefined if there is none. */
function suggestion(line: string): string | undefined {
  const name = line
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]+/g, ".")
    .replaceAll(/^\.|\.$/g, "");
  return TYPE.test(name) ? name : undefined;
}

/** Returns the problem of the lines that are no event types; undefined if there are none. */
export function eventsProblem({ events }: EventsFields): FieldProblem | undefined {
  const wrong = linesOf(events).filter((line) => !isType(line));
  if (wrong.length === 0) {
    return undefined;
  }
  const rule = "A type must be two or more words of a-z, 0-9 and _, joined by dots.";
  const named = wrong.map((line) => textAgain(line).slice(0, SHOWN_MAX));
  const meant = wrong.map(suggestion);
  const hint = meant.every((name) => name !== undefined) ? ` Did you mean ${meant.join(", ")}?` : "";
  const subject = named.map((line) => `“${line}”`).join(", ");
  const detail = named.includes("")
    ? // One of them is a secret, which is not repeated.
      `Some lines are not event types. ${rule}`
    : `${subject} ${named.length === 1 ? "is not an event type" : "are not event types"}. ${rule}${hint}`;
  return { pointer: "/events", code: "form", detail };
}

function tree(types: readonly OfferedType[], selected: ReadonlySet<string>): Html[] {
  const groups = new Map<string, OfferedType[]>();
  for (const type of types) {
    const group = type.name.slice(0, type.name.indexOf("."));
    groups.set(group, [...(groups.get(group) ?? []), type]);
  }
  return [...groups].map(([group, members]) => {
    const open = types.length <= OPEN_MAX || members.some(({ name }) => selected.has(name));
    return html`<details ${open && html`open`}>
      <summary>${group} <span class="muted">${members.length}</span></summary>
      <ul>
        ${members.map(
          ({ name, deprecated }) =>
            html`<li>
              <label
                ><input
                  type="checkbox"
                  name="types[]"
                  value="${name}"
                  ${selected.has(name) && html`checked`}
                />
                ${name}${deprecated && html` ${badge("wait", "deprecated")}`}</label
              >
            </li>`,
        )}
      </ul>
    </details>`;
  });
}

/** Renders the field. Without a catalogue, it has only the lines. */
export function eventsField(values: EventsFields, errors: FieldErrors, types: readonly OfferedType[]): Part {
  const attributes = html`rows="3" maxlength="${EVENTS_MAX}" placeholder="invoice.paid"`;
  const field = { name: "events", label: "Event types", value: values.events, attributes };
  if (types.length === 0) {
    return areaField({ ...field, help: "One per line. Leave empty for all." }, errors);
  }
  const typed = linesOf(values.events);
  const known = new Set(types.map(({ name }) => name));
  const others = typed.filter((line) => !known.has(line));
  const selected = new Set([...typed, ...(values["types[]"] ?? [])]);
  const unlisted = [...others, ...(values["types[]"] ?? []).filter((name) => !known.has(name))];
  return html`<fieldset class="types">
    <legend>Event types</legend>
    <p class="muted">Select none to receive all events.</p>
    <div class="field" data-find hidden>
      <label for="find-type">Find an event type</label>
      <input id="find-type" type="search" autocomplete="off" spellcheck="false" />
    </div>
    <div class="tree">${tree(types, selected)}</div>
    ${areaField(
      {
        ...field,
        label: "Other event types",
        value: unlisted.join("\n"),
        help: "One per line, for types that are not in the list.",
      },
      errors,
    )}
  </fieldset>`;
}
