/** Hash trees over nonces, codes of proofs, and the chain of revocations. */
import { createHmac, hash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { leaseKeyId } from "#crypto/lease-key.ts";
import { readLine, RevocationChain, WaitingLines } from "#revocation/chain.ts";
import { readReply, readRequest } from "#revocation/hub-messages.ts";
import { rootOf, TREE_NONCES_MAX, treeOf } from "#revocation/nonce-tree.ts";
import { createCodeCheck, nextHead } from "#revocation/proof.ts";

const START = { epoch: "e", sequence: 0, head: hash("sha256", "", "hex") };
const LINES = ["1:jti:a:1000:", "2:tenant:ten_1:2000:", "3:tenant:ten_1:3000:4"] as const;

function stateAfter(count: number) {
  const head = LINES.slice(0, count).reduce((before, line) => nextHead(before, line), START.head);
  return { epoch: "e", sequence: count, head };
}

describe("a tree of nonces", () => {
  test.each([1, 2, 3, 7, 100, TREE_NONCES_MAX])("leads each of %i nonces to its root", (count) => {
    const nonces = Array.from({ length: count }, () => randomBytes(32));
    const { root, paths } = treeOf(nonces);
    nonces.forEach((nonce, index) => expect(rootOf(nonce, [paths[index] ?? []])).toEqual(root));
  });

  test("leads no other nonce to its root", () => {
    const nonces = [randomBytes(32), randomBytes(32), randomBytes(32)];
    const { root, paths } = treeOf(nonces);
    expect(rootOf(randomBytes(32), [paths[0] ?? []])).not.toEqual(root);
    expect(rootOf(nonces[0] as Buffer, [paths[1] ?? []])).not.toEqual(root);
    expect(rootOf(nonces[0] as Buffer, [[]])).not.toEqual(root);
  });

  test("is a nonce of the tree above it", () => {
    const [nonce, other] = [randomBytes(32), randomBytes(32)];
    const below = treeOf([other, nonce]);
    const above = treeOf([randomBytes(32), below.root]);
    expect(rootOf(nonce, [below.paths[1] ?? [], above.paths[1] ?? []])).toEqual(above.root);
  });

  test.each([
    ["too many trees", [[], [], [], [], []]],
    [
      "too long a path",
      [Array.from({ length: 11 }, () => `l${randomBytes(32).toString("base64url")}` as const)],
    ],
    ["a hash of another length", [["rAAAA"]]],
  ] as const)("rejects %s", (_name, trees) => {
    expect(rootOf(randomBytes(32), trees)).toBeUndefined();
  });
});

describe("a code", () => {
  const [key, other] = [randomBytes(32), randomBytes(64)];
  const codeOf = (by: Buffer, statement: string): string =>
    `${leaseKeyId(by)}=${createHmac("sha256", by).update(statement).digest("hex")}`;

  test("of any known key is accepted", () => {
    const check = createCodeCheck([key, other]);
    expect(check("s", codeOf(key, "s"))).toBe(true);
    expect(check("s", `${codeOf(randomBytes(32), "s")},${codeOf(other, "s")}`)).toBe(true);
  });

  test.each(["", "=", "x", ",", "0000000000000000=00"])("%j is rejected", (codes) => {
    expect(createCodeCheck([key])("s", codes)).toBe(false);
  });

  test("of another statement or key is rejected", () => {
    const check = createCodeCheck([key]);
    expect(check("s", codeOf(key, "t"))).toBe(false);
    expect(check("s", codeOf(other, "s"))).toBe(false);
    expect(check("s", codeOf(key, "s").slice(0, -2))).toBe(false);
  });
});

describe("the chain", () => {
  test("takes lines when an authenticated state covers them, in any order", () => {
    const chain = new RevocationChain();
    const waiting = new WaitingLines();
    expect(chain.attest(stateAfter(1), waiting).standing).toBe("behind");
    chain.begin(START);
    waiting.offer(LINES[1]);
    expect(chain.attest(stateAfter(2), waiting)).toEqual({ standing: "behind", taken: [] });
    waiting.offer(LINES[0]);
    const { standing, taken } = chain.attest(stateAfter(2), waiting);
    expect(standing).toBe("current");
    expect(taken.map(({ kind, target, issuedBefore }) => [kind, target, issuedBefore])).toEqual([
      ["jti", "a", null],
      ["tenant", "ten_1", null],
    ]);
    expect(chain.state).toEqual(stateAfter(2));
  });

  test("knows its own past, and no other", () => {
    const chain = new RevocationChain();
    const waiting = new WaitingLines();
    chain.begin(START);
    LINES.forEach((line) => waiting.offer(line));
    chain.attest(stateAfter(3), waiting);
    expect(chain.attest(stateAfter(1), waiting).standing).toBe("current");
    expect(chain.attest({ ...stateAfter(1), head: "00" }, waiting).standing).toBe("other");
    expect(chain.attest({ ...stateAfter(3), epoch: "f" }, waiting).standing).toBe("other");
  });

  test("takes the true line after a forged one", () => {
    const chain = new RevocationChain();
    const waiting = new WaitingLines();
    chain.begin(START);
    waiting.offer("1:jti:forged:1000:");
    expect(chain.attest(stateAfter(1), waiting).standing).toBe("behind");
    waiting.offer(LINES[0]);
    expect(chain.attest(stateAfter(1), waiting).standing).toBe("current");
  });

  test("limits the lines of a hub that wait, and the lines of another hub are its own", () => {
    const chain = new RevocationChain();
    const waiting = new WaitingLines();
    chain.begin(START);
    const flooded = new WaitingLines();
    for (let seq = 1; seq <= 65_537; seq += 1) {
      flooded.offer(`${seq}:jti:x:1:`);
    }
    expect(flooded.covers(0, 1)).toBe(false);
    expect(flooded.covers(65_536, 65_537)).toBe(true);
    waiting.offer(LINES[0]);
    expect(chain.attest(stateAfter(1), waiting).standing).toBe("current");
  });

  test.each([
    "",
    "1",
    "x:jti:a:1:",
    "1:jti::1:",
    "1:jti:a:b:1:",
    "1:jti:a:1",
    "1:JTI:a:1:",
    `1:jti:${"a".repeat(201)}:1:`,
  ])("does not read %j", (line) => expect(readLine(line)).toBeUndefined());
});

describe("a message", () => {
  const follower = { lockKey: 1, process: "edge", region: null, version: "1", leaseMs: 240 };

  test("is read", () => {
    expect(readRequest(JSON.stringify({ type: "follow", version: 1, follower }))).toMatchObject({ follower });
    expect(readReply('{"type":"lines","lines":["a"]}')).toMatchObject({ lines: ["a"] });
  });

  test.each([
    "",
    "null",
    "[]",
    '"x"',
    "{}",
    '{"type":1}',
    '{"type":"toString"}',
    '{"type":"nonce"}',
    '{"type":"lines","after":-0.5}',
    '{"type":"applied","lockKey":1,"sequence":"1","sinceMs":0}',
    JSON.stringify({ type: "follow", version: 2, follower }),
    JSON.stringify({ type: "follow", version: 1, follower: { ...follower, lockKey: -1 } }),
    JSON.stringify({ type: "follow", version: 1, follower: { ...follower, process: "A'" } }),
    JSON.stringify({ type: "follow", version: 1, follower: { ...follower, region: "x".repeat(65) } }),
    JSON.stringify({ type: "follow", version: 1, follower: { ...follower, leaseMs: 1e9 } }),
  ])("to a hub is not read: %s", (text) => {
    expect(readRequest(text)).toBeUndefined();
  });

  test.each(['{"type":"proof"}', '{"type":"lines","lines":[1]}', '{"type":"chunk","text":null}', "{"])(
    "from a hub is not read: %s",
    (text) => expect(readReply(text)).toBeUndefined(),
  );
});
