/** Every command and option of `signet` in a document, a message or a comment exists. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  examples,
  mentionedCommands,
  type Mention,
  misunderstood,
  pastedCommands,
  unknownPart,
} from "#test/support/documented-commands.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
/** `npm start` prints these as lines of its own; they are not commands. */
const NO_COMMANDS = new Set(["ready", "start"]);

async function filesOf(directory: string, ending: RegExp): Promise<string[]> {
  const names = await readdir(join(REPOSITORY, directory), { recursive: true });
  return names.filter((name) => ending.test(name)).map((name) => join(directory, name));
}

async function documents(): Promise<string[]> {
  const top = (await readdir(REPOSITORY)).filter((name) => name.endsWith(".md"));
  return [
    ...top,
    ...(await filesOf("docs", /\.md$/)),
    ...(await filesOf("deploy", /\.(md|ya?ml|json)$/)),
    ...(await filesOf("src/processes/packages", /\.md$/)),
  ];
}

async function faults(
  paths: readonly string[],
  find: (text: string) => readonly Mention[],
  faultOf: (mention: Mention) => Promise<string | undefined> | string | undefined,
): Promise<{ readonly seen: number; readonly found: readonly string[] }> {
  let seen = 0;
  const found: string[] = [];
  for (const path of paths) {
    const mentions = find(await readFile(join(REPOSITORY, path), "utf8"));
    for (const mention of mentions.filter(({ words: [first = ""] }) => !NO_COMMANDS.has(first))) {
      seen += 1;
      const fault = await faultOf(mention);
      if (fault !== undefined) {
        found.push(`${path}:${mention.line}: signet ${mention.words.join(" ")}: ${fault}`);
      }
    }
  }
  return { seen, found };
}

it("the commands of shell blocks are parsed correctly", async () => {
  const { seen, found } = await faults(
    await documents(),
    pastedCommands,
    async ({ words }) => await misunderstood(words),
  );
  expect(found).toEqual([]);
  // docs/cli.md alone has an example for every other command.
  expect(seen).toBeGreaterThan(examples().length);
});

it("the commands and options in documents exist", async () => {
  const { seen, found } = await faults(await documents(), mentionedCommands, unknownPart);
  expect(found).toEqual([]);
  expect(seen).toBeGreaterThan(100);
});

it("those in messages, help and comments of the code exist", async () => {
  const { seen, found } = await faults(
    await filesOf("src", /\.(ts|mjs|js)$/),
    mentionedCommands,
    unknownPart,
  );
  expect(found).toEqual([]);
  expect(seen).toBeGreaterThan(50);
});

it("a missing command is found", async () => {
  const faultsOf = async (line: string): Promise<string[]> =>
    await Promise.all(
      pastedCommands(`\`\`\`sh\n${line}\n\`\`\`\n`).map(
        async ({ words }) => (await misunderstood(words)) ?? words.join(" "),
      ),
    );
  expect(await faultsOf("A=$(npx signet role lst --tenant $T | json .id) # signet nothing")).toEqual([
    expect.stringContaining("unknown command 'lst'"),
  ]);
  expect(await faultsOf("npx @a-b/cli role lst && npx -p @a-b/cli -p pg signet rol")).toEqual([
    expect.stringContaining("unknown command 'lst'"),
    expect.stringContaining("unknown command 'rol'"),
  ]);
  expect(await faultsOf("signet audit verify; X=1 signet whoami --jsn")).toEqual([
    expect.stringContaining("--vkey"),
    expect.stringContaining("--jsn"),
  ]);
  expect(await faultsOf(`signet event publish a.b --data '{"run":"a b"}' > x`)).toEqual([
    `event publish a.b --data {"run":"a b"}`,
  ]);
  const mentions = mentionedCommands("`signet keys list | rotat` `signet grade URL --jsn` `signet tenants`");
  expect(mentions.map(unknownPart)).toEqual([
    "signet keys has no rotat",
    "signet grade has no --jsn",
    "signet has no tenants",
  ]);
});
