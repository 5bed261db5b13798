/** The schemas that check docker-compose.yml match the Go modules that they name. */
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { deriveFrom, findModule, SOURCES } from "../schemas/derive.ts";
import { allowMinutes } from "../support/limits.ts";
import { skipUnless } from "../support/skips.ts";

// The first run downloads the modules.
allowMinutes(4);

test.for(SOURCES)("$file matches $module $version", async (source, { skip }) => {
  const found = await findModule(source).catch((error: unknown) => error as Error);
  if (found instanceof Error) {
    const reason = `${source.module} is neither in Go's cache nor reachable: ${found.message}`;
    skip(skipUnless(false, `the check of ${source.file} against its source`, reason));
    return;
  }
  expect(await deriveFrom(found, source)).toBe(
    await readFile(new URL(`../schemas/${source.file}`, import.meta.url), "utf8"),
  );
});
