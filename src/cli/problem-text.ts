/** Words the API's problems for the command line: invalid members are named by the flags that set them. */
import type { Command, Option } from "commander";

interface FieldProblem {
  readonly pointer: string;
  readonly detail: string;
}

/** Returns the name of an option or an argument as the API spells it. */
function memberName(name: string): string {
  return name.replace(/^--/, "").replaceAll("-", "_");
}

/** Checks whether an option sets a member: `--header` sets `headers`, `--role` `role_id`, `--days` `expires_in_days`. */
function sets(name: string, member: string): boolean {
  return (
    member === name || member === `${name}s` || member.startsWith(`${name}_`) || member.endsWith(`_${name}`)
  );
}

/** Returns the flag or the argument that sets a member of a request; undefined if there is none. */
function flagOf(command: Command, member: string): string | undefined {
  const wanted = member.replaceAll("-", "_");
  const options = command.options
    .map(({ long }: Option) => long ?? "")
    .filter((long) => long !== "" && sets(memberName(long), wanted))
    .toSorted((one, other) => other.length - one.length);
  const exact = options.find((long) => memberName(long) === wanted);
  const argument = command.registeredArguments.find((each) => memberName(each.name()) === wanted);
  return exact ?? (argument && `<${argument.name()}>`) ?? options[0];
}

/** Returns the place within an option's value: `/0` is its first item, `/team` the member `team`. */
function placeOf(segments: readonly string[]): string {
  return segments
    .map((segment) =>
      /^\d+$/.test(segment)
        ? ` item ${Number(segment) + 1}`
        : ` .${segment.replaceAll("~1", "/").replaceAll("~0", "~")}`,
    )
    .join("");
}

function isFieldProblem(value: unknown): value is FieldProblem {
  const { pointer, detail } = (value ?? {}) as Partial<FieldProblem>;
  return typeof pointer === "string" && typeof detail === "string";
}

/** Names members in a sentence by their flags. Other words contain no underscore. */
function withFlags(command: Command, sentence: string): string {
  return sentence.replaceAll(/\b[a-z0-9]+(?:_[a-z0-9]+)+\b/g, (word) => flagOf(command, word) ?? word);
}

/**
 * Returns the invalid members of a problem as sentences about the command's flags.
 *
 * @param command the command that made the request
 * @returns undefined if the problem lists no members
 */
export function fieldSentences(
  command: Command | undefined,
  problem: Readonly<Record<string, unknown>>,
): string | undefined {
  const { errors } = problem;
  if (
    command === undefined ||
    !Array.isArray(errors) ||
    errors.length === 0 ||
    !errors.every(isFieldProblem)
  ) {
    return undefined;
  }
  return errors
    .map(({ pointer, detail }) => {
      const [, member = "", ...rest] = pointer.split("/");
      const subject = member === "" ? command.name() : (flagOf(command, member) ?? `the member ${member}`);
      return `${subject}${placeOf(rest)} ${withFlags(command, detail)}`;
    })
    .join("; ");
}
