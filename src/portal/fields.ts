/** Form fields: label, value, help text and error. */
import { html, type Html, type Part } from "./html.ts";
import type { FieldErrors } from "./problems.ts";

export interface Field {
  /** Name in the form and in the API's errors. */
  readonly name: string;
  /** Id of the element, by default its name; distinguishes the fields of several forms. */
  readonly id?: string;
  readonly label: Part;
  readonly optional?: boolean;
  /** Value as typed. */
  readonly value: string;
  readonly help?: Part;
  /** HTML attributes of the input element. */
  readonly attributes?: Part;
}

function helpId({ name, id = name, help }: Field): string {
  return help === undefined ? "" : `${id}-help`;
}

function around(field: Field, control: Html, errors: FieldErrors): Html {
  const { name, id = name, label, optional, help } = field;
  return html`<div class="field">
    <label for="${id}">${label}${optional === true && html` <span class="muted">(optional)</span>`}</label>
    ${control} ${help !== undefined && html`<p class="muted" id="${helpId(field)}">${help}</p>`}
    ${errors.text(name, label)}
  </div>`;
}

/** Renders a one-line input. */
export function lineField(field: Field, errors: FieldErrors): Html {
  const { name, id = name, value, attributes } = field;
  const control = html`<input
    id="${id}"
    name="${name}"
    value="${value}"
    ${attributes}
    ${errors.attributes(name, helpId(field))}
  />`;
  return around(field, control, errors);
}

/** Renders a text area. */
export function areaField(field: Field, errors: FieldErrors): Html {
  const { name, id = name, value, attributes } = field;
  const control = html`<textarea
    id="${id}"
    name="${name}"
    spellcheck="false"
    ${attributes}
    ${errors.attributes(name, helpId(field))}
  >
${value}</textarea>`;
  return around(field, control, errors);
}
