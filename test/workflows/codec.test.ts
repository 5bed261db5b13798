/** Histories with the codec on: unreadable in Temporal, decryptable by operators, and open to signals sent by hand. */
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "@temporalio/client";
import { Worker } from "@temporalio/worker";
import { readAnswer } from "../support/answer.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { createPayloadCodec, dataConverterOf, ENCRYPTED } from "../../src/temporal/codec.ts";
import { testKeyring } from "../support/keyring.ts";
import { workflowBundle } from "../support/processes.ts";
import { createLazyClient } from "../../src/temporal/client.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { paste } from "../support/temporal-cli.ts";
import { temporalOptionsOf } from "../support/temporal-connection.ts";
import { accessToken } from "../support/factories.ts";
import { asTenant, type Tenant } from "../support/tenant.ts";

const UI = "http://127.0.0.1:8233";
const api = useTestApi({
  worker: true,
  environment: {
    SIGNET_TEMPORAL_CODEC: "on",
    SIGNET_RETRY_WINDOW_MS: "2000",
    SIGNET_TEMPORAL_UI_URL: UI,
  },
});

interface WirePayload {
  readonly metadata: Readonly<Record<string, string>>;
  readonly data: string;
}

/** Returns every payload of a history, as the UI and the CLI get them. */
function payloadsOf(value: unknown): WirePayload[] {
  if (typeof value !== "object" || value === null) {
    return [];
  }
  const { metadata, data } = value as { metadata?: Record<string, Uint8Array>; data?: Uint8Array };
  if (metadata?.["encoding"] instanceof Uint8Array) {
    const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");
    const members = Object.entries(metadata).map(([name, bytes]) => [name, base64(bytes)]);
    return [
      {
        metadata: Object.fromEntries(members) as Record<string, string>,
        data: base64(data ?? new Uint8Array()),
      },
    ];
  }
  return Object.entries(value).flatMap(([name, member]) =>
    // The server must be able to read search attributes.
    name === "searchAttributes" ? [] : payloadsOf(member),
  );
}

const encodingOf = ({ metadata }: WirePayload): string =>
  Buffer.from(metadata["encoding"] ?? "", "base64").toString();

