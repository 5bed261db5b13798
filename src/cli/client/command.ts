/** How a tenant's commands are declared: options that all of them take, and what they get to work with. */
import { readFile } from "node:fs/promises";
import { text as readStream } from "node:stream/consumers";
import type { Command } from "commander";
import { RawJson } from "../../lib/client/raw-json.ts";
import { messageOf } from "../../runtime/thrown.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { type ClientOptions, openClient, type OpenClient } from "./open-client.ts";

/** A command line that was understood. */
export interface Invocation<Options extends ClientOptions> extends OpenClient {
  readonly args: readonly (string | undefined)[];
  /** The first argument, where the command has a required one. */
  readonly target: string;
  readonly options: Options;
}

/** Lets the command run as a tenant. */
export function asTenant<Options extends ClientOptions>(
  command: Command,
  context: CliContext,
  run: (invocation: Invocation<Options>) => Promise<void>,
): Command {
  return command
    .option("--profile <name>", "a profile that `signet login` has written")
    .option("--json", "print the API's object")
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

/** What {@link withExamples} was given. */
export function examplesOf(command: Command): readonly string[] {
  return examples.get(command) ?? [];
}

/** What an option's argument says: itself, `@file`, or standard input where it is `-`. */
async function argumentText(option: string, value: string): Promise<string> {
  try {
    if (value === "-") {
      return await readStream(process.stdin);
    }
    return value.startsWith("@") ? await readFile(value.slice(1), "utf8") : value;
  } catch (error) {
    throw new CommandError(`${option}: ${messageOf(error)}`, { cause: error });
  }
}

/** JSON, as it was written. */
export async function jsonArgument(option: string, value: string): Promise<RawJson> {
  const text = await argumentText(option, value);
  try {
    return new RawJson(text);
  } catch (error) {
    throw misused(`${option} is ${messageOf(error)}`);
  }
}

/** The same, of an object. */
export async function objectArgument(option: string, value: string): Promise<RawJson> {
  const read = await jsonArgument(option, value);
  if (!read.text.trimStart().startsWith("{")) {
    throw misused(`${option} takes a JSON object.`);
  }
  return read;
}

/** The same, or `null`, which takes away. */
export async function objectOrNull(option: string, value: string): Promise<object | null> {
  return value === "null" ? null : await objectArgument(option, value);
}

/** A whole number that was typed. */
export function wholeNumber(option: string, value: string): number {
  if (!/^\d{1,9}$/.test(value)) {
    throw misused(`${option} takes a whole number.`);
  }
  return Number(value);
}

/** `key=value`, any number of times, as members of an object. */
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

/** `a,b c` → `["a", "b", "c"]`. */
export function words(value: string): string[] {
  return value.split(/[\s,]+/).filter((word) => word !== "");
}
