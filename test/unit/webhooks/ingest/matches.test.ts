/** What ingest remembers of matches, and that it reads those of each tenant apart. */
import { expect, test } from "vitest";
import { nextTurn } from "#runtime/slices.ts";
import type { Pool } from "#database/pool.ts";
import { type KnownMatch, Matches } from "#webhooks/ingest/matches.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

interface Asked {
  readonly tenantId: string;
  readonly types: readonly string[];
  readonly answer: (endpoints?: string) => Promise<void>;
}

/** Returns matches whose statements the test answers, with `max` connections. */
function underTest(max = 10): { readonly matches: Matches; readonly asked: Asked[] } {
  const asked: Asked[] = [];
  const pool = {
    options: { max },
    query: async ({ values: [tenants, types] }: { values: [string[], string[]] }) =>
      await new Promise((resolve) => {
        const [tenantId = ""] = tenants;
        expect(new Set(tenants).size).toBe(1);
        const rest = {
          schema_digest: null,
          deprecated_at: null,
          filters: null,
          fingerprint: "",
          version: "1",
        };
        asked.push({
          tenantId,
          types,
          answer: async (endpoints) => {
            resolve({
              rows: types.map((type) => ({ tenant_id: tenantId, type, ...rest, endpoints: endpoints ?? "" })),
            });
            await nextTurn();
          },
        });
      }),
  };
  return { matches: new Matches(pool as unknown as Pool, time), asked };
}

test("reads only what is not known, and forgets no newer match than the one named", async () => {
  const { matches, asked } = underTest();
  void matches.read({ tenantId: "a", types: ["t", "u", "t"] });
  await nextTurn();
  expect(asked[0]?.types).toEqual(["t", "u"]);
  await asked[0]?.answer("ep_1,ep_2!");
  const first = matches.known("a/t") as KnownMatch;
  expect(first.endpoints).toEqual([
    { endpoint_id: "ep_1", state: "ACTIVE" },
    { endpoint_id: "ep_2", state: "DISABLED" },
  ]);
  await matches.read({ tenantId: "a", types: ["t", "u"] });
  expect(asked).toHaveLength(1);
  matches.forget(first);
  expect(matches.known("a/t")).toBeUndefined();
  void matches.read({ tenantId: "a", types: ["u", "t"] });
  await nextTurn();
  expect(asked[1]?.types).toEqual(["t"]);
  await asked[1]?.answer();
  matches.forget(first);
  expect(matches.known("a/t")?.endpoints).toEqual([]);
});

test("a match that is still current keeps its endpoints under the version at which it was compared", async () => {
  const { matches, asked } = underTest();
  void matches.read({ tenantId: "a", types: ["t"] });
  await nextTurn();
  await asked[0]?.answer("ep_1");
  const first = matches.known("a/t") as KnownMatch;
  matches.renew(first, undefined);
  expect(matches.known("a/t")).toBe(first);
  matches.renew(first, "2");
  expect(matches.known("a/t")).toEqual({ ...first, version: "2" });
  // A commit that began earlier compared it at an earlier version.
  matches.renew(first, "1.5");
  expect(matches.known("a/t")?.version).toBe("2");
});

test("remembers matches by their endpoints, and the first type that was asked for in any case", async () => {
  const { matches, asked } = underTest();
  const types = Array.from({ length: 16 }, (_, index) => `t${index}`);
  void matches.read({ tenantId: "a", types });
  await nextTurn();
  // 16 times 20,000 are more than is remembered, and half of it in all.
  await asked[0]?.answer(Array.from({ length: 20_000 }, (_, index) => `ep_${index}`).join());
  const known = types.filter((type) => matches.known(`a/${type}`) !== undefined);
  expect(known).toEqual(types.slice(0, 9));
});

test("slow matches of some tenants leave connections to commits, and each tenant has its turn", async () => {
  const { matches, asked } = underTest();
  for (const tenantId of ["a", "b", "c", "d"]) {
    void matches.read({ tenantId, types: ["t"] });
  }
  await nextTurn();
  expect(asked.map(({ tenantId }) => tenantId)).toEqual(["a", "b", "c"]);
  await asked[1]?.answer();
  expect(asked[3]?.tenantId).toBe("d");
});
