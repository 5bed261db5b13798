/** Colours of the terminal. */
import {
  type Shown,
  SHOWN_DELIVERIES,
  SHOWN_ENDPOINTS,
  SHOWN_HEALTH,
  type Tone,
} from "#domain/shown-states.ts";

const CODES = { red: 31, green: 32, yellow: 33, dim: 2, bold: 1 } as const;

export type Colour = keyof typeof CODES;

/** Colours a text, or returns it unchanged where colours are off. */
export type Paint = (colour: Colour | undefined, text: string) => string;

/** Returns the function that colours texts. */
export function painter(enabled: boolean): Paint {
  return (colour, text) =>
    enabled && colour !== undefined ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text;
}

const TONES: Readonly<Record<Tone, Colour>> = { bad: "red", good: "green", idle: "dim", wait: "yellow" };

/** Tones of states, of every kind of object. */
const STATES: Readonly<Record<string, Tone>> = {
  CURRENT: "good",
  NEXT: "wait",
  PAUSED: "wait",
  RUNNING: "wait",
  SUSPENDED: "wait",
  FAILED: "bad",
  REVOKED: "bad",
  ENDED: "idle",
  ERASED: "idle",
  RETIRED: "idle",
  SKIPPED: "idle",
  ...tonesOf(SHOWN_DELIVERIES),
  ...tonesOf(SHOWN_ENDPOINTS),
  ...tonesOf(SHOWN_HEALTH),
};

function tonesOf(shown: Readonly<Record<string, Shown>>): Record<string, Tone> {
  return Object.fromEntries(Object.entries(shown).map(([state, { tone }]) => [state, tone]));
}

/** Returns the colour of a state; undefined for any other text. */
export function colourOfState(state: unknown): Colour | undefined {
  const tone = typeof state === "string" && Object.hasOwn(STATES, state) ? STATES[state] : undefined;
  return tone === undefined ? undefined : TONES[tone];
}
