/** Colours of the terminal. */

const CODES = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 } as const;

export type Colour = keyof typeof CODES;

/** Colours a text, or returns it unchanged where colours are off. */
export type Paint = (colour: Colour | undefined, text: string) => string;

/** Returns the function that colours texts. */
export function painter(enabled: boolean): Paint {
  return (colour, text) =>
    enabled && colour !== undefined ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}

/** Colours of states, of every kind of object. */
const STATES: Readonly<Record<string, Colour>> = {
  ACTIVE: "green",
  CURRENT: "green",
  DELIVERED: "green",
  NEXT: "yellow",
  PAUSED: "yellow",
  PENDING: "yellow",
  RETRYING: "yellow",
  RUNNING: "yellow",
  SUSPENDED: "yellow",
  DEAD_LETTERED: "red",
  DISABLED: "red",
  FAILED: "red",
  failing: "red",
  degraded: "yellow",
  healthy: "green",
  unknown: "dim",
  REVOKED: "red",
  CANCELLED: "dim",
  ENDED: "dim",
  ERASED: "dim",
  EXPIRED: "dim",
  RETIRED: "dim",
  SKIPPED: "dim",
};

/** Returns the colour of a state; undefined for a state in between, or any other text. */
export function colourOfState(state: unknown): Colour | undefined {
  return typeof state === "string" && Object.hasOwn(STATES, state) ? STATES[state] : undefined;
}
