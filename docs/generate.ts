/** `npm run docs`: writes the generated parts of the README. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withGeneratedParts } from "./generated-parts.ts";

const README = join(import.meta.dirname, "..", "README.md");

const before = await readFile(README, "utf8");
const after = await withGeneratedParts(before);
await writeFile(README, after);
console.log(after === before ? "README.md is up to date" : "README.md is written");
