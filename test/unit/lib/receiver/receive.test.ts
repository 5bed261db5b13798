/** A receiver's responses, and the events it processes: each once, and none lost. */
import { describe, expect, it, vi } from "vitest";
import { VerificationError } from "#lib/receiver/errors.ts";
import { createReceiver, type ReceiverOptions, type WebhookEvent } from "#lib/receiver/receive.ts";
import { MemoryReplayStore } from "#lib/receiver/replay-store.ts";
import { verify } from "#lib/receiver/verify.ts";
import { delivery, NOW_MS, SECRET, signedHeaders } from "#test/support/library-delivery.ts";

function receiver(options: Partial<ReceiverOptions> = {}) {
  const events: WebhookEvent[] = [];
  const errors: unknown[] = [];
  const made = createReceiver({
    secrets: [SECRET],
    onEvent: (event) => void events.push(event),
    onError: (error) => void errors.push(error),
    now: () => NOW_MS,
    ...options,
  });
  const receive = async ({ body, headers } = delivery()) => {
    const { status, body: text } = await made.receive(body, headers);
    return { status, ...(JSON.parse(text) as object) };
  };
  return { receive, events, errors };
}

describe("a receiver", () => {
  it("processes each event once and returns the result", async () => {
    const { receive, events } = receiver();
    expect(await receive()).toEqual({ status: 200, processed: true });
    expect(await receive()).toEqual({ status: 200, processed: false });
    expect(await receive(delivery({ id: "evt_2" }))).toEqual({ status: 200, processed: true });
    expect(events.map(({ id, type }) => [id, type])).toEqual([
      ["evt_1", "a.b"],
      ["evt_2", "a.b"],
    ]);
  });

  it("never passes on a payload that was not parsed", async () => {
    const { receive, events, errors } = receiver();
    for (const text of ["{", "", "\u0000", '{"n":NaN}']) {
      const body = Buffer.from(text);
      const headers = signedHeaders(body);
      expect(await receive({ body, headers })).toEqual({ status: 400, error: "PAYLOAD_MALFORMED" });
    }
    expect(events).toEqual([]);
    expect(errors).toHaveLength(4);
  });

  it("passes on numbers of any length, with the bytes that have them exactly", async () => {
    for (const number of [
      "7".repeat(4_301),
      `-${"7".repeat(100_000)}`,
      "1e400",
      "1e-999999",
      "9007199254740993",
    ]) {
      const { receive, events } = receiver();
      const text = `{"id":"evt_1","type":"a.b","sent_at":${NOW_MS / 1_000},"data":{"n":${number}}}`;
      const body = Buffer.from(text);
      expect(await receive({ body, headers: signedHeaders(body) })).toEqual({ status: 200, processed: true });
      expect(events).toMatchObject([{ type: "a.b", payload: { data: { n: Number(number) } } }]);
      expect(Buffer.from(events[0]?.rawBody ?? []).toString()).toBe(text);
    }
  });

  it("answers normally when the failure callback throws", async () => {
    const onError = (): void => {
      throw new Error("the log is full");
    };
    const { receive } = receiver({ onError });
    const forged = { ...delivery(), body: delivery({ id: "evt_other" }).body.subarray(1) };
    expect(await receive(forged)).toMatchObject({ status: 401 });
    expect(await receive()).toEqual({ status: 200, processed: true });
  });

  it("accepts an event again after its processing failed", async () => {
    let failing = true;
    const onEvent = (): void => {
      if (failing) {
        throw new Error("not now");
      }
    };
    const { receive, errors } = receiver({ onEvent });
    expect(await receive()).toEqual({ status: 500, error: "FAILED" });
    failing = false;
    expect(await receive()).toEqual({ status: 200, processed: true });
    expect(errors).toHaveLength(1);
  });

  it.each([true, false])(
    "answers a repetition during processing with the result of the processing: success %s",
    async (succeeds) => {
      let calls = 0;
      let finish = (): void => undefined;
      const work = new Promise<void>((resolve, reject) => {
        finish = () => (succeeds ? resolve() : reject(new Error("no")));
      });
      const onEvent = async (): Promise<void> => {
        calls += 1;
        await work;
      };
      const { receive } = receiver({ onEvent });
      const both = Promise.all([receive(), receive()]);
      finish();
      expect(await both).toEqual(
        succeeds
          ? [
              { status: 200, processed: true },
              { status: 200, processed: false },
            ]
          : [
              { status: 500, error: "FAILED" },
              { status: 500, error: "FAILED" },
            ],
      );
      expect(calls).toBe(1);
    },
  );

  it("answers a ping with its challenge and a grade with its result, and processes neither", async () => {
    const { receive, events } = receiver();
    const ping = delivery({ id: "evt_p", type: "ping", data: { challenge: "c" } });
    expect(await receive(ping)).toEqual({ status: 200, challenge: "c" });
    const grade = delivery({ id: "evt_g", type: "signet.grade", source: "service" });
    expect(await receive(grade)).toEqual({ status: 200, processed: true });
    expect(await receive(grade)).toEqual({ status: 200, processed: false });
    expect(events).toEqual([]);
  });

  it("processes an event of type grade if the service does not mark it as one", async () => {
    const { receive, events } = receiver();
    expect(await receive(delivery({ type: "signet.grade" }))).toEqual({ status: 200, processed: true });
    expect(events).toMatchObject([{ type: "signet.grade", fromService: false }]);
  });

  it("marks the service's own events", async () => {
    const { receive, events } = receiver();
    await receive(delivery({ id: "evt_1", type: "endpoint.disabled", source: "service" }));
    await receive(delivery({ id: "evt_2", type: "endpoint.disabled" }));
    await receive(delivery({ id: "evt_3", type: "endpoint.disabled", source: "tenant" }));
    expect(events.map(({ fromService }) => fromService)).toEqual([true, false, false]);
  });

  it("answers 400 to malformed headers, 401 to wrong signatures and 500 to its own errors", async () => {
    const { receive } = receiver();
    const { body, headers } = delivery();
    expect(await receive({ body, headers: { ...headers, "webhook-timestamp": "x" } })).toEqual({
      status: 400,
      error: "HEADERS_MALFORMED",
    });
    expect(await receive({ body: Buffer.from("{}"), headers })).toEqual({
      status: 401,
      error: "SIGNATURE_INVALID",
    });
    const mangled = receiver({ secrets: () => ["mangled"] });
    expect(await mangled.receive()).toEqual({ status: 500, error: "FAILED" });
    expect(String(mangled.errors[0])).toContain("secrets[0] begins neither with whsec_");
  });

  it.each([
    [
      "an error of its own verification",
      () => new VerificationError("SIGNATURE_INVALID", "of another webhook"),
    ],
    ["any error", () => new Error("down")],
  ])("is at fault if its handler throws %s", async (_what, made) => {
    const onEvent = (): void => {
      throw made();
    };
    expect(await receiver({ onEvent }).receive()).toEqual({ status: 500, error: "FAILED" });
  });

  it.each([
    ["no body although one was sent", Buffer.alloc(0)],
    ["text", delivery().body.toString()],
    ["a parsed body", {}],
    ["nothing", undefined],
  ])("is at fault if its program passes %s", async (_what, body) => {
    const { receive, errors } = receiver();
    const headers = { ...delivery().headers, "content-length": "99" };
    expect(await receive({ body: body as Buffer<ArrayBuffer>, headers })).toEqual({
      status: 500,
      error: "FAILED",
    });
    expect(errors).toHaveLength(1);
  });

  it("reads secrets when they are needed, so a rotation needs no restart", async () => {
    let known: string[] = [`whsec_${Buffer.alloc(32, 8).toString("base64")}`];
    const { receive } = receiver({ secrets: async () => known });
    expect(await receive()).toMatchObject({ status: 401 });
    known = [...known, SECRET];
    expect(await receive()).toMatchObject({ status: 200 });
  });

  it("uses the given store with the given retention", async () => {
    const asked: [string, number][] = [];
    const replayStore = {
      seen: async (id: string, untilMs: number) => asked.push([id, untilMs]) > 1,
      forget: () => undefined,
    };
    const { receive } = receiver({ replayStore, rememberSeconds: 60 });
    expect(await receive()).toMatchObject({ processed: true });
    expect(await receive()).toMatchObject({ processed: false });
    expect(asked[0]).toEqual(["evt_1", NOW_MS + 60_000]);
  });
});

