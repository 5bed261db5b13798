/** Returns the message of a thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns a message as one line, without OpenSSL's codes and places in its sources. */
export function inOneLine(message: string): string {
  return message
    .replaceAll(/(?:[\dA-F]{8,16}:)?error:[\dA-F]{8}:[^:]*:[^:]*:([^:]*):[^:]*:\d+:/g, "$1 ")
    .replaceAll(/\s+/g, " ")
    .trim();
}

/** Returns the name and the message of another service's failure, whose message alone may say little. */
export function failureOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return String(error);
  }
  const code = "code" in error && typeof error.code === "string" ? error.code : "no message";
  const name = error.name === "Error" ? "" : `${error.name}: `;
  return `${name}${error.message === "" ? code : error.message}`;
}
