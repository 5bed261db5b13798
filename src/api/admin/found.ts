import { SignetError } from "../../errors.ts";

/** The row, or `NOT_FOUND`. */
export function found<Row>(row: Row | undefined, noun: string): Row {
  if (row === undefined) {
    throw new SignetError("NOT_FOUND", { detail: `There is no such ${noun}.` });
  }
  return row;
}
