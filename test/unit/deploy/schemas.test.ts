/** The schemas used to check manifests match the Go modules that they name. */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { deriveFromModule, SOURCES } from "../../schemas/derive.ts";

test.for(SOURCES)("$file matches $module $version", async (source, { skip }) => {
  const derived = await deriveFromModule(source, true).catch((error: unknown) => {
    const why = `${source.module}@${source.version} is not in Go's cache`;
    console.warn(
      `NOT CHECKED: ${why}; \`node --import tsx test/schemas/run-derive.ts\` gets it (${String(error)})`,
    );
    return skip(why);
  });
  expect(derived).toBe(await readFile(new URL(`../../schemas/${source.file}`, import.meta.url), "utf8"));
});
