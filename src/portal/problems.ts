/** Shows the API's errors next to the form fields that cause them. */
import { SignetError } from "../domain/errors.ts";
import { html, type Part } from "./html.ts";
import type { PageContent } from "./layout.ts";

/** Errors of a form's fields. */
export interface FieldErrors {
  /** Returns the ARIA attributes of a field; `describedBy` is the id of its help text. */
  attributes(field: string, describedBy?: string): Part;
  /** Checks whether the field has an error. */
  has(field: string): boolean;
  /** Renders the error of a field. */
  text(field: string): Part;
  /** Notice above the form; holds the message if no field has an error. */
  readonly notice: PageContent["notice"];
}

interface ApiProblem {
  readonly pointer?: string;
  readonly detail?: string;
}

/** Returns the errors of a rejected form; empty without an error. */
export function fieldErrors(error?: SignetError): FieldErrors {
  const listed = (error?.extensions["errors"] ?? []) as readonly ApiProblem[];
  const byField = new Map<string, string[]>();
  for (const { pointer = "", detail = "" } of listed) {
    const [, field = "", ...inside] = pointer.split("/");
    // Keep the place inside the field, such as the name of a header. Drop list indexes: the user typed lines.
    const where = inside.filter((part) => !/^\d+$/.test(part)).join("/");
    byField.set(field, [...(byField.get(field) ?? []), where === "" ? detail : `${where} ${detail}`]);
  }
  if (error?.code === "TARGET_URL_FORBIDDEN") {
    byField.set("url", [error.message]);
  }
  return {
    attributes: (field, describedBy = "") => {
      const wrong = byField.has(field);
      const ids = [wrong ? `${field}-error` : "", describedBy].filter((id) => id !== "").join(" ");
      return html`${wrong && html`aria-invalid="true"`} ${ids !== "" && html`aria-describedby="${ids}"`}`;
    },
    has: (field) => byField.has(field),
    text: (field) => {
      const problems = byField.get(field);
      return problems && html`<p class="error" id="${field}-error">${problems.join("; ")}</p>`;
    },
    notice:
      error === undefined
        ? undefined
        : { kind: "problem", text: byField.size > 0 ? "Some fields are invalid." : error.message },
  };
}

/** Returns the answer, or the error if its status is below 500; throws all other errors. */
export async function refused<Answer>(
  asking: Promise<Answer>,
): Promise<{ readonly answer: Answer } | { readonly error: SignetError }> {
  try {
    return { answer: await asking };
  } catch (error) {
    if (error instanceof SignetError && error.status < 500) {
      return { error };
    }
    throw error;
  }
}
