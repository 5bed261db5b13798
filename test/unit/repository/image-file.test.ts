/** Properties of the Dockerfile that are checked without a container engine. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { readDocument } from "#test/support/documents.ts";
import { type ImageFile, parseDockerfile, PINNED } from "#test/support/compose-file.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

let dockerfile: string;
let image: ImageFile;

beforeAll(async () => {
  dockerfile = await readDocument("Dockerfile");
  image = parseDockerfile(dockerfile);
});

describe("the image", () => {
  test("is built on pinned images and does not run as root", () => {
    expect(image.bases.length).toBeGreaterThan(1);
    for (const base of image.bases) {
      expect(base).toMatch(PINNED);
    }
    expect(image.user).toBe("node");
  });

  test("starts Node directly, in production by default", () => {
    expect(image.entrypoint).toEqual(["node", "dist/src/processes/main.js"]);
    expect(image.environment).toMatchObject({ SIGNET_ENV: "production", NODE_ENV: "production" });
  });

  test("bounds the memory of its processes: both generations of the heap, and the arenas of malloc", () => {
    expect(image.environment).toMatchObject({
      NODE_OPTIONS: expect.stringMatching(/ --max-old-space-size=\d+ --max-semi-space-size=\d+$/) as string,
      MALLOC_ARENA_MAX: "2",
    });
  });

  test("has the command line under its name", () => {
    expect(dockerfile).toContain(`ln -s ../../..${image.workdir}/src/bootstrap.mjs /image/bin/signet`);
    expect(image.copies).toEqual(
      expect.arrayContaining([
        "--from=build /app/src/bootstrap.mjs src/",
        "--from=build /image/bin/ /usr/local/bin/",
      ]),
    );
  });

  test("is built on the builder's platform, and its last stage runs nothing, because it may be of another", () => {
    expect(dockerfile).toMatch(/^FROM --platform=\$BUILDPLATFORM \S+ AS build$/m);
    expect(dockerfile.match(/^FROM /gm)).toHaveLength(2);
    expect(image.runs).toEqual([]);
    expect(new Set(image.bases).size).toBe(1);
  });

  test("is built from files that exist and that .dockerignore admits", async () => {
    const ignore = (await readDocument(".dockerignore")).split("\n").filter((line) => /^[^#]/.test(line));
    expect(ignore[0]).toBe("*");
    const sources = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, list = ""]) =>
      list.split(" "),
    );
    expect(sources.length).toBeGreaterThan(5);
    for (const source of sources) {
      expect(existsSync(join(REPOSITORY, source)), source).toBe(true);
      expect(ignore).toContain(`!${source.split("/")[0]}`);
    }
  });
});
