/** The oldest Node, and the one that a clone brings, are stated in several places. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const read = async (name: string): Promise<string> => await readFile(join(ROOT, name), "utf8");

const bootstrap = await read("src/bootstrap.mjs");
const [, major = "", minor = ""] = /OLDEST_NODE = \[(\d+), (\d+)\]/.exec(bootstrap) ?? [];
const oldest = `${major}.${minor}`;

test("the oldest Node is the same everywhere", async () => {
  const { engines, devDependencies } = JSON.parse(await read("package.json")) as {
    readonly engines: { readonly node: string };
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  expect(engines.node).toBe(`>=${oldest}`);
  expect(devDependencies["@types/node"]).toMatch(new RegExp(`^${major}\\.`));
  expect(await read("src/processes/bundle.mjs")).toContain(`target: "node${oldest}"`);
  expect(await read("test/ci/main.ts")).toContain(`"${oldest}.0"`);
  for (const document of ["README.md", "CONTRIBUTING.md", "docs/releasing.md", "docs/tour.md"]) {
    expect(await read(document), document).toContain(oldest);
  }
});

test("a clone's own Node is new enough, and on Linux the image's", async () => {
  const own = new Map(
    [...bootstrap.matchAll(/"(\w+-\w+)": \{\s+name: "[^"]+",\s+version: "([^"]+)"/g)].map(
      ([, platform = "", version = ""]) => [platform, version] as const,
    ),
  );
  expect([...own.keys()]).toEqual(["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]);
  for (const [platform, version] of own) {
    expect(version.localeCompare(oldest, "en", { numeric: true }), platform).toBeGreaterThan(0);
  }
  const images = [...(await read("Dockerfile")).matchAll(/^FROM .*node:([\d.]+)-/gm)].map(
    ([, version]) => version,
  );
  expect(new Set(images)).toEqual(new Set([own.get("linux-x64"), own.get("linux-arm64")]));
});
