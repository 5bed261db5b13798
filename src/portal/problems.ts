/** Shows the API's errors next to the form fields that cause them. */
import { SignetError } from "#domain/errors.ts";
import { html, type Part } from "./html.ts";
import type { PageContent } from "./layout.ts";

function noticeText(count: number): string | undefined {
  return count === 0 ? undefined : count === 1 ? "One field is invalid." : `${count} fields are invalid.`;
}

interface ApiProblem {
  readonly pointer?: string;
  readonly detail?: string;
}

/** A sentence of the API, adapted to a field: its text was typed, and empty means null. */
function adapted(detail: string): string {
  return detail
    .replace(/, not (?:a string of \d+ characters?|an empty string)$/, "")
    .replace(/ or null(?=,|$)/, " or empty");
}

/** Renders a problem as a sentence, with the label as its subject unless it has one. */
function sentence(problem: string, label: Part): Part {
  const complete = /^[^a-z]/.test(problem);
  return html`${!complete && html`${label} `}${problem}${/[.?]$/.test(problem) ? "" : "."}`;
}

/** Errors of a form's fields; none without an error. */
export class FieldErrors {
  /** Notice above the form; holds the message if no field has an error. */
  readonly notice: PageContent["notice"];
  readonly #byField: ReadonlyMap<string, readonly string[]>;

  constructor(error?: SignetError) {
    const byField = problemsByField(error);
    this.#byField = byField;
    this.notice = error && { kind: "problem", text: noticeText(byField.size) ?? error.message };
  }

  /** Returns the ARIA attributes of a field; `describedBy` is the id of its help text. */
  attributes(field: string, describedBy = ""): Part {
    const wrong = this.has(field);
    const ids = [wrong ? `${field}-error` : "", describedBy].filter((id) => id !== "").join(" ");
    return html`${wrong && html`aria-invalid="true"`} ${ids !== "" && html`aria-describedby="${ids}"`}`;
  }

  /** Checks whether the field has an error. */
  has(field: string): boolean {
    return this.#byField.has(field);
  }

  /** Renders the error of a field as sentences about its label. */
  text(field: string, label: Part): Part {
    const sentences = this.#byField.get(field)?.flatMap((problem) => [" ", sentence(problem, label)]);
    return sentences && html`<p class="error" id="${field}-error">${sentences.slice(1)}</p>`;
  }
}

function problemsByField(error: SignetError | undefined): ReadonlyMap<string, readonly string[]> {
  const listed = (error?.extensions["errors"] ?? []) as readonly ApiProblem[];
  const byField = new Map<string, string[]>();
  for (const { pointer = "", detail = "" } of listed) {
    const [, field = "", ...inside] = pointer.split("/");
    // Keep the place inside the field, such as the name of a header. Drop list indexes: the user typed lines.
    const where = inside.filter((part) => !/^\d+$/.test(part)).join("/");
    byField.set(field, [
      ...(byField.get(field) ?? []),
      where === "" ? adapted(detail) : `${where} ${adapted(detail)}`,
    ]);
  }
  if (error?.code === "TARGET_URL_FORBIDDEN") {
    byField.set("url", [error.message]);
  }
  return byField;
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
