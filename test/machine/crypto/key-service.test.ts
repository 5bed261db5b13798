/**
 * Key management services: what a wrapped key is bound to, and what happens when the service refuses or is silent.
 * Google's own client talks to a stand-in of this process, which is not Google's service.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { KeyManagementServiceClient } from "@google-cloud/kms";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { KmsKey } from "#config/key-settings.ts";
import { EnvelopeError } from "#crypto/envelope.ts";
import { createKeyEncryption, fixedKeys, type KeyEncryption } from "#crypto/key-encryption.ts";
import { createServiceEncryption } from "#crypto/key-service.ts";
import { googleKeyService } from "#crypto/key-service-clients.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const key = (name: string): KmsKey => ({
  name: `projects/p/locations/europe-west3/keyRings/r/cryptoKeys/${name}`,
  awsRegion: undefined,
});
const ROOT = randomBytes(32);
const IV = Buffer.alloc(12);
const TAG_BYTES = 16;

interface Call {
  readonly plaintext?: string;
  readonly ciphertext?: string;
  readonly additionalAuthenticatedData: string;
}

/** The status and the message of an error of Google's services. */
interface Fault {
  readonly http: number;
  readonly status: string;
}

const bytes = (text = ""): Buffer => Buffer.from(text, "base64");
let fault: Fault | undefined;
const calls: string[] = [];

/** Encrypts with AES-256-GCM under the key's name, which belongs to the additional data. */
function answerTo(url: string, { plaintext, ciphertext, additionalAuthenticatedData }: Call): object | Fault {
  const aad = Buffer.concat([Buffer.from(url.replace(/:[a-z]+$/, "")), bytes(additionalAuthenticatedData)]);
  if (plaintext !== undefined) {
    const cipher = createCipheriv("aes-256-gcm", ROOT, IV).setAAD(aad);
    const sealed = Buffer.concat([cipher.update(bytes(plaintext)), cipher.final(), cipher.getAuthTag()]);
    return { ciphertext: sealed.toString("base64") };
  }
  const sealed = bytes(ciphertext);
  const decipher = createDecipheriv("aes-256-gcm", ROOT, IV)
    .setAAD(aad)
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    const opened = Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]);
    return { plaintext: opened.toString("base64") };
  } catch {
    return { http: 400, status: "INVALID_ARGUMENT" };
  }
}

let server: Server;
let client: KeyManagementServiceClient;
beforeAll(async () => {
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const [url = ""] = (request.url ?? "").split("?");
      calls.push(url.split(":").at(-1) ?? "");
      const answer = fault ?? answerTo(url, JSON.parse(Buffer.concat(chunks).toString()) as Call);
      response.setHeader("content-type", "application/json");
      if ("http" in answer) {
        const { http, status } = answer as Fault;
        response.writeHead(http).end(JSON.stringify({ error: { code: http, message: status, status } }));
      } else {
        response.end(JSON.stringify(answer));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  client = new KeyManagementServiceClient({
    fallback: true,
    protocol: "http",
    apiEndpoint: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    // Without credentials.
    authClient: { fetch, getRequestHeaders: () => new Headers(), universeDomain: "googleapis.com" },
  } as unknown as ConstructorParameters<typeof KeyManagementServiceClient>[0]);
});
afterAll(async () => {
  await client.close();
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  fault = undefined;
  calls.length = 0;
});

let nowMs = 0;
function provider(current: KmsKey | undefined, more: { previous?: KmsKey[]; local?: KeyEncryption } = {}) {
  return createServiceEncryption({
    current,
    previous: more.previous ?? [],
    serviceOf: () => googleKeyService(client),
    local: more.local,
    timers: { ...machineTimers, monotonic: () => nowMs },
  });
}

describe("a key in Google Cloud KMS", () => {
  test("wraps for one place, and names itself in the envelope by a digest", async () => {
    const one = provider(key("one"));
    const envelope = await one.wrap("tenants|ten_a|ten_a|1", Buffer.from("secret"));
    expect(envelope).toMatch(/^kms1\.gcp-[0-9a-f]{12}\.[A-Za-z0-9_-]+$/);
    expect(envelope.split(".")[1]).toBe(await one.currentKeyId());
    expect((await one.unwrap("tenants|ten_a|ten_a|1", envelope)).toString()).toBe("secret");
    await expect(one.unwrap("tenants|ten_b|ten_b|1", envelope)).rejects.toThrow(EnvelopeError);
    const changed = `${envelope.slice(0, -2)}${envelope.endsWith("AA") ? "BB" : "AA"}`;
    await expect(one.unwrap("tenants|ten_a|ten_a|1", changed)).rejects.toThrow(EnvelopeError);
  });

  test("is found by the id in the envelope, beside other keys and local ones", async () => {
    const local = createKeyEncryption(fixedKeys([randomBytes(32)]), randomBytes);
    const before = await local.wrap("place", Buffer.from("local"));
    const first = await provider(key("one")).wrap("place", Buffer.from("first"));
    const both = provider(key("two"), { previous: [key("one")], local });
    const second = await both.wrap("place", Buffer.from("second"));
    for (const [envelope, text] of [
      [before, "local"],
      [first, "first"],
      [second, "second"],
    ] as const) {
      expect((await both.unwrap("place", envelope)).toString()).toBe(text);
    }
    const back = provider(undefined, { previous: [key("two")], local });
    expect(await back.currentKeyId()).toBe(await local.currentKeyId());
    expect((await back.unwrap("place", second)).toString()).toBe("second");
    for (const envelope of [before, first]) {
      await expect(provider(key("two")).unwrap("place", envelope)).rejects.toThrow(
        "which this process does not have",
      );
    }
    await expect(local.unwrap("place", first)).rejects.toThrow("which this process does not have");
  });

  test.each([
    [403, "PERMISSION_DENIED"],
    [404, "NOT_FOUND"],
    [400, "FAILED_PRECONDITION"],
  ])("answers 503 and is asked again if it is refused: %i %s", async (http, status) => {
    const one = provider(key("one"));
    const envelope = await one.wrap("place", Buffer.from("secret"));
    fault = { http, status };
    await expect(one.unwrap("place", envelope)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      refused: true,
      cause: { message: expect.stringContaining(status) as string },
    });
    fault = undefined;
    expect((await one.unwrap("place", envelope)).toString()).toBe("secret");
  });

  test("is not asked for a second after a call without an answer", async () => {
    const one = provider(key("one"));
    const envelope = await one.wrap("place", Buffer.from("secret"));
    fault = { http: 500, status: "INTERNAL" };
    const unwrap = async () => await one.unwrap("place", envelope);
    await expect(unwrap()).rejects.toMatchObject({ code: "UNAVAILABLE", refused: false });
    fault = undefined;
    calls.length = 0;
    nowMs += 999;
    await expect(unwrap()).rejects.toMatchObject({ code: "UNAVAILABLE", refused: false });
    expect(calls).toEqual([]);
    nowMs += 1;
    expect((await unwrap()).toString()).toBe("secret");
  });
});
