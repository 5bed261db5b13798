/** A rule that is written twice drifts: these are each written in one file. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");

const RULES = [
  ["the retry window of 72 hours", /\b259_?200_?000\b/, ["src/domain/retry-schedule.ts"]],
  ["the 17 attempts", /= 17;/, ["src/domain/retry-schedule.ts"]],
  ["the answer to a missing scope", /error="insufficient_scope"/, ["src/http/bearer-errors.ts"]],
  // Any login that may connect can hold one: docs/security-model.md names what remains. Elsewhere, use `lockName`.
  [
    "advisory locks",
    /\bpg_(?:try_)?advisory/,
    ["src/database/apply-migrations.ts", "src/database/repositories/tokens/revocations.ts"],
  ],
  // Behind an edge or a proxy this is the proxy's address: use `clientAddress` to count by address.
  ["the address of the peer", /\brequest\.ip\b/, []],
] as const;

it.each(RULES)("%s: one file states the rule", async (_rule, pattern, files) => {
  const names = (await readdir(join(ROOT, "src"), { recursive: true })).filter((name) =>
    name.endsWith(".ts"),
  );
  const found: string[] = [];
  for (const name of names) {
    if (pattern.test(await readFile(join(ROOT, "src", name), "utf8"))) {
      found.push(`src/${name}`);
    }
  }
  expect(found.toSorted()).toEqual(files);
});
