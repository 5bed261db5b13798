/** A service with scripted responses to a tenant's calls, in pieces, over real sockets. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { SignetClient, type SignetClientOptions } from "#lib/client/signet-client.ts";
import { type TestRuntime, testRuntime } from "./client-runtime.ts";

export type Answering = (request: IncomingMessage, response: ServerResponse) => void;

export interface ScriptedServer {
  readonly url: string;
  /** Responses to the next calls, in order; then 404. */
  readonly answers: Answering[];
  /** All calls except token requests. */
  readonly requests: IncomingMessage[];
  /** Returns the number of token requests. */
  readonly tokens: () => number;
  readonly runtime: TestRuntime;
  client(more?: Partial<SignetClientOptions>): SignetClient;
  close(): Promise<void>;
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const answers: Answering[] = [];
  const requests: IncomingMessage[] = [];
  let tokens = 0;
  const server = createServer((request, response) => {
    if (request.url === "/v1/auth/token") {
      tokens += 1;
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({ access_token: `token-${tokens}`, token_type: "Bearer", expires_in: 900, scope: "" }),
      );
      return;
    }
    requests.push(request);
    const answer = answers.shift() ?? ((_request, unknown) => unknown.writeHead(404).end());
    answer(request, response);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const runtime = testRuntime();
  return {
    url,
    answers,
    requests,
    tokens: () => tokens,
    runtime,
    client: (more = {}) =>
      new SignetClient({ baseUrl: url, clientId: "cl_1", clientSecret: "secret", ...runtime, ...more }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

/** A delivery with the members that tests check. */
export function wireDelivery(id: string, attempts = 0): object {
  return { id, state: "RETRYING", cycle: 1, attempt_count: attempts, next_attempt_at: null };
}
