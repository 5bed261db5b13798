/** Writes the vectors: `node test/vectors/run-generator.ts`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { webhookSignatures } from "./cases.ts";

const path = join(import.meta.dirname, "webhook-signatures.json");
await writeFile(path, `${JSON.stringify(webhookSignatures(), null, 1)}\n`);
