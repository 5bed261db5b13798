/** Statements over all days run one after another, whatever becomes of them. */
import { expect, test } from "vitest";
import type { Queryable } from "#database/pool.ts";
import { inTurn } from "#database/transaction.ts";

test("looks of a pool run in turn, also after a failure, and those of another pool beside them", async () => {
  const [pool, other] = [{}, {}] as [Queryable, Queryable];
  const began: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<string>>();
  const look = async (of: Queryable, name: string): Promise<string> =>
    await inTurn(of, async () => {
      began.push(name);
      const gate = Promise.withResolvers<string>();
      gates.set(name, gate);
      return await gate.promise;
    });
  const [first, second, third, elsewhere] = [
    look(pool, "first"),
    look(pool, "second"),
    look(pool, "third"),
    look(other, "elsewhere"),
  ];
  await Promise.resolve();
  expect(began).toEqual(["first", "elsewhere"]);
  gates.get("elsewhere")?.resolve("answer");
  expect(await elsewhere).toBe("answer");
  expect(began).toEqual(["first", "elsewhere"]);
  gates.get("first")?.reject(new Error("lost"));
  await expect(first).rejects.toThrow("lost");
  await new Promise(setImmediate);
  expect(began).toEqual(["first", "elsewhere", "second"]);
  gates.get("second")?.resolve("two");
  expect(await second).toBe("two");
  await new Promise(setImmediate);
  gates.get("third")?.resolve("three");
  expect(await third).toBe("three");
});
