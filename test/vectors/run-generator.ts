/** Writes the vectors, each on a line: `node test/vectors/run-generator.ts`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { webhookSignatures } from "./cases.ts";

const path = join(import.meta.dirname, "webhook-signatures.json");
const { vectors, ...head } = webhookSignatures();
const lines = vectors.map((vector) => `    ${JSON.stringify(vector)}`).join(",\n");
const members = Object.entries(head).map(([name, value]) => `  "${name}": ${JSON.stringify(value)},\n`);
await writeFile(path, `{\n${members.join("")}  "vectors": [\n${lines}\n  ]\n}\n`);
