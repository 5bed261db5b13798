#!/usr/bin/env node
/**
 * Entry point of the package with the command line: every command but those that run the service. It checks Node
 * before it loads the commands, which older versions cannot parse.
 */
import { readFileSync } from "node:fs";

/** The manifest of the package lies above its bundle. */
const { engines } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  engines: { node: string };
};
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const [neededMajor = 0, neededMinor = 0] = engines.node.replace(">=", "").split(".").map(Number);

if (major < neededMajor || (major === neededMajor && minor < neededMinor)) {
  process.stderr.write(`signet: Node ${engines.node} is needed; this is ${process.versions.node}\n`);
  process.exit(1);
}
const [{ runHere }, { PROCESS_COMMANDS }, { PACKAGES }] = await Promise.all([
  import("./command-line.ts"),
  import("#cli/process-commands.ts"),
  import("#runtime/package.ts"),
]);
const [, , command = ""] = process.argv;
if (PROCESS_COMMANDS.some(({ name }) => name === command)) {
  process.stderr.write(
    `signet: \`signet ${command}\` is part of the service, another package: npx ${PACKAGES.server} ${command}\n`,
  );
  process.exitCode = 2;
} else {
  await runHere();
}