describe("with the codec on", () => {
  let own: Provisioned;
  let receiver: Receiver;
  let temporal: Client;
  let tenant: Tenant;

  beforeAll(async () => {
    own = await provision(api, {
      scopes: ["webhooks:read", "webhooks:write", "webhooks:replay", "events:publish"],
    });
    tenant = asTenant(api, own, await accessToken(api, own));
    receiver = await startReceiver();
    temporal = createLazyClient(temporalOptionsOf(api.environment));
  });
  afterAll(async () => {
    await receiver.close();
    await temporal.connection.close();
  });

  /** Runs the commands of docs/temporal.md for an encrypted history, with this service's addresses. */
  async function byCli(workflowId: string): Promise<string> {
    const document = await readFile(new URL("../../docs/temporal.md", import.meta.url), "utf8");
    const [, lines = "exit 1"] = /<!-- test: codec -->\n```sh\n([\s\S]*?)^```$/m.exec(document) ?? [];
    const here = lines
      .replaceAll("http://127.0.0.1:8081", api.adminUrl)
      .replaceAll("--namespace signet", `--namespace ${api.environment["TEMPORAL_NAMESPACE"]}`)
      .replaceAll("dlv_…", workflowId);
    const printed = await paste(api.environment["TEMPORAL_ADDRESS"] ?? "", here, {
      SIGNET_OPERATOR_TOKEN: api.operatorToken,
    });
    // Each output contains a decrypted value.
    expect(printed).toMatch(/QueryResult +\{.*"state":"DEAD_LETTERED"/);
    expect(printed).toContain("dead_letter_ms");
    expect(printed).toMatch(/Current Details:\n +\*\*1 delivery\*\*/);
    expect(printed).toContain("Signal workflow succeeded");
    return printed;
  }

  test("a delivery's history is unreadable, operators can decrypt it, also with `temporal`, and json/plain signals take effect", async () => {
    const { body: endpoint } = await tenant.post("/v1/webhooks/endpoints", {
      url: `${receiver.url}/hook`,
      events: ["codec.tried"],
    });
    const endpointId = String(endpoint["id"]);
    await eventually(
      async () => (await tenant.get(`/v1/webhooks/endpoints/${endpointId}`)).body["state"] === "ACTIVE",
      "the endpoint's verification",
    );
    receiver.answer([{ kind: "answer", status: 500 }]);
    await tenant.post("/v1/events", { type: "codec.tried", data: { run: 1 } });
    const letter = await eventually(async () => {
      const { body } = await tenant.get("/v1/webhooks/dlq");
      return (body["data"] as { id: string; workflow_id: string }[])[0];
    }, "the dead letter");

    const handle = temporal.workflow.getHandle(letter.workflow_id);
    const history = await handle.fetchHistory();
    const payloads = payloadsOf(history.events);
    const readable = payloads.filter((payload) => encodingOf(payload) !== ENCRYPTED);
    // The SDK's own bookkeeping: numbers and times of local activities, and names of patches.
    for (const { data } of readable) {
      const keys = Object.keys(JSON.parse(Buffer.from(data, "base64").toString()) as object);
      expect(keys.includes("activity_type") || keys.join() === "id,deprecated").toBe(true);
    }
    expect(payloads.length).toBeGreaterThan(readable.length);
    expect(payloads.map(({ data }) => Buffer.from(data, "base64").toString("latin1")).join("\n")).not.toMatch(
      /dlv_|ep_|ten_|offsets_ms|dead_letter_ms/,
    );

    const decoded = await api.admin("POST", "/codec/decode", { payloads });
    expect(decoded.status).toBe(200);
    const texts = (decoded.body["payloads"] as WirePayload[]).map(({ data }) =>
      Buffer.from(data, "base64").toString(),
    );
    expect(texts.join("\n")).toContain(letter.id);
    expect(texts.join("\n")).toContain("dead_letter_ms");

    expect(await byCli(letter.workflow_id)).toContain(letter.id);

    receiver.answer([{ kind: "answer" }]);
    await handle.signal("replay", { delivery_ids: [letter.id], by: "an operator" });
    // A signal that arrives during a workflow task is in the history after it.
    await eventually(
      async () =>
        payloadsOf((await handle.fetchHistory()).events)
          .map(encodingOf)
          .includes("json/plain"),
      "the signal in the history, as it was sent",
    );
    await eventually(
      async () => (await tenant.get(`/v1/webhooks/deliveries/${letter.id}`)).body["state"] === "DELIVERED",
      "the replay",
    );
  });
});

test("histories from before the codec continue with it", async () => {
  const codec = createPayloadCodec({ keyring: testKeyring(), clock: Date, randomBytes });
  const path = new URL("../replay/histories/deliver-dead-letter-replayed.json", import.meta.url);
  const options = { workflowBundle: workflowBundle(true), ...dataConverterOf(codec) };
  await Worker.runReplayHistory(options, JSON.parse(await readFile(path, "utf8")));
});

describe("the codec server", () => {
  const decode = async (init: RequestInit) =>
    await fetch(`${api.adminUrl}/admin/v1/codec/decode`, { method: "POST", ...init });
  const authorization = (): string => `Bearer ${api.operatorToken}`;

  test("returns unencrypted payloads unchanged, and records that in the compliance log", async () => {
    const plain = { metadata: { encoding: Buffer.from("json/plain").toString("base64") }, data: "e30=" };
    const { status, body } = await api.admin("POST", "/codec/decode", { payloads: [plain] });
    expect({ status, body }).toEqual({ status: 200, body: { payloads: [plain] } });
    const log = await api.admin("GET", "/audit?type=history.decoded");
    expect((log.body["data"] as unknown[])[0]).toMatchObject({ details: { payloads: 1 } });
  });

  test("refuses undecryptable payloads, too many payloads, and callers who are not operators", async () => {
    const foreign = createPayloadCodec({ keyring: testKeyring(), clock: Date, randomBytes });
    const [sealed] = await foreign.encode([{ metadata: {}, data: Buffer.from("x") }]);
    const metadata = Object.fromEntries(
      Object.entries(sealed?.metadata ?? {}).map(([name, bytes]) => [
        name,
        Buffer.from(bytes).toString("base64"),
      ]),
    );
    const payloads = [{ metadata, data: Buffer.from(sealed?.data ?? "").toString("base64") }];
    expect(await api.admin("POST", "/codec/decode", { payloads })).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED" },
    });
    const many = Array.from({ length: 501 }, () => ({}));
    expect(await api.admin("POST", "/codec/decode", { payloads: many })).toMatchObject({ status: 422 });
    const nobody = await decode({ headers: { "content-type": "application/json" }, body: '{"payloads":[]}' });
    expect(await readAnswer(nobody)).toMatchObject({ status: 401 });
  });

  test("encrypts operators' input, and records that in the compliance log", async () => {
    const plain = {
      metadata: { encoding: Buffer.from("json/plain").toString("base64") },
      data: Buffer.from('{"by":"ada"}').toString("base64"),
    };
    const encoded = await api.admin("POST", "/codec/encode", { payloads: [plain] });
    const [sealed] = encoded.body["payloads"] as WirePayload[];
    expect(sealed === undefined ? "" : encodingOf(sealed)).toBe(ENCRYPTED);
    const log = await api.admin("GET", "/audit?type=history.encoded");
    expect((log.body["data"] as unknown[])[0]).toMatchObject({ details: { payloads: 1 } });
    const decoded = await api.admin("POST", "/codec/decode", { payloads: [sealed] });
    expect(decoded.body["payloads"]).toEqual([plain]);
  });

  test("admits pages of Temporal's UI, and no other origin", async () => {
    const body = '{"payloads":[]}';
    const ask = async (method: string, origin: string) =>
      await decode({
        method,
        headers: { origin, authorization: authorization(), "content-type": "application/json" },
        ...(method === "POST" ? { body } : {}),
      });
    for (const method of ["OPTIONS", "POST"]) {
      expect((await ask(method, UI)).headers.get("access-control-allow-origin")).toBe(UI);
      expect(
        (await ask(method, "https://evil.example")).headers.get("access-control-allow-origin"),
      ).toBeNull();
    }
  });

  test("accepts at most 600 requests per minute from one operator", async () => {
    const seen = new Set<number>();
    for (let asked = 0; asked < 660 && !seen.has(429); asked += 30) {
      const answers = await Promise.all(
        Array.from({ length: 30 }, async () => await api.admin("POST", "/codec/encode", {})),
      );
      answers.forEach(({ status }) => seen.add(status));
    }
    expect(seen).toEqual(new Set([200, 429]));
  });
});
