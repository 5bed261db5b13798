/** The receiver of security events for services with a JWT library. */
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { SetError, SsfReceiver, type SsfReceiverOptions } from "#lib/receiver/index.ts";
import {
  ISSUER,
  NOW_S,
  REVOKED,
  type SecurityEvents,
  securityEvents,
  STREAM,
  subject,
} from "#test/support/security-events.ts";

const TYPE = { "content-type": "application/secevent+jwt" };

let sets: SecurityEvents;
let nowMs: number;
let fetched: number;

beforeAll(async () => {
  sets = await securityEvents();
});
beforeEach(() => {
  nowMs = NOW_S * 1_000;
  fetched = 0;
});

function receiver(options: Partial<SsfReceiverOptions> = {}): SsfReceiver {
  return new SsfReceiver({
    issuer: ISSUER,
    audience: STREAM,
    fetchKeys: async () => {
      fetched += 1;
      return await Promise.resolve(sets.keys);
    },
    onError: () => undefined,
    now: () => nowMs,
    ...options,
  });
}

const VERIFICATION = "https://schemas.openid.net/secevent/ssf/event-type/verification";

const token = async (claims: object = {}, header: object = {}): Promise<string> =>
  await sets.token(claims, header);

const push = async (to: SsfReceiver, set: string, headers: Record<string, string> = TYPE) =>
  await to.receive(Buffer.from(set), headers);

/** Claims of an access token of the service. */
const access = { iss: ISSUER, sub: "cl_1", prn: "prn_1", tenant: "ten_1", jti: "t1", iat: NOW_S - 10 };

describe("a revocation", () => {
  test.each([
    ["a client", subject("cl_1"), { sub: "cl_2" }],
    ["a principal", subject("prn_1"), { prn: "prn_2" }],
    ["a tenant", { format: "opaque", id: "ten_1" }, { tenant: "ten_2" }],
    ["a token", { format: "jwt_id", iss: ISSUER, jti: "t1" }, { jti: "t2" }],
  ])("of %s denies its tokens and no others", async (_what, subId, other) => {
    const denying = receiver();
    expect(denying.isDenied(access)).toBe(false);
    expect(await push(denying, await token({ sub_id: subId }))).toEqual({
      status: 202,
      body: "",
      headers: {},
    });
    expect(denying.isDenied(access)).toBe(true);
    expect(denying.isDenied({ ...access, iat: undefined })).toBe(true);
    expect(denying.isDenied({ ...access, ...other })).toBe(false);
    expect(denying.isDenied({ ...access, iss: "https://other.example", tenant: "" })).toBe(false);
    // A tenant that was resumed gets new tokens.
    expect(denying.isDenied({ ...access, iat: NOW_S + 2 })).toBe(false);
  });

  test("is forgotten once the tokens have expired, and one that arrives so late is not remembered", async () => {
    const denying = receiver({ maxDenials: 1 });
    await push(denying, await token());
    nowMs += 1_000_000;
    expect(await push(denying, await token({ sub_id: subject("cl_2") }))).toMatchObject({ status: 202 });
    expect(denying.isDenied({ ...access, sub: "cl_2" })).toBe(false);
    expect(
      await push(
        denying,
        await token({ iat: NOW_S + 1_000, sub_id: subject("cl_3"), events: { [REVOKED]: {} } }),
      ),
    ).toMatchObject({ status: 202 });
    expect(denying.isDenied({ ...access, sub: "cl_3" })).toBe(true);
    expect(denying.isDenied(access)).toBe(false);
  });

  test("that finds the memory full is answered 503, so that it comes again", async () => {
    const denying = receiver({ maxDenials: 1 });
    await push(denying, await token());
    const second = await token({ sub_id: subject("cl_2") });
    expect(await push(denying, second)).toMatchObject({ status: 503 });
    expect(await push(denying, await token())).toMatchObject({ status: 202 });
    nowMs += 961_000;
    const third = { sub_id: subject("cl_2"), events: { [REVOKED]: { event_timestamp: NOW_S + 900 } } };
    expect(await push(denying, await token(third))).toMatchObject({ status: 202 });
    expect(denying.isDenied({ ...access, sub: "cl_2" })).toBe(true);
  });

  test("with a subject that names nothing denies nobody", async () => {
    const denying = receiver();
    for (const subId of [{ format: "iss_sub", iss: ISSUER }, { format: "opaque" }, { format: "email" }, {}]) {
      expect(await push(denying, await token({ sub_id: subId }))).toMatchObject({ status: 202 });
    }
    expect(denying.isDenied({ iss: ISSUER })).toBe(false);
    expect(denying.isDenied({})).toBe(false);
  });
});