describe("a receiver's configuration", () => {
  const other = "whsec_AAAA";
  it.each([
    [undefined, "secrets is not set"],
    [null, "secrets is not set"],
    ["", "secrets is empty"],
    [[], "secrets is empty"],
    [7, "secrets is not a text"],
    ["oops", "secrets begins neither with whsec_"],
    [[undefined], "secrets[0] is not set"],
    [[SECRET, " \n"], "secrets[1] is empty"],
    [[SECRET, other], "secrets[1] is malformed"],
    [[`${SECRET} ${SECRET}`], "secrets[0] is malformed"],
    [[SECRET.slice("whsec_".length)], "secrets[0] begins neither"],
    [["whpk_AAAA"], "secrets[0] is malformed: a public key"],
    [Array(1), "secrets[0] is not set"],
  ])("does not start with the secrets %j", (secrets, message) => {
    const make = (): unknown => receiver({ secrets: secrets as string[] });
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
    expect(make).not.toThrow(SECRET.slice(10, 20));
    const { body, headers } = delivery();
    const input = { rawBody: body, headers, secrets: secrets as string[], now: NOW_MS };
    expect(() => verify(input)).toThrow(message);
  });

  it.each([
    ["onEvent", undefined],
    ["onEvent", "save"],
    ["onError", "log"],
    ["rememberSeconds", -1],
    ["maxBodyBytes", "1 MB"],
    ["bodyMs", Number.NaN],
    ["toleranceSeconds", Number.NaN],
    ["futureSeconds", null],
    ["headerBrand", ""],
    ["replayStore", { seen: () => false }],
  ])("does not start with %s %j", (name, value) => {
    expect(() => receiver({ [name]: value })).toThrow(new RegExp(`^${name}`));
  });

  it.each([
    ["a text", SECRET],
    ["a text with a newline", `${SECRET}\n`],
    ["a byte order mark and a carriage return", [`\uFEFF${SECRET}\r\n`]],
    ["blanks", [` ${SECRET}\t`]],
    ["a function with a newline", () => [`${SECRET}\n`]],
  ])("takes %s", async (_what, secrets) => {
    expect(await receiver({ secrets }).receive()).toEqual({ status: 200, processed: true });
  });
});

