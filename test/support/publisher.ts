/** Publishes events to a stack at a steady rate, as clients do: with a key, again until they are accepted. */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerStack } from "./container-stack.ts";
import { eventually } from "./eventually.ts";
import type { StackClient } from "./stack-client.ts";

const AGAIN_MS = 100;
/** How long one event may take until it is accepted. */
const PATIENCE_MS = 180_000;

/** What a publisher has seen. */
export interface Published {
  /** Ids of the accepted events. */
  readonly accepted: readonly string[];
  /** Answers other than 202, and failed connections, by status or code. */
  readonly refusals: Readonly<Record<string, number>>;
  /** The longest time in which no connection was taken, in milliseconds. */
  readonly longestRefusalMs: number;
}

export interface PublisherOptions {
  readonly stack: ContainerStack;
  readonly client: StackClient;
  readonly origin: string;
  readonly type: string;
  readonly perSecond: number;
}

/** Codes of a connection that was not taken, or was cut before an answer. */
const NOT_TAKEN = /^(?:ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT)$/;

/** Publishes in the background. `stop` resolves once every event is accepted. */
function startPublisher(options: PublisherOptions): { stop(): Promise<Published> } {
  const read = (name: string): string => readFileSync(join(options.stack.directory, name), "utf8");
  const tls = { ca: read("ca.crt"), key: read("example.pem"), cert: read("example.pem") };
  const accepted: string[] = [];
  const refusals: Record<string, number> = {};
  let longestRefusalMs = 0;
  /** Since when no connection has been taken. */
  let refusedSince: number | undefined;

  /** Sends over a new connection. Resolves with the status or the error's code, and the body. */
  async function send(
    body: string,
    headers: Record<string, string>,
  ): Promise<[outcome: string, text: string]> {
    return await new Promise((resolve) => {
      const sent = request(`${options.origin}/v1/events`, { method: "POST", agent: false, headers, ...tls });
      sent.once("error", ({ code = "no code" }: NodeJS.ErrnoException) => resolve([code, ""]));
      sent.once("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.once("end", () => resolve([String(response.statusCode), text]));
        response.once("error", ({ code = "no code" }: NodeJS.ErrnoException) => resolve([code, ""]));
      });
      sent.end(body);
    });
  }

  function note(outcome: string): void {
    const now = performance.now();
    if (NOT_TAKEN.test(outcome)) {
      refusedSince ??= now;
      longestRefusalMs = Math.max(longestRefusalMs, now - refusedSince);
    } else {
      longestRefusalMs = Math.max(longestRefusalMs, now - (refusedSince ?? now));
      refusedSince = undefined;
    }
  }

  async function publish(): Promise<void> {
    const key = randomUUID();
    const body = JSON.stringify({ type: options.type, data: { key } });
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const [outcome, text] = await send(body, {
        authorization: `Bearer ${await options.client.token()}`,
        "content-type": "application/json",
        "idempotency-key": key,
      });
      note(outcome);
      if (outcome === "202") {
        accepted.push((JSON.parse(text) as { id: string }).id);
        return;
      }
      refusals[outcome] = (refusals[outcome] ?? 0) + 1;
      if (/^4(?!29)/.test(outcome) || performance.now() > deadline) {
        throw new Error(`an event was not accepted: ${outcome} ${text}`);
      }
      await delay(AGAIN_MS);
    }
  }

  const ending = new AbortController();
  const events: Promise<void>[] = [];
  const loop = (async () => {
    const began = performance.now();
    for (let count = 0; !ending.signal.aborted; count += 1) {
      events.push(publish());
      await delay(Math.max(0, began + ((count + 1) * 1_000) / options.perSecond - performance.now()));
    }
  })();
  return {
    stop: async () => {
      ending.abort();
      await loop;
      await Promise.all(events);
      return { accepted, refusals, longestRefusalMs: Math.round(longestRefusalMs) };
    },
  };
}

/** Publishes while something happens, and a second longer. Resolves once every accepted event has arrived. */
export async function publishDuring(
  options: PublisherOptions,
  what: () => Promise<unknown>,
): Promise<Published> {
  const publisher = startPublisher(options);
  await what();
  await delay(1_000);
  const published = await publisher.stop();
  await eventually(
    () => {
      const arrived = new Set(options.stack.received().map(({ headers }) => headers["webhook-id"]));
      return published.accepted.every((id) => arrived.has(id));
    },
    "every accepted event to arrive",
    PATIENCE_MS,
  );
  return published;
}
