import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, test, vi } from "vitest";
import { useSynchronousContext } from "#temporal/call-context.ts";

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

  test("never uses Node's own storage, whose first use makes Node track every promise", () => {
    const own = vi.spyOn(AsyncLocalStorage.prototype, "run");
    try {
      expect(storage().run("value", () => "result")).toBe("result");
      expect(own).not.toHaveBeenCalled();
    } finally {
      own.mockRestore();
    }
  });
});