describe("a receiver whose program does not listen to errors", () => {
  it("prints the first of each kind, and tells its own mistakes from the sender's", async () => {
    const printed: unknown[][] = [];
    const spy = vi.spyOn(console, "error").mockImplementation((...line) => void printed.push(line));
    const full = new RangeError("the disk is full");
    try {
      const made = createReceiver({
        secrets: SECRET,
        now: () => NOW_MS,
        onEvent: () => {
          throw full;
        },
      });
      const { body, headers } = delivery();
      for (let round = 0; round < 2; round += 1) {
        await made.receive(body, headers);
        await made.receive(Buffer.from("{}"), headers);
        await made.receive(body, {});
      }
    } finally {
      spy.mockRestore();
    }
    expect(printed).toEqual([
      [expect.stringContaining("a webhook failed in this receiver"), full],
      [expect.stringContaining("a webhook was refused with 401 SIGNATURE_INVALID")],
      [expect.stringContaining("a webhook was refused with 400 HEADERS_MALFORMED")],
    ]);
  });

  it("prints each class of failure, also those of one name", async () => {
    const printed: unknown[] = [];
    const spy = vi.spyOn(console, "error").mockImplementation((...line) => void printed.push(line.at(1)));
    const sealed = new Error("the vault is sealed");
    const failures = [
      new Error("the disk is full"),
      new TypeError("a bug"),
      ...["ECONNREFUSED", "ETIMEDOUT"].map((code) => Object.assign(new Error("the store is away"), { code })),
      "a text",
    ];
    let secrets = (): string => SECRET;
    let failure: unknown;
    try {
      const made = createReceiver({
        secrets: () => secrets(),
        now: () => NOW_MS,
        onEvent: () => {
          throw failure;
        },
      });
      const { body, headers } = delivery();
      for (failure of [...failures, ...failures]) {
        await made.receive(body, headers);
      }
      secrets = () => {
        throw sealed;
      };
      await made.receive(body, headers);
      await made.receive(body, headers);
    } finally {
      spy.mockRestore();
    }
    expect(printed).toEqual([...failures, sealed]);
  });

  it("survives a callback that rejects", async () => {
    const onError = async (): Promise<void> => await Promise.reject(new Error("the log is full"));
    const { receive } = receiver({ onError });
    expect(await receive({ ...delivery(), body: Buffer.from("{}") })).toMatchObject({ status: 401 });
  });
});

describe("the memory of ids", () => {
  it("forgets an id after its retention, and on request", () => {
    let now = 0;
    const store = new MemoryReplayStore({ now: () => now });
    expect([store.seen("a", 10), store.seen("a", 10)]).toEqual([false, true]);
    now = 10;
    expect(store.seen("a", 20)).toBe(false);
    store.forget("a");
    expect(store.seen("a", 20)).toBe(false);
  });

  it("keeps a bounded number of ids, the newest", () => {
    const store = new MemoryReplayStore({ max: 2, now: () => 0 });
    for (const id of ["a", "b", "c"]) {
      store.seen(id, 1);
    }
    expect([store.seen("b", 1), store.seen("c", 1), store.seen("a", 1)]).toEqual([true, true, false]);
    expect(() => new MemoryReplayStore({ max: 0 })).toThrow(TypeError);
  });
});
