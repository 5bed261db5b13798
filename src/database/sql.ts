/** Statements whose parameters stand at their places in the text. */

/** A value that `pg` can send. Excludes `undefined`, which would become NULL by accident. */
type SqlValue = string | number | boolean | Date | Buffer | null | readonly SqlValue[];

/** The texts of statements that consist of one template. */
const texts = new WeakMap<readonly string[], string>();

/** A statement for `query`, or a part of one. Spread it beside a `name` to prepare it. */
export interface Statement {
  readonly text: string;
  readonly values: SqlValue[];
}

class Composable implements Statement {
  readonly text: string;
  readonly values: SqlValue[];
  /** The text before, between and after the values. */
  readonly #pieces: readonly string[];

  constructor(pieces: readonly string[], values: SqlValue[]) {
    this.#pieces = pieces;
    this.values = values;
    this.text = texts.get(pieces) ?? pieces.reduce((text, piece, number) => `${text}$${number}${piece}`);
  }

  /** Puts statements and values between the strings of a template. */
  static fill(
    [first = "", ...others]: readonly string[],
    inserted: readonly (SqlValue | Statement)[],
  ): Composable {
    const pieces = [first];
    const values: SqlValue[] = [];
    for (const [index, item] of inserted.entries()) {
      const part = item instanceof Composable ? item.#pieces : ["", ""];
      pieces[pieces.length - 1] += part[0] ?? "";
      pieces.push(...part.slice(1));
      pieces[pieces.length - 1] += others[index] ?? "";
      values.push(...(item instanceof Composable ? item.values : [item as SqlValue]));
    }
    return new Composable(pieces, values);
  }
}

/**
 * Creates a statement from a template: sql`SELECT … WHERE id = ${id}`. Each value becomes a parameter, and a repeated
 * value becomes several. Another statement becomes a part of it.
 */
export function sql(template: TemplateStringsArray, ...inserted: (SqlValue | Statement)[]): Statement {
  if (inserted.some((item) => item instanceof Composable)) {
    return Composable.fill(template, inserted);
  }
  const statement = new Composable(template, inserted as SqlValue[]);
  texts.set(template, statement.text);
  return statement;
}

/** Makes text of the program a part of a statement, for instance a list of columns. Must not contain input. */
export function raw(text: string): Statement {
  return new Composable([text], []);
}

/**
 * SQL that finds the rows of a table for each row of a join. Without OFFSET, the planner could read the whole table for
 * each, if it believes that to be small: thousands of new endpoints, or a new day, have no statistics for a minute.
 */
export function lateral(table: string, alias: string, condition: string, columns = "*"): string {
  return `LATERAL (SELECT ${columns} FROM ${table} ${alias} WHERE ${condition} OFFSET 0) ${alias}`;
}
