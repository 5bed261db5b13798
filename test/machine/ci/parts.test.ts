import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Part, Parts, type Print } from "#test/ci/parts.ts";

const parts = new Parts(import.meta.dirname);
const shell = (name: string, script: string): Part => ({ name, command: ["bash", "-c", script] });

/** Returns a script that waits for a file of that name, and one that creates it. */
async function meeting(): Promise<{
  readonly wait: (name: string) => string;
  readonly make: (name: string) => string;
}> {
  const directory = await mkdtemp(join(tmpdir(), "signet-parts-"));
  onTestFinished(async () => await rm(directory, { recursive: true }));
  return {
    wait: (name) => `while [ -d ${directory} ] && [ ! -e ${join(directory, name)} ]; do sleep 0.01; done`,
    make: (name) => `touch ${join(directory, name)}`,
  };
}

test("two parts run at the same time, and the output of the second follows that of the first", async () => {
  const { wait, make } = await meeting();
  const texts: string[] = [];
  const print: Print = (text) => void texts.push(text);
  const front = shell("front", `echo a; ${make("front")}; ${wait("beside")}; echo b; exit 3`);
  const beside = shell("beside", `${wait("front")}; echo c; echo d >&2; ${make("beside")}`);
  const [first, second] = await parts.together(
    async () => await parts.run(front, print),
    async (held) => await parts.run(beside, held),
    print,
  );
  expect(texts.join("")).toBe("a\nb\nc\nd\n");
  expect(first).toEqual({ exitCode: 3, output: "a\nb\n" });
  expect(second).toEqual({ exitCode: 0, output: "c\n" });
});

test("the output of a part beside is printed although the other one cannot run", async () => {
  const texts: string[] = [];
  const print: Print = (text) => void texts.push(text);
  const running = parts.together(
    async () => await parts.run({ name: "none", command: ["/none"] }, print),
    async (held) => await Promise.resolve(held("held\n")),
    print,
  );
  await expect(running).rejects.toThrow("/none");
  expect(texts).toEqual(["held\n"]);
});

test("the table has the parts in the order of their beginnings, and the time of all together", async () => {
  const own = new Parts(import.meta.dirname);
  own.add("first", 12.4);
  await own.run(shell("second", "exit 0"), () => undefined);
  expect(own.lines(13.6).map((line) => line.replace(/ {2,}/, " "))).toEqual([
    "first 12 s",
    "second 0 s",
    "total 14 s",
  ]);
});
