/** What `npm ci` installs is what the lock file's hashes name, on every platform (docs/security-model.md). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

interface LockedPackage {
  readonly integrity?: string;
  readonly link?: boolean;
}

it("every package of the lock file has a hash, also those of other platforms", () => {
  const text = readFileSync(join(import.meta.dirname, "..", "..", "..", "package-lock.json"), "utf8");
  const { packages } = JSON.parse(text) as { readonly packages: Readonly<Record<string, LockedPackage>> };
  const installed = Object.entries(packages).filter(([path, { link }]) => path !== "" && link !== true);
  expect(installed.length).toBeGreaterThan(500);
  expect(installed.filter(([, { integrity = "" }]) => !/^sha512-[\w+/]{86}==$/.test(integrity))).toEqual([]);
});
