/** The demo's calls wait while the started processes cannot know of revocations, but not for ever. */
import { describe, expect, test } from "vitest";
import { patientFetch } from "#processes/demo/patient-fetch.ts";

const STALE = { status: 503, body: '{"code":"REVOCATION_STALE"}' };
const BUSY = { status: 503, body: '{"code":"UNAVAILABLE"}' };
const DONE = { status: 200, body: '{"id":"evt_1"}' };

/** Answers with each of these in turn, and with the last one again. */
function scripted(...answers: readonly (typeof STALE)[]) {
  let clock = 0;
  let asked = 0;
  const said: string[] = [];
  const fetch = patientFetch(
    async () => {
      const { status, body } = answers[Math.min(asked, answers.length - 1)] ?? DONE;
      asked += 1;
      return await Promise.resolve(new Response(body, { status }));
    },
    {
      say: (line) => void said.push(line),
      wait: async (ms) => {
        clock += ms;
        await Promise.resolve();
      },
      monotonicMs: () => clock,
    },
  );
  const ask = async (): Promise<readonly [number, string]> => {
    const response = await fetch("http://localhost/", {});
    return [response.status, await response.text()];
  };
  return { ask, said, asked: () => asked, clock: () => clock };
}

describe("a first start on a busy machine", () => {
  test("waits until revocations are known, and says so once", async () => {
    const demo = scripted(STALE, STALE, STALE, DONE, STALE, DONE);
    expect(await demo.ask()).toEqual([200, DONE.body]);
    expect(await demo.ask()).toEqual([200, DONE.body]);
    expect(demo.said).toEqual([expect.stringContaining("busy")]);
    expect(demo.clock()).toBe(4_000);
  });

  test("gives up after two minutes, with the answer", async () => {
    const demo = scripted(STALE);
    expect(await demo.ask()).toEqual([503, STALE.body]);
    expect(demo.clock()).toBe(120_000);
  });

  test("repeats no request that may have been worked on", async () => {
    const demo = scripted(BUSY, DONE);
    expect(await demo.ask()).toEqual([503, BUSY.body]);
    expect(demo.asked()).toBe(1);
    expect(demo.said).toEqual([]);
  });
});
