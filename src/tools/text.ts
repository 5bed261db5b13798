/** Texts of generated documents and code. */

/** Returns a table in Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [head, head.map(() => "---"), ...rows].map(line).join("\n");
}

/** Returns a text as it may stand in a table. */
export function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

/** Returns a text that begins with a capital. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Returns the words in lines of limited width, each with this indentation. */
export function wrapped(text: string, indentation: string, width: number): string[] {
  const [first = "", ...words] = text.split(/\s+/);
  const lines = [indentation + first];
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`;
    if (longer.length > width) {
      lines.push(indentation + word);
    } else {
      lines[lines.length - 1] = longer;
    }
  }
  return lines;
}
