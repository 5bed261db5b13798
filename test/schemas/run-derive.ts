/** Regenerates the schemas from Go's module proxy: `node test/schemas/run-derive.ts`. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { deriveFrom, findModule, SOURCES } from "./derive.ts";

for (const source of SOURCES) {
  await writeFile(join(import.meta.dirname, source.file), await deriveFrom(await findModule(source), source));
}
