/** Filters above lists: their form fields and the API's query. */
import type { TSchema } from "typebox";
import type { SignetError } from "#domain/errors.ts";
import { html, type Html, type Part } from "./html.ts";
import type { PageContent } from "./layout.ts";

/** Filters as a browser's form sends them: an empty field does not filter. */
type Filters = Readonly<Record<string, string | undefined>>;

/** Fields of a filter form, with the names of the API's query. */
export type FilterFields<Query> = { readonly [Name in keyof Query | "cursor"]?: TSchema };

/** Normalizes a date and time: adds missing seconds, which browsers omit, and reads a time without a zone as UTC. */
export function instantOf(text: string): string {
  const local = /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? `${text}:00` : text;
  return /T\d\d:\d\d:\d\d(\.\d+)?$/.test(local) ? `${local}Z` : local;
}

/** Returns the filters that are not empty. */
function given(filters: Filters): [string, string][] {
  return Object.entries(filters).flatMap(([name, value = ""]) => (value === "" ? [] : [[name, value]]));
}

/** Labels of the fields by the names of the API's parameters. */
const LABELS: Readonly<Record<string, string>> = {
  state: "State",
  endpoint_id: "Endpoint",
  event_type: "Event type",
  last_error: "Last failure",
  reason: "Reason",
  id: "Your id",
  type: "Type",
  from: "From",
  to: "Until",
};

/** Returns the notice for a rejected filter, with the labels of the fields. */
export function filterNotice({ message }: SignetError): PageContent["notice"] {
  const text = message.replaceAll(/Query parameter (\w+)/g, (said, name: string) => LABELS[name] ?? said);
  return { kind: "problem", text };
}

/** Returns the filters as the API takes them. The API checks the values, so they get no type here. */
export function apiQuery<Typed extends Filters>(filters: Typed): { readonly [Name in keyof Typed]?: never } {
  const query = given(filters).map(([name, value]) => [
    name,
    name === "from" || name === "to" ? instantOf(value) : value,
  ]);
  return Object.fromEntries(query) as { readonly [Name in keyof Typed]?: never };
}

/** Returns the path of a list with its filters, for links. */
export function filteredPath(path: string, { cursor: _cursor, ...filters }: Filters): string {
  const query = new URLSearchParams(given(filters));
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

/** Renders a select with the option "All". */
export function choice(name: string, label: string, options: readonly Html[]): Html {
  return html`<div class="field">
    <label for="${name}">${label}</label>
    <select id="${name}" name="${name}">
      <option value="">All</option>
      ${options}
    </select>
  </div>`;
}

export function option(value: string, text: string, chosen: string | undefined): Html {
  return html`<option value="${value}" ${value === chosen ? html`selected` : ""}>${text}</option>`;
}

/** Renders the label of a field for a time. The script shows and reads such fields in the reader's time zone. */
export function zoned(label: string): Html {
  return html`${label} (<span data-zone>UTC</span>)`;
}

/** Renders a one-line input. */
export function field(name: string, label: Part, attributes: Part): Html {
  return html`<div class="field">
    <label for="${name}">${label}</label>
    <input id="${name}" name="${name}" ${attributes} />
  </div>`;
}

/** Checks whether any filter is set. */
export function isFiltered({ cursor: _cursor, ...filters }: Filters): boolean {
  return given(filters).length > 0;
}

interface FilterForm {
  readonly path: string;
  /** Label for screen readers. */
  readonly label: string;
  readonly fields: readonly Part[];
  readonly query: Filters;
}

/** Renders the form above a list, with time fields and a link to the unfiltered list. */
export function filters({ path, label, fields, query }: FilterForm): Html {
  const { from = "", to = "" } = query;
  return html`<form method="get" action="${path}" class="card filters" role="search" aria-label="${label}">
    ${fields}
    <div class="buttons">
      <button>Filter</button>${isFiltered(query) && html` <a href="${path}">Show all</a>`}
    </div>
    <details ${(from !== "" || to !== "") && html`open`}>
      <summary>Time</summary>
      <div class="between">
        ${field("from", zoned("From"), html`type="datetime-local" value="${from}"`)}
        ${field("to", zoned("Until"), html`type="datetime-local" value="${to}"`)}
      </div>
    </details>
  </form>`;
}
