/** Common parts of pages. */
import { SHOWN_STATES, type Tone } from "#domain/shown-states.ts";
import { randomBytes } from "node:crypto";
import { html, type Html, type Part } from "./html.ts";
import { prettyJson } from "./pretty-json.ts";
import { openViews, type TemporalUi } from "#temporal/views.ts";
import type { Visit } from "./visit.ts";

/** Length of an ISO time to the second. */
const SECONDS = 19;

/**
 * Renders a time with seconds, in UTC; a dash if there is none. The script converts it to the reader's time zone, in
 * which it then also shows filters.
 */
export function moment(iso: string | null | undefined): Part {
  if (iso === null || iso === undefined) {
    return "–";
  }
  return html`<time datetime="${iso}">${iso.slice(0, SECONDS).replace("T", " ")} UTC</time>`;
}

/** Renders a time in a list. The script adds how long ago it was. */
export function timeAgo(iso: string | null | undefined): Part {
  return [moment(iso), typeof iso === "string" && html` <span class="muted ago" data-since></span>`];
}

/** Renders a state as a coloured badge. */
export function badge(kind: Tone, text: string): Html {
  return html`<span class="badge ${kind}">${text}</span>`;
}

/** Renders a state of the API as a coloured badge. */
export function stateBadge(state: keyof typeof SHOWN_STATES): Html {
  const { tone, words } = SHOWN_STATES[state];
  return badge(tone, words);
}

/** Renders the hidden fields of every form: the session's token, and the key that makes a repeated form harmless. */
export function formFields(visit: Visit): Html {
  return html`<input type="hidden" name="csrf" value="${visit.csrf}" /><input
      type="hidden"
      name="once"
      value="${randomBytes(16).toString("base64url")}"
    />`;
}

export interface ButtonForm {
  readonly action: string;
  readonly label: string;
  /** Id of the button; keeps the focus when the page refreshes itself. */
  readonly id?: string;
  readonly kind?: "danger" | "primary" | "quiet";
}

/** Renders a form that is only a button. */
export function buttonForm(visit: Visit, { action, label, kind, id }: ButtonForm): Html {
  const attributes = html`${id !== undefined && html`id="${id}"`}
  ${kind !== undefined && html`class="${kind}"`}`;
  return html`<form method="post" action="${action}">
    ${formFields(visit)}<button ${attributes}>${label}</button>
  </form>`;
}

/** Renders a destructive action that requires typing a name. */
export function typedConfirmation(
  visit: Visit,
  {
    action,
    label,
    type: expected,
    id,
    warning,
    fields,
  }: ButtonForm & {
    readonly type: string;
    readonly id: string;
    readonly warning: Part;
    /** Further fields, before the confirmation. */
    readonly fields?: Part;
  },
): Html {
  return html`<form method="post" action="${action}" class="confirm">
    ${formFields(visit)}
    <p>${warning}</p>
    ${fields}
    <label for="${id}">Type <code>${expected}</code> to confirm</label>
    <input
      id="${id}"
      name="confirm"
      required
      autocomplete="off"
      spellcheck="false"
      data-confirm="${expected}"
    />
    <button class="danger">${label}</button>
  </form>`;
}

/** Renders a list of names and values. */
export function facts(pairs: readonly (readonly [string, Part])[]): Html {
  return html`<dl class="facts">
    ${pairs.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** Renders links to the next page and, except on the first page, to the first page. */
export function nextPage(
  path: string,
  cursor: string | null,
  isFirst = true,
  [first, next]: readonly [string, string] = ["Newest", "Older"],
): Part {
  return (
    (cursor !== null || !isFirst) &&
    html`<nav class="more" aria-label="Pages">
      ${!isFirst && html`<a class="button" href="${path}">${first}</a>`}
      ${
        cursor !== null &&
        html`<a
          class="button"
          href="${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}"
          >${next}</a
        >`
      }
    </nav>`
  );
}

/**
 * Renders a table that scrolls sideways, also by keyboard. On a phone, each row is a card with labelled cells. The roles
 * are explicit, because some browsers drop them for tables with another display style.
 *
 * @param look `compact` puts short cells of a card beside each other, for long lists
 */
export function table(
  label: string,
  headings: readonly string[],
  rows: readonly (readonly Part[])[],
  look: "compact" | "labelled" = "labelled",
): Html {
  return html`<div class="scroll ${look}" role="region" aria-label="${label}" tabindex="0">
    <table role="table">
      <thead role="rowgroup">
        <tr role="row">
          ${headings.map((heading) => html`<th scope="col" role="columnheader">${heading}</th>`)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (cells) =>
            html`<tr role="row">
              ${cells.map(
                (cell, column) =>
                  html`<td role="cell" data-label="${headings[column]}"><div>${cell}</div></td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Renders JSON that scrolls, also by keyboard. */
export function jsonBlock(label: string, value: unknown): Html {
  return textBlock(label, JSON.stringify(value, undefined, 2));
}

/** Renders preformatted text that scrolls, also by keyboard. */
export function textBlock(label: string, text: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`;
}

/** Maximum characters of an event's data, so that a page stays below 100 KB. */
const DATA_MAX = 8_192;

/** Returns the beginning of a long text. */
export function shortened(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)} … (shortened; the API returns all of it)`;
}

/**
 * Renders an event's data.
 *
 * @param data JSON text; undefined if the session may not read it
 */
export function dataBlock(data: string | undefined): Part {
  return (
    data !== undefined &&
    html`<section aria-labelledby="data">
      <h2 id="data">Data of the event</h2>
      ${
        data === "null"
          ? html`<p class="empty">The data was erased.</p>`
          : html`<pre class="wrap" tabindex="0" role="region" aria-label="Data">
${shortened(prettyJson(data, DATA_MAX), DATA_MAX)}</pre>`
      }
    </section>`
  );
}

/** Returns a link to Temporal's web UI for {@link facts}; empty if its URL is not configured. */
export function temporalFact(
  name: string,
  url: string | undefined,
  text = "Open in Temporal",
): (readonly [string, Part])[] {
  return url === undefined ? [] : [[name, html`<a href="${url}" rel="noreferrer">${text}</a>`]];
}

/** Renders links to Temporal's lists of what is open; false if its web UI is not configured. */
export async function temporalViews(temporal: TemporalUi, now: number): Promise<Part> {
  const views = await openViews(temporal, now);
  return (
    views.length > 0 &&
    html`<section aria-labelledby="temporal">
      <h2 id="temporal">In Temporal</h2>
      ${facts(
        views.map(({ name, shows, url }) => [
          shows.charAt(0).toUpperCase() + shows.slice(1),
          html`<a href="${url}" rel="noreferrer">${name}</a>`,
        ]),
      )}
    </section>`
  );
}
