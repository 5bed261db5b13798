/**
 * Calls every method of `signet/client` against a real service. Each request and response must match the service's
 * OpenAPI document, without additional members. The client's types are generated from that document.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { RegisteredEndpoint } from "#lib/client/api-types.ts";
import { CAEP_EVENTS } from "#domain/security-events.ts";
import { SignetClient, type SignetClientOptions } from "#lib/client/signet-client.ts";
import { useTestApi } from "../support/api.ts";
import { collected, untilDelivered } from "../support/client-streams.ts";
import { type Conformance, readConformance } from "../support/conformance.ts";
import { hastenAndCancel, replayManyAsJob } from "../support/client-replays.ts";
import { eventually } from "../support/eventually.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { WEBHOOK_SCOPES } from "../support/tenant.ts";

/** A short retry window: an event becomes a dead letter before the test times out. */
const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });

let client: Provisioned;
let receiver: Receiver;
let signet: SignetClient;
/** The second item of the batch below is invalid, and so its request is. */
const INVALID_ITEM = /^POST \/v1\/events, request: .*data\/events\/1\/type must match/;
/** Differences between the traffic and the OpenAPI document. */
const faults: string[] = [];
let conformance: Conformance;

/** `fetch` that checks each request and its answer against the OpenAPI document. */
const observed: NonNullable<SignetClientOptions["fetch"]> = async (url, init) => {
  const { pathname } = new URL(url);
  const method = init.method ?? "GET";
  const response = await fetch(url, init);
  const headers = new Headers(init.headers);
  const answerType = response.headers.get("content-type");
  faults.push(
    ...conformance.faultsOf({
      method,
      path: pathname,
      contentType: headers.get("content-type"),
      body: typeof init.body === "string" && init.body !== "" ? init.body : null,
      status: response.status,
      answerType,
      // A stream does not end; the tests that read it check its content.
      answer: answerType?.startsWith("text/event-stream") === true ? "" : await response.clone().text(),
    }),
  );
  return response;
};

/** Called methods of the library, as `Class.method`. */
const used = new Set<string>();
/** All methods of the library, as `Class.method`. */
const methods = new Set<string>();

/** Records calls of a resource's methods. */
function note(resource: object): void {
  const prototype = Object.getPrototypeOf(resource) as Record<string, unknown>;
  const { name: className } = resource.constructor;
  for (const name of Object.getOwnPropertyNames(prototype).filter((method) => method !== "constructor")) {
    const method = prototype[name];
    if (typeof method === "function") {
      methods.add(`${className}.${name}`);
      prototype[name] = function noted(this: object, ...args: unknown[]): unknown {
        used.add(`${className}.${name}`);
        return Reflect.apply(method, this, args) as unknown;
      };
    }
  }
}

function connect(more: Partial<SignetClientOptions> = {}): SignetClient {
  return new SignetClient({
    baseUrl: api.publicUrl,
    clientId: client.clientId,
    clientSecret: client.clientSecret,
    fetch: observed,
    ...more,
  });
}

beforeAll(async () => {
  conformance = await readConformance(api);
  client = await provision(api, {
    scopes: [
      ...WEBHOOK_SCOPES,
      "credentials:read",
      "credentials:revoke",
      "compliance:read",
      "ssf:read",
      "ssf:manage",
    ],
  });
  receiver = await startReceiver();
  signet = connect();
  for (const resource of [...Object.values(signet), signet.endpoints.secrets] as object[]) {
    note(resource);
  }
  return async () => {
    await receiver.close();
  };
});

async function activeEndpoint(events: readonly string[] = ["*"]): Promise<RegisteredEndpoint> {
  const endpoint = await signet.endpoints.create({
    url: `${receiver.url}/hook`,
    events,
    metadata: { team: "a" },
  });
  await eventually(
    async () => (await signet.endpoints.get(endpoint.id)).state === "ACTIVE",
    "the endpoint's verification",
  );
  return endpoint;
}

