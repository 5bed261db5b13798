/** docs/cli.md, made from the commands themselves. */
import { allCommands, type CommandNode, commandTree, type OptionNode } from "#cli/command-tree.ts";
import { EXIT_CODES } from "#cli/exit-codes.ts";
import { createProgram } from "#cli/program.ts";
import { PACKAGES } from "#runtime/package.ts";
import { capitalized, cell, table } from "./text.ts";

const INTRODUCTION = `# Command line

Install it with \`npm install --global ${PACKAGES.cli}\`, or run \`npx ${PACKAGES.cli} …\`. A clone has it as \`npx signet …\`, the image and \`${PACKAGES.server}\` as \`signet …\`; only these three run the service. This page is made from the commands themselves by \`npm run docs\`; \`signet COMMAND --help\` says the same.

**Output.** An object is printed with one line per member, a list as a table. \`--json\` prints the API's answer; with \`--all\`, one object per line. Other information goes to standard error: errors as \`CODE: detail (request id)\`, the cursor of the next page, progress. Errors name invalid members by their flags. Progress bars and colours appear on a terminal only; \`NO_COLOR\` disables the colours, \`FORCE_COLOR\` enables them everywhere. Characters that control a terminal or reorder a line are escaped in texts of others; on a terminal, also in exports.

**Tables** fit the terminal: long texts are cut, then the last columns are left out; ids, states and times stay whole. \`--wide\`, a pipe and a file get everything. Tables show local times, objects and JSON those of the API. Bodies of responses are printed with \`--body\` only.

**Times** such as \`--from\` are a duration ago (\`90m\`, \`2h\`, \`1d12h\`), a time of day (\`02:00\`, the newest one), a date (\`2026-11-22\`, \`"2026-11-22 02:00"\`) or RFC 3339. Without a zone they are local.

The package has no dependencies, and 3.0 MB. It is not on npm yet: \`npm run packages\` in a clone makes it, and \`npm install --global --install-links ./dist/packages/cli\` installs it.

**Speed.** A command starts from a bundle without the service, with 0.1 s of CPU. In a clone, \`.signet/bundles\` holds it, and the first command makes it. Each start compares size and time of the files in the bundle, and of the lockfile; after a change, it is made again.

**Who a tenant's command is**, in this order: \`--profile NAME\`; \`SIGNET_CLIENT_ID\` with \`SIGNET_CLIENT_SECRET\` (or \`_FILE\`); the profile that \`SIGNET_PROFILE\` names, else \`default\`; in development, the demo tenant that \`npm start\` has made in \`SIGNET_HOME\`. \`signet whoami\` says which it was. A profile is two files in \`~/.config/signet\` (\`SIGNET_CONFIG_DIR\`) that their owner alone can read, written by \`signet login\` after the credential has worked; when the secret is rotated, the file follows. Do not share one profile between machines: give each a credential.

**The API** is at \`SIGNET_API_URL\`, else at the profile's address, else at \`SIGNET_API_LISTEN\` on this machine. Operators' commands use \`SIGNET_ADMIN_URL\` and an operator's token or certificate ([operations](operations.md#operators)). Every command of a tenant asks for a token of its own: loops that call it more than once a second belong into a program with [the client library](client.md).

**Completion.** \`source <(signet completion bash)\`; \`signet completion zsh > "\${fpath[1]}/_signet"\`; \`signet completion fish > ~/.config/fish/completions/signet.fish\`.

| Exit code | Means |
| --- | --- |
${EXIT_CODES.map(([code, meaning]) => `| ${code} | ${meaning} |`).join("\n")}
`;

function fallbackText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function optionRow({ flags, description, choices, required, fallback }: OptionNode): readonly string[] {
  const notes = [
    description,
    ...(choices.length > 0 ? [choices.map((choice) => `\`${choice}\``).join(", ")] : []),
    ...(fallback === undefined || fallback === false ? [] : [`default \`${fallbackText(fallback)}\``]),
    ...(required ? ["required"] : []),
  ];
  return [`\`${cell(flags)}\``, cell(notes.join("; "))];
}

function section(node: CommandNode, level = "###"): string {
  const usage = [node.path, ...node.args, ...(node.options.length > 0 ? ["[options]"] : [])].join(" ");
  const options =
    node.options.length === 0 ? [] : [table(["Option", "Meaning"], node.options.map(optionRow))];
  const examples = node.examples.length === 0 ? [] : [`\`\`\`sh\n${node.examples.join("\n")}\n\`\`\``];
  return [
    `${level} ${node.path}`,
    `\`${usage}\``,
    `${capitalized(node.description)}.`,
    ...options,
    ...examples,
  ].join("\n\n");
}

/** The page. */
export function cliReference(): string {
  const never = (): never => {
    throw new Error("documentation runs no command");
  };
  const run = async (): Promise<void> => await Promise.resolve();
  const program = createProgram(
    { settings: never, clientSettings: never, stdout: never, stderr: never, fetch },
    { api: run, worker: run, all: run, edge: run, hub: run, serve: run, doctor: run, migrate: run },
  );
  const parts = commandTree(program).commands.map((command) => {
    if (command.commands.length === 0) {
      return section(command, "##");
    }
    const runnable = allCommands(command).filter(({ runs }) => runs);
    const heading = [`## ${command.path}`, ...(command.runs ? [] : [`${capitalized(command.description)}.`])];
    return [...heading, ...runnable.map((node) => section(node))].join("\n\n");
  });
  return `${[INTRODUCTION.trimEnd(), ...parts].join("\n\n")}\n`;
}
