/** Pieces that pages share. */
import { randomBytes } from "node:crypto";
import { html, type Html, type Part } from "./html.ts";
import type { Visit } from "./visit.ts";

/** A moment, in UTC for who has no JavaScript; a dash for none. */
export function moment(iso: string | null | undefined): Part {
  if (iso === null || iso === undefined) {
    return "–";
  }
  return html`<time datetime="${iso}">${iso.slice(0, 16).replace("T", " ")} UTC</time>`;
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
  readonly kind?: "danger" | "primary" | "quiet";
}

/** A button that does one thing. */
export function buttonForm(visit: Visit, { action, label, kind }: ButtonForm): Html {
  return html`<form method="post" action="${action}">
    ${formFields(visit)}<button ${kind === undefined ? "" : html`class="${kind}"`}>${label}</button>
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

/** The way to what comes after this page of a list. */
export function nextPage(path: string, cursor: string | null): Part {
  return (
    cursor !== null &&
    html`<p class="more">
      <a href="${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}">Older</a>
    </p>`
  );
}

/** A table that can be scrolled sideways, also by keyboard. */
export function table(label: string, headings: readonly string[], rows: readonly (readonly Part[])[]): Html {
  return html`<div class="scroll" role="region" aria-label="${label}" tabindex="0">
    <table>
      <thead>
        <tr>
          ${headings.map((heading) => html`<th scope="col">${heading}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (cells) =>
            html`<tr>
              ${cells.map((cell) => html`<td>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** JSON that can be scrolled, also by keyboard. */
export function jsonBlock(label: string, value: unknown): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}">
${JSON.stringify(value, undefined, 2)}</pre>`;
}

/** The way into Temporal's web UI, as one of the {@link facts}; none where the portal does not know it. */
export function workflowFact(visit: Visit, name: string, workflowId: string): (readonly [string, Part])[] {
  const url = visit.workflowUrl(workflowId);
  return url === undefined ? [] : [[name, html`<a href="${url}" rel="noreferrer">Open in Temporal</a>`]];
}