describe("the client", () => {
  test("registers, reads, lists, verifies and deletes endpoints", async () => {
    const endpoint = await activeEndpoint();
    expect(endpoint.secret).toMatch(/^whsec_/);
    expect(await signet.endpoints.get(endpoint.id)).toMatchObject({ metadata: { team: "a" }, events: ["*"] });
    const { secrets } = signet.endpoints;
    expect(await secrets.update(endpoint.id, { signing: "ed25519" })).toMatchObject({ signing: "ed25519" });
    const { secret, ...next } = await secrets.rotate(endpoint.id, { overlap_seconds: 60 });
    expect(secret).toMatch(/^whsec_/);
    expect((await secrets.list(endpoint.id)).data[0]).toMatchObject({
      version: 2,
      fingerprint: next.fingerprint,
    });
    expect((await secrets.activate(endpoint.id)).data.map(({ state }) => state)).toEqual([
      "CURRENT",
      "PREVIOUS",
    ]);
    await expect(signet.endpoints.verify(endpoint.id)).rejects.toMatchObject({ code: "INVALID_STATE" });
    const others = [await activeEndpoint(), await activeEndpoint()].map(({ id }) => id);
    const listed: string[] = [];
    for await (const { id } of signet.endpoints.list({ limit: 1 })) {
      listed.push(id);
    }
    expect(listed).toEqual([...others.toReversed(), endpoint.id]);
    for (const id of listed) {
      await signet.endpoints.delete(id);
    }
    await expect(signet.endpoints.get(endpoint.id)).rejects.toMatchObject({ status: 404, code: "NOT_FOUND" });
  });

  test("publishes an event, follows its delivery, and reads both", async () => {
    const endpoint = await activeEndpoint();
    const stream = signet.deliveries.stream();
    const delivered = untilDelivered(stream);
    await eventually(async () => await Promise.resolve(stream.lastEventId !== undefined), "the stream");
    const event = await signet.events.publish({
      type: "inference.completed",
      data: { run: 7 },
      id: "run-7",
      occurred_at: new Date("2026-11-20T12:00:00.000Z"),
    });
    const delivery = await eventually(async () => {
      await signet.deliveries.usage({ to: new Date().toISOString().slice(0, 10) });
      const { data } = await signet.deliveries.list({ event_id: event.id }).page();
      return data.find(({ state }) => state === "DELIVERED");
    }, "the delivery");
    expect(await signet.deliveries.get(delivery.id)).toEqual(delivery);
    expect(await delivered).toEqual(delivery);
    expect(await signet.deliveries.attempts(delivery.id)).toMatchObject([
      { attempt: 1, status: 200, error: null },
    ]);
    expect(await signet.events.get(event.id)).toMatchObject({
      source_id: "run-7",
      occurred_at: "2026-11-20T12:00:00.000Z",
      data: { run: 7 },
    });
    expect((await signet.events.list({ event_type: "inference.completed" }).page()).data[0]?.id).toBe(
      event.id,
    );
    await signet.endpoints.delete(endpoint.id);
  });

  test("keeps a catalogue of event types and reports data that violate a schema", async () => {
    const type = "client.catalogued";
    await signet.eventTypes.create({
      name: type,
      schema: { required: ["a"] },
      examples: [{ a: 1 }],
    });
    await expect(signet.events.publish({ type, data: {} })).rejects.toMatchObject({
      code: "VALIDATION_FAILED",
    });
    expect(await signet.eventTypes.update(type, { schema: {}, deprecated: true })).toMatchObject({
      schema_version: 2,
    });
    expect(await signet.eventTypes.get(type)).toMatchObject({ schema: {} });
    expect((await signet.eventTypes.versions(type).page()).data).toMatchObject([
      { version: 2 },
      { version: 1 },
    ]);
    expect((await signet.eventTypes.list({ archived: "true" }).page()).data).toMatchObject([{ name: type }]);
    await signet.eventTypes.delete(type);
    await expect(signet.eventTypes.get(type)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("publishes a batch whose items succeed or fail independently", async () => {
    const items = await signet.events.publishBatch([
      { type: "a.b", data: {} },
      { type: "not a type", data: {} },
      { type: "c.d", data: {} },
    ]);
    expect(items).toMatchObject([
      { index: 0, type: "a.b" },
      { index: 1, error: { code: "VALIDATION_FAILED", status: 422 } },
      { index: 2, type: "c.d" },
    ]);
    expect(items.filter((item) => item.error === undefined).map(({ id }) => id)).toHaveLength(2);
  });

  test("publishes once although the answer was lost", async () => {
    let lose = true;
    const lossy = connect({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        if (url.endsWith("/v1/events") && lose) {
          lose = false;
          throw new TypeError("fetch failed");
        }
        return response;
      },
    });
    const type = "lost.once";
    const event = await lossy.events.publish({ type, data: {} });
    const { data } = await signet.events.list({ event_type: type }).page();
    expect(data.map(({ id }) => id)).toEqual([event.id]);
  });

  test("finds dead letters and replays them", async () => {
    const endpoint = await activeEndpoint(["inference.failed"]);
    receiver.answer([{ kind: "answer", status: 500 }]);
    const event = await signet.events.publish({ type: "inference.failed", data: { run: 8 } });
    const letter = await eventually(async () => {
      const { data } = await signet.deadLetters.list({ event_id: event.id }).page();
      return data[0];
    }, "the dead letter");
    expect(letter).toMatchObject({ reason: "attempts_exhausted", state: "DEAD_LETTERED", attempt_count: 17 });
    expect(await signet.deadLetters.get(letter.id)).toEqual(letter);
    expect(await collected(signet.deadLetters.export({ event_id: event.id }))).toEqual([letter]);
    receiver.answer([{ kind: "answer" }]);
    expect(await signet.deadLetters.replay(letter.id)).toMatchObject({ cycle: 2 });
    await eventually(
      async () => (await signet.deliveries.get(letter.id)).state === "DELIVERED",
      "the replay",
    );
    await expect(signet.deadLetters.replay(letter.id)).rejects.toMatchObject({
      status: 409,
      code: "INVALID_STATE",
    });
    await signet.endpoints.delete(endpoint.id);
  });

  test("counts dead letters and replays many of them as a job that can be paused, resumed and cancelled", async () => {
    await replayManyAsJob(signet, await activeEndpoint(["replay.many"]));
  });

  test("expedites and cancels a waiting delivery, and reads delivery statistics", async () => {
    await hastenAndCancel(signet, await activeEndpoint(["paced.slowly"]), api.clock.now());
  });

  test("creates a portal link", async () => {
    const made = await provision(api, { scopes: ["portal:sign_in"] });
    const { portal } = connect({ clientId: made.clientId, clientSecret: made.clientSecret });
    expect((await portal.createLink({ expires_in_seconds: 60 })).url).toMatch(/\/portal\//);
  });

  test("reads credentials", async () => {
    const [credential] = (await signet.credentials.list().page()).data;
    expect(credential).toMatchObject({ id: client.credentialId, client_id: client.clientId });
    expect(await signet.credentials.get(client.credentialId)).toEqual({
      ...credential,
      versions: [expect.objectContaining({ version: 1, state: "ACTIVE" })],
    });
  });

  test("replaces its own credential with an overlap", async () => {
    const own = await provision(api, { scopes: ["credentials:read", "credentials:write"] });
    const [before, after] = [own, own].map(({ clientId, clientSecret }) =>
      connect({ clientId, clientSecret }),
    );
    const made = await before?.credentials.create({ replaces: own.credentialId, overlap_seconds: 60 });
    expect(made?.client_secret).toBeTypeOf("string");
    expect(await after?.credentials.get(own.credentialId)).toMatchObject({ replaced_by: made?.id });
  });

  test("creates, lists and revokes signing secrets, and requires signatures", async () => {
    const own = await provision(api, {
      scopes: ["credentials:read", "credentials:write", "credentials:revoke"],
    });
    const { credentials } = connect({ clientId: own.clientId, clientSecret: own.clientSecret });
    const made = await credentials.createSigningSecret(own.credentialId, { overlapSeconds: 60 });
    expect(made.secret).toMatch(/^whsec_/);
    const [version] = await credentials.signingSecrets(own.credentialId);
    expect(version?.fingerprint).toBe(made.fingerprint);
    expect((await credentials.requireSignature(own.credentialId, true)).signature_required).toBe(true);
    const [ended] = await credentials.revokeSigningSecrets(own.credentialId, { version: 1 });
    expect(ended?.state).toBe("REVOKED");
  });

  test("revokes a credential once although the answer was lost", async () => {
    const { tenantId } = client;
    const victim = await provision(api, { tenantId, scopes: ["webhooks:read"] });
    const theirs = connect({ clientId: victim.clientId, clientSecret: victim.clientSecret });
    await theirs.accessToken();
    let answers = 0;
    const lossy = connect({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        if (url.endsWith("/revoke") && ++answers === 1) {
          throw new TypeError("fetch failed");
        }
        return response;
      },
    });
    const receipt = await lossy.credentials.revoke(victim.credentialId, { reason: "compromised" });
    expect(await signet.credentials.revoke(victim.credentialId)).toMatchObject({
      revocation_id: receipt.revocation_id,
    });
    expect(await signet.credentials.revokeLeaked(victim.clientId)).toMatchObject({
      revocation_id: receipt.revocation_id,
    });
    // The token is rejected; the client requests a fresh one, and the credential is rejected.
    await eventually(
      async () =>
        await theirs.endpoints
          .list()
          .page()
          .then(
            () => false,
            () => true,
          ),
      "the revocation",
    );
    await expect(theirs.endpoints.list().page()).rejects.toMatchObject({ code: "INVALID_CLIENT" });
  });

  test("names the missing permission", async () => {
    const narrow = connect({ scopes: ["webhooks:read"] });
    await expect(narrow.events.publish({ type: "a.b", data: {} })).rejects.toMatchObject({
      status: 403,
      code: "SCOPE_VIOLATION",
      problem: { missing_permission: "events:publish" },
      requestId: expect.stringMatching(/^req_/) as string,
    });
  });

  test("gets a fresh token when its own has expired by the service's clock", async () => {
    const slow = connect();
    await slow.endpoints.list().page();
    api.clock.advance(16 * 60_000);
    await expect(slow.endpoints.list().page()).resolves.toBeDefined();
  });

  test("tests, changes, disables, enables and grades an endpoint, and erases its data", async () => {
    const { id } = await activeEndpoint(["inference.tried"]);
    expect(await signet.endpoints.test(id)).toMatchObject({ event_type: "endpoint.test", endpoint_id: id });
    const { id: eventId } = await signet.events.publish({ type: "inference.tried", data: { run: 9 } });
    await signet.events.eraseContent(eventId);
    expect(await signet.events.get(eventId)).toMatchObject({ data: null });
    const grade = await signet.endpoints.grade(id);
    await eventually(
      async () => ["COMPLETED", "FAILED"].includes((await signet.endpoints.getGrade(id, grade.id)).state),
      "the grade",
    );
    expect((await signet.endpoints.listGrades(id).page()).data).toMatchObject([{ id: grade.id }]);
    expect(await signet.endpoints.update(id, { description: "tried" })).toMatchObject({
      description: "tried",
    });
    expect(await signet.endpoints.disable(id)).toMatchObject({ state: "DISABLED" });
    expect(await signet.endpoints.enable(id)).toMatchObject({ state: "PENDING" });
    await signet.endpoints.delete(id);
  });

  test("creates, changes, pauses and polls a stream of security events", async () => {
    const { streams } = signet;
    const { stream_id: id } = await streams.create({ description: "first" });
    expect(await streams.list()).toMatchObject([{ stream_id: id }]);
    const change = { description: "second", events_requested: [CAEP_EVENTS["session-revoked"]] };
    expect(await streams.update(id, change)).toMatchObject(change);
    expect(await streams.get(id)).toMatchObject(change);
    const subject = { format: "iss_sub", iss: api.publicUrl, sub: client.clientId };
    await streams.removeSubject(id, subject);
    await streams.addSubject(id, subject);
    const paused = { status: "paused", reason: "maintenance" } as const;
    expect(await streams.setStatus(id, paused)).toEqual({ stream_id: id, ...paused });
    expect(await streams.status(id)).toMatchObject(paused);
    await streams.setStatus(id, { status: "enabled" });
    await streams.verify(id, { state: "here" });
    const [jti = "", ...others] = Object.keys((await streams.poll(id)).sets);
    expect(others).toEqual([]);
    expect(await streams.poll(id, { ack: [jti], returnImmediately: true })).toEqual({
      sets: {},
      moreAvailable: false,
    });
    await streams.delete(id);
    await expect(streams.get(id)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("reads the compliance log", async () => {
    const [entry] = (await signet.compliance.list({ limit: 1 }).page()).data;
    expect(await signet.compliance.get(entry?.index ?? -1)).toMatchObject({ index: entry?.index });
    const checkpoint = await signet.compliance.checkpoint().catch((error: unknown) => error);
    // There may be no signed checkpoint yet.
    expect(JSON.stringify(checkpoint)).toMatch(/"code":"NOT_FOUND"|"note":"/);
  });

  test("sends and receives only what the document describes, with every method", () => {
    expect([...new Set(faults)].filter((fault) => !INVALID_ITEM.test(fault))).toEqual([]);
    // Needs a signed checkpoint; see test/integration/compliance/verify.test.ts.
    const elsewhere = ["Compliance.verify"];
    expect([...methods].filter((method) => !used.has(method))).toEqual(elsewhere);
    expect(methods.size).toBeGreaterThan(35);
  });
});
