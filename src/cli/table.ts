/** Tables for people, fitted to the width of the terminal. */
import type { Colour } from "./colours.ts";

/** Gap between two columns, in characters. */
const GAP = 2;
/** Width to which a column of free text may shrink, in characters. */
const NARROW = 12;
/** Ids are copied, so they are never cut. */
const ID = /^[a-z]{2,4}_\w{16,}$/;

export interface Cell {
  readonly text: string;
  /** Times and states are never cut. */
  readonly whole?: boolean;
  readonly colour?: Colour | undefined;
}

export interface Table {
  readonly lines: readonly string[];
  /** Headings of the last columns, which do not fit. */
  readonly hidden: readonly string[];
}

interface Column {
  readonly heading: string;
  readonly cells: readonly Cell[];
  /** Width of the longest cell. */
  readonly full: number;
  /** Width to which the column may shrink. */
  readonly least: number;
}

/** Returns the width of a text in characters of the terminal, apart from wide and combining ones. */
export function widthOf(text: string): number {
  return Array.from(text).length;
}

/** Cuts a text at `width` characters; the last one shows the cut. */
export function cut(text: string, width: number): string {
  const characters = Array.from(text);
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join("")}…`;
}

function columnOf(heading: string, cells: readonly Cell[]): Column {
  const full = Math.max(...[heading, ...cells.map(({ text }) => text)].map(widthOf));
  const whole = cells.some(({ text, whole: kept }) => kept === true || ID.test(text));
  return { heading, cells, full, least: whole ? full : Math.min(full, Math.max(NARROW, widthOf(heading))) };
}

function leastWidth(columns: readonly Column[]): number {
  return columns.reduce((sum, { least }) => sum + least, GAP * (columns.length - 1));
}

/** Returns the number of first columns that fit the width, at least one. */
function fittingColumns(columns: readonly Column[], width: number): number {
  const tooMany = columns.findIndex((_column, index) => leastWidth(columns.slice(0, index + 1)) > width);
  return tooMany === -1 ? columns.length : Math.max(1, tooMany);
}

/** Distributes the width: the narrowest column with cut cells grows first. */
function widthsOf(columns: readonly Column[], width: number): number[] {
  const widths = columns.map(({ least }) => least);
  for (let left = width - leastWidth(columns); left > 0; left -= 1) {
    const growing = columns
      .map(({ full }, index) => ({ index, now: widths[index] ?? 0, full }))
      .filter(({ now, full }) => now < full)
      .toSorted((one, other) => one.now - other.now)[0];
    if (growing === undefined) {
      break;
    }
    widths[growing.index] = growing.now + 1;
  }
  return widths;
}

/**
 * Lays out a table. Cells of free text are cut first; then the last columns are left out.
 *
 * @param rows the cells of each row, in the order of the headings
 * @param width of the terminal, in characters; undefined for no limit
 */
export function layTable(
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  {
    width,
    paint,
  }: { readonly width: number | undefined; readonly paint: (cell: Cell, text: string) => string },
): Table {
  const all = headings.map((heading, index) =>
    columnOf(
      heading,
      rows.map((row) => row[index] ?? { text: "" }),
    ),
  );
  const columns = width === undefined ? all : all.slice(0, fittingColumns(all, width));
  const widths = width === undefined ? columns.map(({ full }) => full) : widthsOf(columns, width);
  const line = (cells: readonly Cell[]): string =>
    cells
      .map((cell, index) => {
        const room = widths[index] ?? 0;
        const text = cut(cell.text, room);
        const space = " ".repeat(index === cells.length - 1 ? 0 : room - widthOf(text) + GAP);
        return paint(cell, text) + space;
      })
      .join("")
      .trimEnd();
  return {
    lines: [
      line(columns.map(({ heading }) => ({ text: heading }))),
      ...rows.map((_row, index) => line(columns.map(({ cells }) => cells[index] ?? { text: "" }))),
    ],
    hidden: all.slice(columns.length).map(({ heading }) => heading),
  };
}