describe("a token", () => {
  test.each([
    ["of another type", {}, { typ: "at+jwt" }, "invalid_request"],
    ["of another issuer", { iss: "https://evil.example" }, {}, "invalid_issuer"],
    ["for another stream", { aud: "ssf_other" }, {}, "invalid_audience"],
    ["from the future", { iat: NOW_S + 120 }, {}, "invalid_request"],
    ["without jti", { jti: undefined }, {}, "invalid_request"],
    ["with exp, as an access token has", { exp: NOW_S + 900 }, {}, "invalid_request"],
    ["with sub", { sub: "cl_1" }, {}, "invalid_request"],
    ["without a subject", { sub_id: undefined }, {}, "invalid_request"],
    ["with a list of events", { events: [] }, {}, "invalid_request"],
    ["of an unknown key", {}, { kid: "two" }, "invalid_key"],
  ])("%s is rejected", async (_what, claims, header, err) => {
    const denying = receiver();
    const answer = await push(denying, await token(claims, header));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toEqual({ err, description: expect.any(String) as string });
    // RFC 8935 section 2.3.
    expect(answer.headers).toEqual({ "Content-Type": "application/json", "Content-Language": "en" });
    expect(denying.isDenied(access)).toBe(false);
  });

  test("with a changed payload, signature or algorithm is rejected", async () => {
    const [head, payload, signature] = (await token()).split(".") as [string, string, string];
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const other = part({ ...(JSON.parse(Buffer.from(payload, "base64url").toString()) as object), jti: "x" });
    const header = { typ: "secevent+jwt", kid: "one" };
    const forged = [
      `${head}.${other}.${signature}`,
      `${head}.${payload}.`,
      `${part({ ...header, alg: "none" })}.${payload}.`,
      `${part({ ...header, alg: "RS256" })}.${payload}.${signature}`,
      `${part({ ...header, alg: "constructor" })}.${payload}.${signature}`,
    ];
    for (const set of forged) {
      expect(JSON.parse((await push(receiver(), set)).body)).toMatchObject({ err: "authentication_failed" });
    }
    for (const set of ["", "x", "a.b.c", `${head}.${payload}.${signature}.x`, `${part([])}.${payload}.`]) {
      expect(JSON.parse((await push(receiver(), set)).body)).toMatchObject({ err: "invalid_request" });
    }
  });

  test("is accepted in any number of attempts and passed on once", async () => {
    const seen: string[] = [];
    const denying = receiver({ onToken: ({ jti }) => seen.push(jti) });
    const set = await token({ jti: "set_same" });
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect(await push(denying, set)).toMatchObject({ status: 202 });
    }
    expect(seen).toEqual(["set_same"]);
  });

  test("whose handler fails is answered 503 and passed on again", async () => {
    let failures = 1;
    const denying = receiver({
      onToken: () => {
        failures -= 1;
        if (failures >= 0) {
          throw new Error("down");
        }
      },
    });
    const set = await token();
    expect(await push(denying, set)).toMatchObject({ status: 503 });
    // It is in effect nevertheless.
    expect(denying.isDenied(access)).toBe(true);
    expect(await push(denying, set)).toMatchObject({ status: 202 });
    expect(failures).toBe(-1);
  });

  test("whose handler rejects it is answered with the reason", async () => {
    const txns: (string | undefined)[] = [];
    const verifying = receiver({
      onToken: ({ txn, events }) => {
        txns.push(txn);
        if (events[VERIFICATION]?.["state"] !== "mine") {
          throw new SetError("invalid_state", "the state is not the one that was requested");
        }
      },
    });
    const verification = (state: string): object => ({ txn: "evt_1", events: { [VERIFICATION]: { state } } });
    const answer = await push(verifying, await token(verification("other")));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ err: "invalid_state" });
    expect(await push(verifying, await token(verification("mine")))).toMatchObject({ status: 202 });
    expect(txns).toEqual(["evt_1", "evt_1"]);
  });

  test("of a poll is verified in the same way", async () => {
    const denying = receiver();
    expect(await denying.accept(await token())).toMatchObject({ iat: NOW_S, subId: subject("cl_1") });
    await expect(denying.accept(await token({ aud: "other" }))).rejects.toThrow(SetError);
  });
});

