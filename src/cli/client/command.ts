/** Declares a tenant's commands: their common options, arguments and examples. */
import { readFile } from "node:fs/promises";
import { text as readStream } from "node:stream/consumers";
import type { Command } from "commander";
import { RawJson } from "#lib/client/raw-json.ts";
import { messageOf } from "#runtime/thrown.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { type ClientOptions, openClient, type OpenClient } from "./open-client.ts";

/** A parsed command line and the client to run it with. */
export interface Invocation<Options extends ClientOptions> extends OpenClient {
  readonly args: readonly (string | undefined)[];
  /** The first argument, or empty if the command has none. */
  readonly target: string;
  readonly options: Options;
}

/** Adds the common options and runs the command as a tenant. */
export function asTenant<Options extends ClientOptions>(
  command: Command,
  context: CliContext,
  run: (invocation: Invocation<Options>) => Promise<void>,
): Command {
  return command
    .option("--profile <name>", "profile that `signet login` saved")
    .option("--json", "print the API's object as JSON")
    .action(async (...given: unknown[]) => {
      const invoked = given.at(-1) as Command;
      const options = invoked.opts<Options>();
      const args = invoked.processedArgs as (string | undefined)[];
      const client = await openClient(context, options);
      await run({ ...client, args, target: args[0] ?? "", options });
    });
}

/** Adds examples to a command's help and to docs/cli.md. */
export function withExamples(command: Command, ...lines: readonly string[]): Command {
  examples.set(command, lines);
  return command.addHelpText("after", `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`);
}

const examples = new WeakMap<Command, readonly string[]>();

/** Returns the examples that {@link withExamples} added. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? [];
}

/** Removes a byte order mark, which editors and shells of Windows write. */
export function withoutMark(text: string): string {
  return text.replace(/^\ufeff/, "");
}

/** Reads an option's value: the content of a file for `@file`, standard input for `-`, otherwise the value itself. */
export async function argumentText(option: string, value: string): Promise<string> {
  try {
    if (value === "-") {
      return withoutMark(await readStream(process.stdin));
    }
    return value.startsWith("@") ? withoutMark(await readFile(value.slice(1), "utf8")) : value;
  } catch (error) {
    throw new CommandError(`${option}: ${messageOf(error)}`, { cause: error });
  }
}

/** Reads a JSON value and keeps its text unchanged. */
export async function jsonArgument(option: string, value: string): Promise<RawJson> {
  const text = await argumentText(option, value);
  try {
    return new RawJson(text);
  } catch (error) {
    throw misused(`${option} is ${messageOf(error)}`);
  }
}

/** Reads a JSON object and keeps its text unchanged. */
export async function objectArgument(option: string, value: string): Promise<RawJson> {
  const read = await jsonArgument(option, value);
  if (!read.text.trimStart().startsWith("{")) {
    throw misused(`${option} takes a JSON object.`);
  }
  return read;
}

/** Reads a JSON object, or `null`, which removes a setting. */
export async function objectOrNull(option: string, value: string): Promise<object | null> {
  return value === "null" ? null : await objectArgument(option, value);
}

/** Parses a whole number. */
export function wholeNumber(option: string, value: string): number {
  if (!/^\d{1,9}$/.test(value)) {
    throw misused(`${option} takes a whole number.`);
  }
  return Number(value);
}

/** Returns an object from any number of `key=value` pairs. */
export function membersOf(
  option: string,
  pairs: readonly string[] | undefined,
): Readonly<Record<string, string>> | undefined {
  if (pairs === undefined) {
    return undefined;
  }
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, key, value] = /^([^=]+)=(.*)$/s.exec(pair) ?? [];
      if (key === undefined || value === undefined) {
        throw misused(`${option} takes key=value, not ${pair}`);
      }
      return [key, value];
    }),
  );
}

/** Splits a list at spaces and commas: `a,b c` → `["a", "b", "c"]`. */
export function words(value: string): string[] {
  return value.split(/[\s,]+/).filter((word) => word !== "");
}
