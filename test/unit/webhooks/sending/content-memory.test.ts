import { beforeEach, describe, expect, test, vi } from "vitest";
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import { ContentMemory } from "#webhooks/sending/content-memory.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

const LARGE = 262_144;
const ROOM = 33_554_432;

/** The members of a delivery that the room reads. */
function delivery(endpointId: string, eventId: string, content: Buffer | null = null): LoadedDelivery {
  return {
    endpoint_id: endpointId,
    event_id: eventId,
    content,
    content_bytes: LARGE,
  } as unknown as LoadedDelivery;
}

/** Sends that end when the test releases them. */
class Sends {
  readonly contentMemory: ContentMemory;
  readonly loads: string[] = [];
  readonly sent: LoadedDelivery[] = [];
  readonly #letGo: (() => void)[] = [];

  constructor() {
    this.contentMemory = new ContentMemory(async ({ eventId }) => {
      this.loads.push(eventId);
      return Buffer.from(eventId);
    }, time);
  }

  async send(one: LoadedDelivery, slow = false): Promise<unknown> {
    return await this.contentMemory.during(one, slow, async (whole) => {
      this.sent.push(whole);
      await new Promise<void>((resolve) => this.#letGo.push(resolve));
      return "sent";
    });
  }

  /** Sends this many large deliveries, each of its own event and, unless named, to its own endpoint. */
  async sendMany(count: number, name: string, endpoint?: string, slow = false): Promise<unknown[]> {
    const all = Array.from(
      { length: count },
      async (_, index) =>
        await this.send(delivery(endpoint ?? `ep_${name}_${index}`, `evt_${name}_${index}`), slow),
    );
    return await Promise.all(all);
  }

  letAllGo(): void {
    for (const go of this.#letGo.splice(0)) {
      go();
    }
  }
}

beforeEach(() => {
  time = new SimulatedTime();
});

const turn = async (): Promise<unknown> => await time.advance(0);

describe("large contents in memory", () => {
  test("never exceed the room, and the rest follows as requests end", async () => {
    const sends = new Sends();
    const all = sends.sendMany(200, "a");
    await turn();
    expect(sends.sent).toHaveLength(ROOM / LARGE);
    expect(sends.loads).toHaveLength(ROOM / LARGE);
    expect(sends.contentMemory.waitingCount).toBe(200 - ROOM / LARGE);
    sends.letAllGo();
    await turn();
    expect(sends.sent).toHaveLength(200);
    expect(sends.contentMemory.waitingCount).toBe(0);
    sends.letAllGo();
    expect(await all).toEqual(Array.from({ length: 200 }, () => "sent"));
  });

  test("wait two seconds for room, then leave it to the schedule", async () => {
    const sends = new Sends();
    const all = sends.sendMany(ROOM / LARGE, "a");
    const late = sends.send(delivery("ep_late", "evt_late"));
    await time.advance(2_000);
    expect(await late).toBe("full");
    sends.letAllGo();
    await all;
    expect(sends.loads).not.toContain("evt_late");
  });

  test("of one endpoint leave room for those of others, and claims continue", async () => {
    const sends = new Sends();
    const hanging = sends.sendMany(200, "a", "ep_hanging");
    await turn();
    expect(sends.sent).toHaveLength(ROOM / LARGE / 4);
    expect(sends.contentMemory.waitingCount).toBe(0);
    const other = sends.send(delivery("ep_other", "evt_other"));
    await turn();
    expect(sends.loads).toContain("evt_other");
    await time.advance(2_000);
    sends.letAllGo();
    expect(await other).toBe("sent");
    expect((await hanging).filter((outcome) => outcome === "full")).toHaveLength(200 - ROOM / LARGE / 4);
  });

  test("of slow endpoints leave room for those of healthy ones", async () => {
    const sends = new Sends();
    const slow = sends.sendMany(500, "slow", undefined, true);
    await turn();
    const before = sends.sent.length;
    const healthy = sends.sendMany(ROOM / LARGE, "healthy");
    await turn();
    expect(sends.sent).toHaveLength(before + ROOM / LARGE);
    await time.advance(2_000);
    sends.letAllGo();
    await Promise.all([slow, healthy]);
  });

  test("are loaded once for all concurrent deliveries of an event", async () => {
    const sends = new Sends();
    const all = Array.from(
      { length: 10 },
      async (_, index) => await sends.send(delivery(`ep_${index}`, "evt_a")),
    );
    await turn();
    expect(sends.loads).toEqual(["evt_a"]);
    expect(sends.sent.map(({ content }) => content?.toString())).toEqual(
      Array.from({ length: 10 }, () => "evt_a"),
    );
    sends.letAllGo();
    await Promise.all(all);
    const again = sends.send(delivery("ep_a", "evt_a"));
    await turn();
    sends.letAllGo();
    await again;
    expect(sends.loads).toEqual(["evt_a", "evt_a"]);
  });

  test("that are missing or fail to load are not sent, and return their room", async () => {
    let fails = true;
    const contentMemory = new ContentMemory(async () => {
      if (fails) {
        throw new Error("the database is away");
      }
      return undefined;
    }, time);
    const send = vi.fn<() => Promise<string>>();
    const one = delivery("ep_a", "evt_a");
    await expect(contentMemory.during(one, false, send)).rejects.toThrow("the database is away");
    fails = false;
    for (let round = 0; round < 200; round += 1) {
      expect(await contentMemory.during(one, false, send)).toBeUndefined();
    }
    expect(send).not.toHaveBeenCalled();
  });
});

test("a small content needs no room", async () => {
  const sends = new Sends();
  const large = sends.sendMany(ROOM / LARGE, "a");
  const small = sends.send(delivery("ep_small", "evt_small", Buffer.from("small")));
  expect(sends.sent.at(-1)?.content?.toString()).toBe("small");
  await turn();
  sends.letAllGo();
  expect(await small).toBe("sent");
  await large;
});
