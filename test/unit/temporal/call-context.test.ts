import { execFile } from "node:child_process";
import { AsyncLocalStorage } from "node:async_hooks";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { useSynchronousContext } from "../../../src/temporal/call-context.ts";

const MODULE = fileURLToPath(new URL("../../../src/temporal/call-context.ts", import.meta.url));

function storage(): AsyncLocalStorage<string> {
  const made = new AsyncLocalStorage<string>();
  useSynchronousContext(made);
  return made;
}

describe("a synchronous context", () => {
  test("is available only in the turn that sets it, and restored after inner calls", async () => {
    const context = storage();
    const seen = await context.run("outer", async () => {
      const first = context.getStore();
      const inner = context.run("inner", () => context.getStore());
      const after = context.getStore();
      await Promise.resolve();
      return [first, inner, after, context.getStore()];
    });
    expect(seen).toEqual(["outer", "inner", "outer", undefined]);
    expect(context.getStore()).toBeUndefined();
  });

  test("passes arguments and results through, and ends after an error", () => {
    const context = storage();
    expect(context.run("value", (left: number, right: number) => left + right, 1, 2)).toBe(3);
    const fail = (): never => {
      throw new Error("failed");
    };
    expect(() => context.run("value", fail)).toThrow("failed");
    expect(context.getStore()).toBeUndefined();
  });

  /** Returns true if Node tracks promises after `use`: their continuations then have an id. */
  async function followsPromises(use: string): Promise<boolean> {
    const program = `
      import { AsyncLocalStorage, executionAsyncId } from "node:async_hooks";
      import { useSynchronousContext } from ${JSON.stringify(MODULE)};
      const storage = new AsyncLocalStorage();
      ${use}
      storage.run("value", () => {});
      setImmediate(async () => {
        await undefined;
        process.stdout.write(String(executionAsyncId() > 0));
      });
    `;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--import", "tsx", "--input-type=module", "--eval", program],
      { cwd: fileURLToPath(new URL("../../../", import.meta.url)) },
    );
    return stdout === "true";
  }

  test("does not make Node track every promise, as an asynchronous one does", async () => {
    expect(await followsPromises("")).toBe(true);
    expect(await followsPromises("useSynchronousContext(storage);")).toBe(false);
  });
});
