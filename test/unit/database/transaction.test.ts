/** Statements over all days run one after another, whatever becomes of them. */
import { expect, test } from "vitest";
import type { Queryable } from "#database/pool.ts";
import { queryInTurn } from "#database/transaction.ts";

test("looks of a pool run in turn, also after a failure, and those of another pool beside them", async () => {
  const began: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<string>>();
  const query = async ({ name }: { readonly name: string }): Promise<string> => {
    began.push(name);
    const gate = Promise.withResolvers<string>();
    gates.set(name, gate);
    return await gate.promise;
  };
  const [pool, other] = [{ query }, { query }] as unknown as [Queryable, Queryable];
  const look = async (of: Queryable, name: string): Promise<unknown> =>
    await queryInTurn(of, { name, text: "SELECT" });
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
