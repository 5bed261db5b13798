/** Commands as their programs read them, as far as that can be known without running them. */

/** Options of a command, with whether a value stands behind them as the next word. */
export type KnownOptions = Readonly<Record<string, boolean>>;

export interface ParsedCommand {
  readonly options: Readonly<Record<string, string>>;
  /** What is left. */
  readonly words: readonly string[];
  /** Options that the command does not have. */
  readonly problems: readonly string[];
}

/** The words of a command as a shell splits them, with quotes taken off. */
export function wordsOf(text: string): readonly string[] {
  return [...text.matchAll(/(?:[^\s"']|"[^"]*"|'[^']*')+/g)].map(([word]) => word.replaceAll(/["']/g, ""));
}

/**
 * Takes options out of a command's words.
 *
 * @param until words that are kept end it: what follows belongs to another command (`exec SERVICE …`)
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
