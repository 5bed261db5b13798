/**
 * A hostile hub between a follower and a real hub, over a real socket. It changes what it relays. No revoked token is
 * admitted later than 250 ms after the commit, no valid one is denied, and an honest hub is believed again.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Client } from "pg";
import { type WebSocket, WebSocketServer } from "ws";
import { loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { startHub } from "#processes/hub.ts";
import { HUB_PATH, type Reply } from "#revocation/hub-messages.ts";
import { createHubOpener } from "#revocation/hub-socket.ts";
import type { HubFollower } from "#revocation/hub-follower.ts";
import type { Hub } from "#revocation/hub.ts";
import { useTestApi } from "#test/support/api.ts";
import { committedAt } from "#test/support/edge-processes.ts";
import { eventually } from "#test/support/eventually.ts";
import { type Provisioned, provision } from "#test/support/factories.ts";
import { claimsOf, createFollower, openHub, type OpenHub, storeLeaseKeys } from "#test/support/hubs.ts";
import { monotonicMs } from "#test/support/monotonic.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { createTestDatabase } from "#test/support/services.ts";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";
import type { TestDatabase } from "#test/support/test-database.ts";

const BOUND_MS = 250;
const KEY = randomBytes(32);
const api = useTestApi();
const lines: string[] = [];
const log = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });

/** Sends something instead of a message of the honest hub. */
type Attack = (reply: Reply, send: (reply: Reply) => void) => void;
const honest: Attack = (reply, send) => send(reply);

class HostileHub {
  attack = honest;
  readonly #server: WebSocketServer;
  readonly #sockets = new Set<WebSocket>();