describe("a push", () => {
  test("needs the media type, at most 64 KiB, and the Authorization header that the stream has", async () => {
    const denying = receiver({ authorization: "Bearer secret" });
    const set = await token();
    const withAuthorization = { ...TYPE, Authorization: "Bearer secret" };
    const refusals = [
      [
        await push(denying, set, { ...withAuthorization, "content-type": "application/json" }),
        "invalid_request",
      ],
      [await push(denying, "x".repeat(65_537), withAuthorization), "invalid_request"],
      [await push(denying, set), "authentication_failed"],
      [await push(denying, set, { ...TYPE, Authorization: "Bearer secreT" }), "authentication_failed"],
    ] as const;
    for (const [answer, err] of refusals) {
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.body)).toMatchObject({ err });
    }
    expect(await push(denying, set, withAuthorization)).toMatchObject({ status: 202 });
  });

  test("reads the keys once in five minutes, and for unknown keys once in ten seconds", async () => {
    const denying = receiver();
    await push(denying, await token());
    await push(denying, await token());
    expect(fetched).toBe(1);
    await push(denying, await token({}, { kid: "two" }));
    expect(fetched).toBe(1);
    nowMs += 11_000;
    await push(denying, await token({}, { kid: "two" }));
    expect(fetched).toBe(2);
    nowMs += 301_000;
    await push(denying, await token());
    expect(fetched).toBe(3);
  });

  test("is answered 503 while the keys cannot be read", async () => {
    const denying = receiver({
      fetchKeys: async () => await Promise.reject(new Error("unreachable")),
    });
    expect(await push(denying, await token())).toMatchObject({ status: 503, body: "{}" });
  });
});

describe("a receiver of security events", () => {
  test.each([
    ["issuer", undefined, "issuer is not set"],
    ["issuer", " ", "issuer is empty"],
    ["audience", "", "audience is empty"],
    ["audience", null, "audience is not set"],
    ["authorization", "", "authorization is empty"],
    ["onToken", "log", "onToken is not a function"],
    ["tokenLifeSeconds", Number.NaN, "tokenLifeSeconds is not a number"],
    ["maxDenials", -1, "maxDenials is not a number"],
  ])("does not start with %s %j", (name, value, message) => {
    expect(() => receiver({ [name]: value })).toThrow(message);
  });

  test("needs an issuer with an address if it fetches the keys", () => {
    expect(() => new SsfReceiver({ issuer: "signet", audience: STREAM })).toThrow("issuer is not a URL");
  });

  test("ignores white space around what a file contains", async () => {
    const texts = { issuer: `${ISSUER}\n`, audience: ` ${STREAM}`, authorization: "Bearer x\n" };
    const headers = { ...TYPE, authorization: "Bearer x" };
    expect(await push(receiver(texts), await token(), headers)).toMatchObject({ status: 202 });
  });

  test("prints the first failure of each kind where nobody listens, and tells all who listen", async () => {
    const printed: string[] = [];
    const spy = vi.spyOn(console, "error").mockImplementation((line) => void printed.push(String(line)));
    const fetchKeys = async (): Promise<unknown> => await Promise.reject(new Error("no route"));
    try {
      const options = { issuer: ISSUER, audience: STREAM, now: () => nowMs, fetchKeys };
      const silent = new SsfReceiver(options);
      for (const set of ["x", "y", await token(), await token()]) {
        await push(silent, set);
      }
      expect(printed).toEqual([
        expect.stringContaining("a security event was refused with 400 invalid_request"),
        expect.stringContaining("a security event failed in this receiver"),
      ]);
      const told: unknown[] = [];
      const telling = new SsfReceiver({ ...options, onError: (error) => void told.push(error) });
      await push(telling, "x");
      await push(telling, await token());
      expect(told).toEqual([expect.any(SetError), expect.objectContaining({ message: "no route" })]);
      expect(printed).toHaveLength(2);
    } finally {
      spy.mockRestore();
    }
  });

  test("calls a body that a parser has read its own mistake", async () => {
    const read = { ...TYPE, "content-length": "900" };
    expect(await push(receiver(), "", read)).toMatchObject({ status: 503 });
  });
});
