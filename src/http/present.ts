/** Wire forms of rows. A row is named like its columns, so its wire form follows from the schema. */
import type { Static, TProperties, Type } from "typebox";
import { spliceMember } from "./raw-json.ts";

/** What a row holds for a member: a `Date` for a string that is an instant, otherwise the member itself. */
type Stored<Member> = Member extends string
  ? string extends Member
    ? Member | Date
    : Member
  : Member extends readonly (infer Item)[]
    ? readonly Item[]
    : Member;

/** The rows that a schema's wire form can be made from. They may have further members. */
export type RowOf<Properties extends TProperties> = {
  readonly [Name in keyof Static<Type.TObject<Properties>>]: Stored<Static<Type.TObject<Properties>>[Name]>;
};

function wireValue(value: unknown): unknown {
  return value instanceof Date ? value.toISOString() : value;
}

/**
 * Returns the function that copies a schema's members from a row and writes dates as RFC 3339. A row that lacks a member
 * does not compile.
 *
 * Lists and publishing call it for each row. So its body is one literal, made from the schema's names: a loop over the
 * names takes half as long again.
 */
export function presenter<Properties extends TProperties>(
  schema: Type.TObject<Properties>,
): (row: RowOf<Properties>) => Static<Type.TObject<Properties>> {
  const members = Object.keys(schema.properties).map((name) => {
    const key = JSON.stringify(name);
    return `${key}: wireValue(row[${key}])`;
  });
  // oxlint-disable-next-line no-implied-eval -- the text consists of the program's own names
  const bind = new Function("wireValue", `return (row) => ({ ${members.join(", ")} });`) as (
    of: typeof wireValue,
  ) => (row: RowOf<Properties>) => Static<Type.TObject<Properties>>;
  return bind(wireValue);
}

/**
 * Returns the function that writes a row as JSON, with members that are JSON text already. These are the last.
 *
 * @param raw their names in the schema
 */
export function jsonPresenter<Properties extends TProperties, Raw extends keyof Properties & string>(
  schema: Type.TObject<Properties>,
  ...raw: readonly Raw[]
): (row: RowOf<Omit<Properties, Raw>>, texts: Readonly<Record<Raw, string>>) => string {
  const others = Object.entries(schema.properties).filter(([name]) => !raw.some((each) => each === name));
  const properties = Object.fromEntries(others) as unknown as Omit<Properties, Raw>;
  const present = presenter<Omit<Properties, Raw>>({ ...schema, properties });
  return (row, texts) =>
    raw.reduce((text, name) => spliceMember(text, name, texts[name]), JSON.stringify(present(row)));
}
