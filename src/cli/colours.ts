/** Colours of the terminal. */
import { SHOWN_STATES, type Tone } from "#domain/shown-states.ts";

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

/** Returns the colour of a state; undefined for any other text. */
export function colourOfState(state: unknown): Colour | undefined {
  return typeof state === "string" && Object.hasOwn(SHOWN_STATES, state)
    ? TONES[SHOWN_STATES[state as keyof typeof SHOWN_STATES].tone]
    : undefined;
}
