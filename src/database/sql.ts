/** Statements whose parameters stand at their places in the text. */

/** A value that `pg` can send. `undefined` is missing, because it would become NULL by accident. */
type SqlValue = string | number | boolean | Date | Buffer | null | readonly SqlValue[];

/** A part of a statement's text, for instance a list of columns. Must not contain input. */
class SqlText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** Marks text of the program for {@link sql}, so that it becomes part of the statement and not a parameter. */
export function raw(text: string): SqlText {
  return new SqlText(text);
}

/** A statement for `query`. Spread it beside a `name` to prepare it. */
export interface Statement {
  readonly text: string;
  readonly values: unknown[];
}

/** The texts of statements without {@link raw} parts, by their template. */
const texts = new WeakMap<TemplateStringsArray, string>();

function textOf(template: TemplateStringsArray, inserted: readonly (SqlValue | SqlText)[]): string {
  let parameters = 0;
  return template.reduce((text, part, index) => {
    const before = inserted[index - 1];
    return text + (before instanceof SqlText ? before.text : `$${(parameters += 1)}`) + part;
  });
}

/**
 * Creates a statement from a template: sql`SELECT … WHERE id = ${id}`. Each value becomes a parameter, and a repeated
 * value becomes several. The text depends only on the template and its {@link raw} parts.
 */
export function sql(template: TemplateStringsArray, ...inserted: (SqlValue | SqlText)[]): Statement {
  const values = inserted.filter((value) => !(value instanceof SqlText));
  if (values.length < inserted.length) {
    return { text: textOf(template, inserted), values };
  }
  const text = texts.get(template) ?? textOf(template, inserted);
  texts.set(template, text);
  return { text, values };
}
