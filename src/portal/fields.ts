/** Fields of forms that change something: label, what was typed, what helps, and what is wrong with it. */
import { html, type Html, type Part } from "./html.ts";
import type { FieldErrors } from "./problems.ts";

export interface Field {
  /** In the form, and in the API's errors. */
  readonly name: string;
  readonly label: Part;
  readonly optional?: boolean;
  /** As it was typed. */
  readonly value: string;
  readonly help?: Part;
  /** Of the element that is typed into. */
  readonly attributes?: Part;
}

function helpId({ name, help }: Field): string {
  return help === undefined ? "" : `${name}-help`;
}

function around(field: Field, control: Html, errors: FieldErrors): Html {
  const { name, label, optional, help } = field;
  return html`<div class="field">
    <label for="${name}">${label}${optional === true && html` <span class="muted">(optional)</span>`}</label>
    ${control} ${help !== undefined && html`<p class="muted" id="${helpId(field)}">${help}</p>`}
    ${errors.text(name)}
  </div>`;
}

/** A line to type in. */
export function lineField(field: Field, errors: FieldErrors): Html {
  const { name, value, attributes } = field;
  const control = html`<input
    id="${name}"
    name="${name}"
    value="${value}"
    ${attributes}
    ${errors.attributes(name, helpId(field))}
  />`;
  return around(field, control, errors);
}

/** Several lines. */
export function areaField(field: Field, errors: FieldErrors): Html {
  const { name, value, attributes } = field;
  const control = html`<textarea
    id="${name}"
    name="${name}"
    spellcheck="false"
    ${attributes}
    ${errors.attributes(name, helpId(field))}
  >
${value}</textarea>`;
  return around(field, control, errors);
}
