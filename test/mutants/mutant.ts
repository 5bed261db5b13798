/** A deliberate fault in the product, which the tests must notice. */

/** One fault: an exact replacement in one file. */
export interface Mutant {
  /** Unique name, for `--only`. */
  readonly name: string;
  /** The promise that it breaks, with its place: a section of the specification, or the design. */
  readonly breaks: string;
  /** Path in the repository. */
  readonly file: string;
  /** Occurs exactly once in the file. */
  readonly find: string;
  /** Must compile: a fault that no process starts with would be noticed by any test. */
  readonly replace: string;
  /** The test file that should fail. `npm test` runs those in test/unit, test/machine and test/promises. */
  readonly caughtBy: string;
}

/**
 * Returns the file's text with the fault.
 *
 * @throws Error if the text to replace does not occur exactly once: the code has moved on, and the list has not
 */
export function withFault(text: string, { name, file, find, replace }: Mutant): string {
  const found = text.split(find).length - 1;
  if (found !== 1 || replace === find) {
    throw new Error(`${name}: the text to replace occurs ${found} times in ${file}`);
  }
  // As a function, because a string may contain patterns such as $1.
  return text.replace(find, () => replace);
}
