/** A client's part in rotation: what it presents, what it stores, and what it does without a store. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CredentialKeeper } from "#lib/client/credential-keeper.ts";
import type { CredentialStore } from "#lib/client/credential-store.ts";
import { connect } from "#lib/client/token-sources.ts";
import type { StoredCredential } from "#lib/client/succession.ts";
import { type TestRuntime, testRuntime } from "#test/support/client-runtime.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

let server: RotatingServer;
let runtime: TestRuntime;

beforeEach(async () => {
  server = await startRotatingServer();
  runtime = testRuntime();
});

afterEach(async () => {
  await server.close();
});

interface TestStore extends CredentialStore {
  held: StoredCredential | undefined;
  readonly saved: StoredCredential[];
}

function memoryStore(held?: StoredCredential): TestStore {
  const store: TestStore = {
    held,
    saved: [],
    load: async () => await Promise.resolve(store.held),
    save: async (credential) => {
      store.held = credential;
      store.saved.push(credential);
      await Promise.resolve();
    },
  };
  return store;
}

const version = (number: number) => ({ secret: secretOf(number), version: number });
const holding = (current: number, next: number | null = null): StoredCredential => ({
  clientId: CLIENT_ID,
  current: version(current),
  next: next === null ? null : version(next),
});

/** Returns a function that requests tokens in turn, each after the previous one has expired. */
function tokenRequester(store: CredentialStore | undefined, configured = true): () => Promise<string> {
  const source = connect({
    baseUrl: server.url,
    ...(configured ? { clientId: CLIENT_ID, clientSecret: secretOf(1) } : {}),
    ...(store === undefined ? {} : { store }),
    ...runtime,
  }).sourceFor([]);
  return async () => {
    const { value, expiresAt } = await source.token();
    runtime.advance(expiresAt - runtime.clock.now());
    return value;
  };
}

const presented = () =>
  server.tokenRequests.map(({ body }) => Number(String(body["client_secret"]).slice(-3)));

describe("a successor", () => {
  test("is stored beside its predecessor, used from then on, and then stored alone", async () => {
    server.rotation.due.add(1);
    const store = memoryStore();
    const ask = tokenRequester(store);
    await ask();
    expect(store.saved).toEqual([holding(1, 2)]);
    await ask();
    expect(presented()).toEqual([1, 2]);
    expect(store.saved).toEqual([holding(1, 2), holding(2)]);
    await ask();
    expect(presented()).toEqual([1, 2, 2]);
    expect(store.saved).toHaveLength(2);
  });

  test("whose response was lost is returned again unchanged, and then used", async () => {
    server.rotation.due.add(1);
    server.incidents.push({ kind: "lost" });
    const store = memoryStore();
    const ask = tokenRequester(store);
    await ask();
    await ask();
    expect(presented()).toEqual([1, 1, 2]);
  });

  test("learned by another process is used by this one", async () => {
    const store = memoryStore(holding(1));
    const ask = tokenRequester(store, false);
    await ask();
    server.rotation.valid.add(2);
    store.held = holding(1, 2);
    await ask();
    expect(presented()).toEqual([1, 2]);
  });

  test("is followed step by step by a client that was long away", async () => {
    for (const old of [1, 2, 3]) {
      server.rotation.due.add(old);
    }
    const store = memoryStore();
    const ask = tokenRequester(store);
    for (let asked = 0; asked < 5; asked += 1) {
      await ask();
    }
    expect(presented()).toEqual([1, 2, 3, 4, 4]);
    expect(store.held).toEqual(holding(4));
  });
});

describe("where a successor cannot be stored", () => {
  test.each([
    ["there is no store", undefined],
    [
      "the store is read-only",
      {
        load: async () => await Promise.resolve(holding(1)),
        save: async () => await Promise.reject(new Error("EROFS: read-only file system")),
      },
    ],
  ])("because %s, the present secret is kept and each offer logs a warning", async (_name, store) => {
    server.rotation.due.add(1);
    const ask = tokenRequester(store);
    await ask();
    await ask();
    expect(presented()).toEqual([1, 1]);
    expect(runtime.warnings.map(({ code }) => code)).toEqual([
      "SUCCESSOR_NOT_STORED",
      "SUCCESSOR_NOT_STORED",
    ]);
  });

  test("because the store hangs, the present secret stays in use", async () => {
    const hanging: CredentialStore = {
      load: async () => await Promise.resolve(undefined),
      save: async () => await new Promise<never>(() => undefined),
    };
    const configured = { clientId: CLIENT_ID, secret: secretOf(1) };
    const keeper = new CredentialKeeper({
      configured,
      store: hanging,
      warn: runtime.warn,
      storeTimeoutMs: 20,
    });
    await keeper.accepted(configured, version(2));
    expect(runtime.warnings).toMatchObject([{ code: "SUCCESSOR_NOT_STORED" }]);
    expect(await keeper.candidates()).toEqual([configured]);
  });
});

describe("at the start", () => {
  test("the stored successor is tried, then the stored secret, then the configured one", async () => {
    server.rotation.valid.clear();
    server.rotation.valid.add(1);
    await tokenRequester(memoryStore(holding(2, 3)))();
    expect(presented()).toEqual([3, 2, 1]);
  });

  test("a rejected successor is not presented first again", async () => {
    const ask = tokenRequester(memoryStore(holding(1, 2)), false);
    await ask();
    await ask();
    expect(presented()).toEqual([2, 1, 1]);
  });

  test("a rejected successor is replaced by the one that the service names now", async () => {
    const stale = { ...holding(1), next: { secret: secretOf(99), version: 2 } };
    server.rotation.due.add(1);
    const store = memoryStore(stale);
    const ask = tokenRequester(store, false);
    await ask();
    expect(store.held).toEqual(holding(1, 2));
    await ask();
    expect(presented()).toEqual([99, 1, 2]);
  });

  test("another client's stored credential is left alone until there is one to store", async () => {
    const foreign = { ...holding(7), clientId: "cl_somebody_else" };
    const store = memoryStore(foreign);
    const ask = tokenRequester(store);
    await ask();
    expect(presented()).toEqual([1]);
    expect(store.held).toBe(foreign);
  });

  test("an unreadable store logs a warning, and the configured secret is used", async () => {
    const broken: CredentialStore = {
      ...memoryStore(),
      load: async () => await Promise.reject(new Error("EIO")),
    };
    await tokenRequester(broken)();
    expect(runtime.warnings).toMatchObject([{ code: "STORE_UNREADABLE" }]);
  });

  test("a client without any credential gets an error", async () => {
    await expect(tokenRequester(memoryStore(), false)()).rejects.toMatchObject({
      name: "CredentialStoreError",
    });
  });

  test("the error of a missing or unreadable credential names its place and the reason", async () => {
    const at = async (store: CredentialStore): Promise<string> =>
      await tokenRequester({ ...store, place: "/run/credential.json" }, false)().catch(String);
    expect(await at(memoryStore())).toContain("/run/credential.json does not exist");
    const broken = { ...memoryStore(), load: async () => await Promise.reject(new Error("EIO: read")) };
    expect(await at(broken)).toContain("there is no credential: EIO: read");
  });
});
