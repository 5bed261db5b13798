/** Text from others, shown to people: it cannot control a terminal, nor reorder the text around it. */

/** Embeddings, overrides and isolates (Unicode, UAX 9). One that is not ended also ends no isolate around it. */
const EXPLICIT = String.raw`\u202a-\u202e\u2066-\u2069`;
/** Characters that reorder text: these, and marks, which texts from right to left need. */
const REORDERING = String.raw`\u061c\u200e\u200f${EXPLICIT}`;
/** Text that is written from right to left: Hebrew, Arabic and the other scripts of its blocks. */
const RIGHT_TO_LEFT = String.raw`\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}`;
/** JSON escapes C0 alone. */
const NOT_IN_JSON = String.raw`\u007f-\u009f${REORDERING}`;

const CONTROL = new RegExp(String.raw`[\u0000-\u001f${NOT_IN_JSON}]`, "g");
const CONTROL_BEYOND_JSON = new RegExp(`[${NOT_IN_JSON}]`, "g");
const EXPLICIT_ONES = new RegExp(`[${EXPLICIT}]`, "g");
const NEEDS_ISOLATION = new RegExp(`[${REORDERING}${RIGHT_TO_LEFT}]`, "u");

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Returns the text with every control and reordering character as `\u202e`: for one line of a terminal. */
export function escapeControls(text: string): string {
  return text.replaceAll(CONTROL, escaped);
}

/** Returns JSON that means the same, or our own lines of a terminal, without reordering characters, DEL and C1. */
export function escapeBeyondJson(text: string): string {
  return text.replaceAll(CONTROL_BEYOND_JSON, escaped);
}

/** Whether text can change the order of the text around it, unless {@link isolable} text of it is isolated. */
export function needsIsolation(text: string): boolean {
  return NEEDS_ISOLATION.test(text);
}

/** Returns the text without what could leave an isolate around it open, or end it. */
export function isolable(text: string): string {
  return text.replaceAll(EXPLICIT_ONES, escaped);
}

/** Returns the text isolated by characters, for places that hold no elements. */
export function isolated(text: string): string {
  return needsIsolation(text) ? `\u2068${isolable(text)}\u2069` : text;
}
