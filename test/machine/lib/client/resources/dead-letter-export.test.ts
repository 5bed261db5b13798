/** The export of dead letters is complete, or an error. */
import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { SignetClientOptions } from "#lib/client/signet-client.ts";
import { eventually } from "#test/support/eventually.ts";
import { type Answering, type ScriptedServer, startScriptedServer } from "#test/support/scripted-server.ts";

let server: ScriptedServer;

beforeEach(async () => {
  server = await startScriptedServer();
});
afterEach(async () => {
  await server.close();
});

const NDJSON = { "content-type": "application/x-ndjson" };

function begin(response: ServerResponse): ServerResponse {
  return response.writeHead(200, NDJSON);
}

/** Returns the ids that came before the end, and the error that ended the export. */
async function read(
  answer: Answering,
  options: Pick<SignetClientOptions, "timeoutMs"> = {},
): Promise<{ readonly ids: string[]; readonly error: unknown }> {
  server.answers.push(answer);
  const ids: string[] = [];
  try {
    for await (const { id } of server.client(options).deadLetters.export({ endpoint_id: "ep_1" })) {
      ids.push(id);
    }
  } catch (error) {
    return { ids, error };
  }
  return { ids, error: undefined };
}

test("every line is a dead letter, however the stream is split; lines() returns them unchanged", async () => {
  const lines = ['{"id":"a","event":{"data":{"n":1152921504606846977,"x":1.0}}}', '{"id":"ü"}'];
  const whole: Answering = (_request, response) => {
    begin(response);
    for (const byte of Buffer.from(`${lines.join("\n")}\n`)) {
      response.write(Buffer.of(byte));
    }
    response.end();
  };
  expect(await read(whole)).toEqual({ ids: ["a", "ü"], error: undefined });
  expect(server.requests[0]?.url).toBe("/v1/webhooks/dlq/export?endpoint_id=ep_1");
  server.answers.push(whole);
  const raw: string[] = [];
  for await (const line of server
    .client()
    .deadLetters.export({ metadata: { team: "ml" } })
    .lines()) {
    raw.push(line);
  }
  expect(raw).toEqual(lines);
  expect(server.requests[1]?.url).toBe("/v1/webhooks/dlq/export?metadata%5Bteam%5D=ml");
});

test("an empty queue is an empty export", async () => {
  expect(await read((_request, response) => begin(response).end())).toEqual({ ids: [], error: undefined });
});

describe("an export that breaks off is an error, after the items that have come:", () => {
  test.each<[string, string, Answering]>([
    [
      "a connection that breaks off between two lines",
      "CONNECTION",
      (_request, response) => {
        begin(response).write('{"id":"a"}\n');
        setImmediate(() => response.destroy());
      },
    ],
    [
      "a truncated line",
      "INVALID_ANSWER",
      (_request, response) => begin(response).end('{"id":"a"}\n{"id":"b'),
    ],
    [
      "a proxy that drops the framing of the response",
      "INVALID_ANSWER",
      (_request, response) => {
        response.socket?.end("HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n");
      },
    ],
    [
      "a length that is not reached",
      "CONNECTION",
      (_request, response) => {
        response.writeHead(200, { ...NDJSON, "content-length": "400" }).write('{"id":"a"}\n');
        setImmediate(() => response.destroy());
      },
    ],
    [
      "a service that stops sending",
      "TIMEOUT",
      (_request, response) => void begin(response).write('{"id":"a"}\n'),
    ],
    [
      "a line that never ends",
      "INVALID_ANSWER",
      (_request, response) => void begin(response).end("x".repeat(5_000_000)),
    ],
  ])("%s", async (_name, code, answer) => {
    const { ids, error } = await read(answer, code === "TIMEOUT" ? { timeoutMs: 500 } : {});
    expect(error).toMatchObject({
      code,
      message: expect.stringMatching(/^the export has broken off after [01] dead letters: /) as string,
    });
    expect(ids).toEqual(ids.length === 0 ? [] : ["a"]);
  });
});

test("the request is retried before the export has begun, and never after", async () => {
  server.answers.push((_request, response) => response.writeHead(503).end());
  const { ids, error } = await read((_request, response) => begin(response).end('{"id":"a"}\n'));
  expect({ ids, error, requests: server.requests.length }).toEqual({
    ids: ["a"],
    error: undefined,
    requests: 2,
  });
});

test("leaving the loop closes the connection, and an abort rejects with its reason", async () => {
  let closed = 0;
  const endless: Answering = (request, response) => {
    request.socket.once("close", () => (closed += 1));
    begin(response).write('{"id":"a"}\n{"id":"b"}\n');
  };
  server.answers.push(endless, endless);
  for await (const { id } of server.client().deadLetters.export()) {
    expect(id).toBe("a");
    break;
  }
  const abort = new AbortController();
  const reading = (async () => {
    for await (const { id } of server.client().deadLetters.export({ signal: abort.signal })) {
      if (id === "b") {
        abort.abort(new Error("enough"));
      }
    }
  })();
  await expect(reading).rejects.toThrow("enough");
  await eventually(() => closed === 2, "both connections to end");
});
