/** Checks what a program passes to a receiver or a client, so that one with a mistake does not start. */

type Options = Readonly<Record<string, unknown>>;

/**
 * @param within names what has the options, for instance `replayStore.`
 * @throws TypeError that names the option
 */
export function checkFunctions(
  options: Options,
  required: readonly string[],
  optional: readonly string[] = [],
  within = "",
): void {
  for (const name of [...required, ...optional]) {
    const isMissing = options[name] === undefined && optional.includes(name);
    if (!isMissing && typeof options[name] !== "function") {
      throw new TypeError(
        `${within}${name} is ${options[name] === undefined ? "not set" : "not a function"}`,
      );
    }
  }
}

/** @throws TypeError that names the option */
export function checkNumbers(options: Options, names: readonly string[]): void {
  for (const name of names) {
    const value = options[name];
    if (value !== undefined && !(typeof value === "number" && value >= 0)) {
      throw new TypeError(`${name} is not a number of at least 0`);
    }
  }
}

/**
 * Returns a text without surrounding white space, such as the newline at the end of a file.
 *
 * @throws TypeError that names the option
 */
export function readText(options: Options, name: string): string {
  const value = options[name];
  if (typeof value !== "string") {
    throw new TypeError(`${name} is ${value === undefined || value === null ? "not set" : "not a text"}`);
  }
  if (value.trim() === "") {
    throw new TypeError(`${name} is empty`);
  }
  return value.trim();
}
