/** Commands run for users without a home: a container's user may have neither HOME nor an entry in /etc/passwd. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isRoot } from "#processes/embedded/service-user.ts";
import { skipUnless } from "#test/support/skips.ts";

const SOURCES = join(import.meta.dirname, "..", "..", "..", "src");
const NOBODY = 54_321;

function runAsNobody(code: string): { readonly status: number | null; readonly stdout: string } {
  const { status, stdout } = spawnSync(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", "--input-type=module-typescript", "--eval", code],
    { uid: NOBODY, gid: NOBODY, cwd: "/", env: {}, encoding: "utf8" },
  );
  return { status, stdout };
}

const possible = isRoot() && runAsNobody("").status === 0;

test.skipIf(
  skipUnless(possible, "users without a home", "only root can become one, and Node must be open to it"),
)("a user without HOME and without an entry in /etc/passwd has a home that does not exist", () => {
  const source = readFileSync(join(SOURCES, "config", "home-directory.ts"), "utf8");
  expect(runAsNobody(`${source}; process.stdout.write(homeDirectory())`)).toEqual({
    status: 0,
    stdout: "/nonexistent",
  });
});

test("nothing else asks the system for the home, which fails without one", () => {
  const asking = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter(
    (path) =>
      /\.m?ts$|\.mjs$/.test(path) &&
      /\b(?:homedir|userInfo)\(/.test(readFileSync(join(SOURCES, path), "utf8")),
  );
  expect(asking).toEqual(["config/home-directory.ts"]);
});
