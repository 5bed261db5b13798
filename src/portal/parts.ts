/** Pieces that pages share. */
import { randomBytes } from "node:crypto";
import { html, type Html, type Part } from "./html.ts";
import type { Visit } from "./visit.ts";

const [MINUTES, SECONDS] = [16, 19];

/** A moment, in UTC for who has no JavaScript; a dash for none. */
export function moment(iso: string | null | undefined): Part {
  if (iso === null || iso === undefined) {
    return "–";
  }
  return html`<time datetime="${iso}">${iso.slice(0, MINUTES).replace("T", " ")} UTC</time>`;
}

/** A moment to the second, where several lie within a minute. */
export function instant(iso: string): Html {
  return html`<time datetime="${iso}" data-seconds>${iso.slice(0, SECONDS).replace("T", " ")} UTC</time>`;
}

/** A state, by colour and by word. */
export function badge(kind: "bad" | "good" | "idle" | "wait", text: string): Html {
  return html`<span class="badge ${kind}">${text}</span>`;
}

/** The hidden fields of every form: it comes from this session's page, and is done once however often it is sent. */
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
  /** Of the button, where the page replaces it by itself: who is at it stays there. */
  readonly id?: string;
  readonly kind?: "danger" | "primary" | "quiet";
}

/** A button that does one thing. */
export function buttonForm(visit: Visit, { action, label, kind, id }: ButtonForm): Html {
  const attributes = html`${id !== undefined && html`id="${id}"`}
  ${kind !== undefined && html`class="${kind}"`}`;
  return html`<form method="post" action="${action}">
    ${formFields(visit)}<button ${attributes}>${label}</button>
  </form>`;
}

/** Something destructive, done once its name has been typed. */
export function typedConfirmation(
  visit: Visit,
  {
    action,
    label,
    type: expected,
    id,
    warning,
  }: ButtonForm & {
    readonly type: string;
    readonly id: string;
    readonly warning: Part;
  },
): Html {
  return html`<form method="post" action="${action}" class="confirm">
    ${formFields(visit)}
    <p>${warning}</p>
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

/** Names and values. */
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

/** The way to what comes after this page of a list, and back to its beginning from a page that has one before it. */
export function nextPage(path: string, cursor: string | null, isFirst = true): Part {
  return (
    (cursor !== null || !isFirst) &&
    html`<nav class="more" aria-label="Pages">
      ${!isFirst && html`<a class="button" href="${path}">Newest</a>`}
      ${
        cursor !== null &&
        html`<a
          class="button"
          href="${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}"
          >Older</a
        >`
      }
    </nav>`
  );
}

/**
 * A table that can be scrolled sideways, also by keyboard. On a phone each row is a card, whose cells say what they are;
 * the roles are written out since tables that are drawn otherwise lose them in some browsers.
 */
export function table(label: string, headings: readonly string[], rows: readonly (readonly Part[])[]): Html {
  return html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
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

/** JSON that can be scrolled, also by keyboard. */
export function jsonBlock(label: string, value: unknown): Html {
  return textBlock(label, JSON.stringify(value, undefined, 2));
}

/** Text as it is, that can be scrolled, also by keyboard. */
export function textBlock(label: string, text: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">${text}</pre>`;
}

/** The way into Temporal's web UI, as one of the {@link facts}; none where the portal does not know it. */
export function workflowFact(visit: Visit, name: string, workflowId: string): (readonly [string, Part])[] {
  const url = visit.workflowUrl(workflowId);
  return url === undefined ? [] : [[name, html`<a href="${url}" rel="noreferrer">Open in Temporal</a>`]];
}
