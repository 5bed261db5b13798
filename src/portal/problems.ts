/** What the API refuses, told where a person can mend it. */
import { SignetError } from "../domain/errors.ts";
import { html, type Part } from "./html.ts";
import type { PageContent } from "./layout.ts";

/** What is wrong with the fields of a form. */
export interface FieldErrors {
  /** Attributes of a field that say so; `describedBy` names what describes it anyway. */
  attributes(field: string, describedBy?: string): Part;
  /** Whether something is wrong with the field. */
  has(field: string): boolean;
  /** The words beside a field. */
  text(field: string): Part;
  /** Above the form: what belongs to none of the fields. */
  readonly notice: PageContent["notice"];
}

interface ApiProblem {
  readonly pointer?: string;
  readonly detail?: string;
}

/** The errors of a form that was refused; none without an error. */
export function fieldErrors(error?: SignetError): FieldErrors {
  const listed = (error?.extensions["errors"] ?? []) as readonly ApiProblem[];
  const byField = new Map<string, string[]>();
  for (const { pointer = "", detail = "" } of listed) {
    const [, field = "", ...inside] = pointer.split("/");
    // Where in the field: the name of a header, say. The place in a list means nothing to who typed lines.
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
        : { kind: "problem", text: byField.size > 0 ? "Some fields are not right yet." : error.message },
  };
}

/** The answer, or the error of a caller's mistake; failures of ours go on. */
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
