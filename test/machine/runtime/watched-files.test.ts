/** A change of a file takes effect, if not at once, then as soon as it can. */
import { chmodSync } from "node:fs";
import { afterAll, onTestFinished, test } from "vitest";
import { watchFiles } from "#runtime/watched-files.ts";
import { certificateFiles } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";

const EVERY_MS = 10;
const files = certificateFiles();
afterAll(files.remove);

async function watch(path: string, answers: readonly boolean[]): Promise<{ readonly calls: () => number }> {
  let calls = 0;
  const onChange = async () => {
    calls += 1;
    return await Promise.resolve(answers[calls - 1] ?? true);
  };
  const unwatch = await watchFiles(() => [path], onChange, EVERY_MS);
  onTestFinished(unwatch);
  return { calls: () => calls };
}

test("a change that could not be applied is tried again until it is, without another change", async () => {
  const path = files.write("a", "one");
  const { calls } = await watch(path, [false, false, true]);
  files.write("a", "three");
  await eventually(() => calls() === 3, "the third try");
  files.write("a", "other");
  await eventually(() => calls() === 4, "the next change");
});

test("a change of the mode alone is a change: it may make a file readable", async () => {
  const path = files.write("b", "one");
  const { calls } = await watch(path, [true]);
  chmodSync(path, 0o644);
  await eventually(() => calls() === 1, "the change of the mode");
});