  constructor(hub: () => Hub) {
    this.#server = new WebSocketServer({ host: "127.0.0.1", port: 0, path: HUB_PATH });
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      const send = (reply: Reply): void => socket.send(JSON.stringify(reply));
      const child = hub().accept({
        send: (text) => this.attack(JSON.parse(text) as Reply, send),
        backlog: 0,
        close: () => socket.terminate(),
      });
      socket.on("message", (data: Buffer) => child?.onMessage(data.toString()));
      socket.on("close", () => {
        this.#sockets.delete(socket);
        child?.onClose();
      });
    });
  }

  async listening(): Promise<void> {
    await once(this.#server, "listening");
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sends a message to all followers. */
  send(reply: Reply): void {
    this.#sockets.forEach((socket) => socket.send(JSON.stringify(reply)));
  }

  close(): void {
    this.#sockets.forEach((socket) => socket.terminate());
    this.#server.close();
  }
}

let real: OpenHub;
let other: OpenHub;
let otherDatabase: TestDatabase;
let hostile: HostileHub;

beforeAll(async () => {
  await storeLeaseKeys(api.database, [KEY]);
  real = await openHub(api.database, log);
  // The worst case of another primary: it has the same key.
  otherDatabase = await createTestDatabase();
  await storeLeaseKeys(otherDatabase, [KEY]);
  const owner = new Client({ connectionString: otherDatabase.adminUrl });
  await owner.connect();
  await owner.query("UPDATE rev_clock SET epoch = gen_random_uuid()");
  await owner.end();
  other = await openHub(otherDatabase, log);
  hostile = new HostileHub(() => real.hub);
  await hostile.listening();
});
afterAll(async () => {
  hostile.close();
  await Promise.all([real.close(), other.close()]);
  await otherDatabase.drop();
});

async function start(url = hostile.url): Promise<HubFollower> {
  const following = createFollower({ keys: [KEY], hub: url, open: createHubOpener(() => undefined), log });
  onTestFinished(async () => {
    hostile.attack = honest;
    await following.stop();
  });
  await following.start();
  return following;
}

/** Looks at every turn of a millisecond whether a client's token is admitted. */
function watch({ view }: HubFollower, client: Provisioned) {
  const claims = claimsOf(client);
  const seen = { lastAdmitted: -Infinity, revoked: false, stale: false };
  const timer = setInterval(() => {
    const at = monotonicMs();
    const verdict = view.verdict(claims);
    seen.revoked ||= verdict === "revoked";
    seen.stale ||= verdict === "stale";
    if (verdict === "admit") {
      seen.lastAdmitted = at;
    }
  }, 1);
  onTestFinished(() => clearInterval(timer));
  return seen;
}

/** Returns when the revocation was committed, by the monotonic clock. */
async function revoke({ credentialId }: Provisioned): Promise<number> {
  const { status, body } = await api.admin("POST", `/credentials/${credentialId}/revoke?wait=none`, {});
  expect(status).toBe(200);
  // `committed_at` precedes the commit by a turn of the api's event loop.
  return await committedAt(api, String(body["revocation_id"]));
}

type Proof = Extract<Reply, { type: "proof" }>;
const isProof = (reply: Reply): reply is Proof => reply.type === "proof";
const isRevocation = ({ type }: Reply): boolean => type === "line" || type === "lines";

/** Sends proofs that `change` makes of the true ones and of earlier ones. */
function proofs(change: (proof: Proof, first: Proof) => Reply): () => Attack {
  return () => {
    let first: Proof | undefined;
    return (reply, send) => {
      if (isProof(reply)) {
        first ??= reply;
        send(change(reply, first));
      } else if (!isRevocation(reply)) {
        send(reply);
      }
    };
  };
}

const WITHHOLDING: readonly (readonly [string, () => Attack])[] = [
  ["repeats an old proof", proofs((_proof, first) => first)],
  ["gives an old proof a new nonce", proofs(({ nonce }, first) => ({ ...first, nonce }))],
  [
    "gives an old state the new nonce and path",
    proofs(({ nonce, trees, atUs }, first) => ({ ...first, nonce, trees, atUs })),
  ],
  ["turns the state back", proofs((proof, { sequence, head }) => ({ ...proof, sequence, head }))],
  [
    "answers with the path of another process",
    proofs((proof) => ({ ...proof, trees: [[`l${randomBytes(32).toString("base64url")}`]] })),
  ],
  ["answers without a path", proofs((proof) => ({ ...proof, trees: [] }))],
  ["leaves revocations out", proofs((proof) => proof)],
  [
    "skips a revocation",
    () => {
      let skipped = 0;
      return (reply, send) => {
        if (reply.type === "line") {
          skipped ||= reply.sequence;
          if (reply.sequence !== skipped) {
            send(reply);
          }
        } else if (reply.type === "lines") {
          send({ ...reply, lines: reply.lines.filter((line) => !line.startsWith(`${skipped}:`)) });
        } else {
          send(reply);
        }
      };
    },
  ],
  [
    "names another credential in a revocation",
    () => (reply, send) => {
      const forged = (line: string): string => line.replace(/:crd_[^:]+:/, ":crd_forged:");
      if (reply.type === "line") {
        send({ ...reply, line: forged(reply.line) });
      } else if (reply.type === "lines") {
        send({ ...reply, lines: reply.lines.map(forged) });
      } else {
        send(reply);
      }
    },
  ],
  [
    "says that another primary answered",
    proofs((proof) => ({ ...proof, epoch: "00000000-0000-4000-8000-000000000000" })),
  ],
];

describe("a hub that", () => {
  test.each(WITHHOLDING)("%s ends the lease", async (_name, attack) => {
    await withoutPause(async () => {
      const following = await start();
      const [victim, later, live] = [await provision(api), await provision(api), await provision(api)];
      const [watched, valid] = [watch(following, victim), watch(following, live)];
      await eventually(() => watched.lastAdmitted > 0, "the token to be admitted");
      hostile.attack = attack();
      const at = await revoke(victim);
      await revoke(later);
      await eventually(() => watched.stale && valid.stale, "the lease to end");
      hostile.attack = honest;
      await eventually(() => watched.revoked && following.view.current, "an honest hub to be believed");
      expect(watched.lastAdmitted - at).toBeLessThanOrEqual(BOUND_MS);
      expect(valid.revoked).toBe(false);
    });
  });

  test.each<[string, Reply]>([
    ["lines", { type: "lines", lines: Array.from({ length: 50_000 }, (_none, at) => `${at}:jti:x:1:`) }],
    ["chunks", { type: "chunk", text: "!".repeat(1_000_000) }],
    ["keys", { type: "keys", keys: "!".repeat(1_000_000) }],
  ])("floods with %s that nobody asked for is left", async (_what, reply) => {
    const following = await start();
    await eventually(() => following.view.current, "a lease");
    const known = lines.length;
    const isLeft = (): boolean => lines.slice(known).some((line) => line.includes("more than was asked for"));
    await eventually(() => {
      hostile.send(reply);
      return isLeft();
    }, "the edge to leave");
    await eventually(async () => await following.renew(), "an honest hub to be believed", 10_000);
  });

  test("forges revocations, and lifts true ones, has no effect", async () => {
    const following = await start();
    const [live, tenant] = [await provision(api), await provision(api)];
    const heard: Extract<Reply, { type: "line" }>[] = [];
    hostile.attack = (reply, send) => {
      if (reply.type === "line") {
        heard.push(reply);
      }
      send(reply);
    };
    const { status } = await api.admin("POST", `/tenants/${tenant.tenantId}/revoke`, {});
    expect(status).toBe(200);
    await eventually(() => following.view.verdict(claimsOf(tenant)) === "revoked", "the true revocation");
    const [line] = heard;
    if (line === undefined) {
      throw new Error("the hub heard no revocation");
    }
    const next = line.sequence + 1;
    const now = Date.now();
    const forgeries = [
      `${next}:credential:${live.credentialId}:${now}000:`,
      `${next}:tenant:${tenant.tenantId}:${now}000:1`,
    ];
    for (const forged of forgeries) {
      hostile.send({ type: "lines", lines: [forged] });
      hostile.send({ ...line, line: forged });
      hostile.send({ ...line, line: forged, sequence: next });
    }
    // The sequence passes the forged number.
    await revoke(await provision(api));
    await eventually(() => following.view.sequence >= next && following.view.current, "the true revocation");
    await eventually(() => following.view.verdict(claimsOf(live)) === "admit", "the other to be admitted");
    expect(following.view.verdict(claimsOf(tenant))).toBe("revoked");
  });
});

const SNAPSHOTS: readonly (readonly [string, Attack])[] = [
  [
    "without its last revocation",
    (reply, send) =>
      send(reply.type === "chunk" ? { ...reply, text: reply.text.replace(/\n?[^\n]+$/, "") } : reply),
  ],
  [
    "without lines",
    (reply, send) => {
      if (reply.type === "snapshot") {
        send({ ...reply, chunks: 0 });
      } else if (reply.type !== "chunk") {
        send(reply);
      }
    },
  ],
  [
    "with another one's head",
    (reply, send) => send(reply.type === "snapshot" ? { ...reply, sequence: reply.sequence + 1 } : reply),
  ],
  [
    "with more chunks than it announced",
    (reply, send) => {
      send(reply);
      if (reply.type === "chunk") {
        send({ type: "chunk", text: "\n9:credential:x:1:" });
      }
    },
  ],
  [
    "of too many chunks",
    (reply, send) => send(reply.type === "snapshot" ? { ...reply, chunks: 1_025 } : reply),
  ],
];

describe("a snapshot", () => {
  test.each(SNAPSHOTS)("%s lets nobody miss a revocation", async (_name, attack) => {
    const victim = await provision(api);
    await revoke(victim);
    hostile.attack = attack;
    const following = await start();
    const watched = watch(following, victim);
    hostile.attack = honest;
    await eventually(() => following.view.current, "an honest hub to be believed");
    expect(following.view.verdict(claimsOf(victim))).toBe("revoked");
    expect(watched.lastAdmitted).toBe(-Infinity);
  });

  test("of another primary with the same key, mixed with proofs of the true one, admits nobody", async () => {
    const foreign: Reply[] = [];
    const child = other.hub.accept({
      send: (text) => void foreign.push(JSON.parse(text) as Reply),
      backlog: 0,
      close: () => undefined,
    });
    child?.onMessage(JSON.stringify({ type: "snapshot" }));
    await eventually(() => foreign.some(({ type }) => type === "snapshot"), "the other primary's snapshot");
    const snapshot = foreign.filter(({ type }) => type === "snapshot" || type === "chunk");
    const victim = await provision(api);
    await revoke(victim);
    hostile.attack = (reply, send) => {
      if (reply.type === "snapshot") {
        snapshot.forEach(send);
      } else if (reply.type !== "chunk") {
        send(reply);
      }
    };
    const following = await start();
    const watched = watch(following, victim);
    expect(following.view.current).toBe(false);
    hostile.attack = honest;
    await eventually(() => following.view.current, "an honest hub to be believed");
    expect(following.view.verdict(claimsOf(victim))).toBe("revoked");
    expect(watched.lastAdmitted).toBe(-Infinity);
    child?.onClose();
  });
});

/** Starts a hub behind another one. @returns its URL */
async function startBelow(parent: string): Promise<string> {
  const child = await startHub({
    config: loadConfig(
      { SIGNET_ENV: "development", SIGNET_HUBS: parent, SIGNET_HUB_LISTEN: "127.0.0.1:0" },
      "hub",
    ),
    log,
  });
  onTestFinished(async () => await child.close());
  return `ws://127.0.0.1:${child.address.port}`;
}

test("a hub requests a snapshot again that its parent did not send", async () => {
  const victim = await provision(api);
  await revoke(victim);
  let dropped = 0;
  hostile.attack = (reply, send) => {
    if (reply.type === "snapshot" && dropped === 0) {
      dropped += 1;
    } else {
      send(reply);
    }
  };
  const following = await start(await startBelow(hostile.url));
  await eventually(() => following.view.current, "the snapshot to arrive");
  expect(dropped).toBe(1);
  expect(following.view.verdict(claimsOf(victim))).toBe("revoked");
});

test("a hub connects again to a parent after the connection was lost in silence", async () => {
  const line = await startTcpProxy(Number(new URL(hostile.url).port));
  onTestFinished(async () => await line.close());
  const following = await start(await startBelow(`ws://127.0.0.1:${line.port}`));
  await eventually(() => following.view.current, "a proof");
  expect(line.blackHole()).toBe(1);
  await eventually(() => !following.view.current, "the lease to end");
  await eventually(() => following.view.current, "a proof over another connection");
});
