/** Parses commands as their programs would, as far as possible without running them. */

/** Options of a command, and whether each takes a value. */
export type KnownOptions = Readonly<Record<string, boolean>>;

export interface ParsedCommand {
  readonly options: Readonly<Record<string, string>>;
  /** The remaining words. */
  readonly words: readonly string[];
  /** Unknown options. */
  readonly problems: readonly string[];
}

/** Splits a command into words like a shell and removes quotes. */
export function wordsOf(text: string): readonly string[] {
  return [...text.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) => word.replaceAll(/["']/g, ""));
}

/**
 * Removes the options from a command's words.
 *
 * @param until maximum number of remaining words; later words belong to another command (`exec SERVICE …`)
 */
export function parseOptions(
  words: readonly string[],
  known: KnownOptions,
  until = Number.POSITIVE_INFINITY,
): ParsedCommand {
  const options: Record<string, string> = {};
  const kept: string[] = [];
  const problems: string[] = [];
  const left = [...words];
  while (left.length > 0 && kept.length < until) {
    const word = left.shift() ?? "";
    const [name = "", value] = word.split("=", 2);
    if (!word.startsWith("-")) {
      kept.push(word);
    } else if (known[name] === undefined) {
      problems.push(`there is no ${name}`);
    } else {
      options[name] = value ?? (known[name] ? (left.shift() ?? "") : "");
    }
  }
  return { options, words: [...kept, ...left], problems };
}
