/** What the report of a failed test says about requests. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RequestTrail } from "#test/support/failure-report.ts";

const SECRET = `whsec_${"c2VjcmV0".repeat(4)}`;
const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJjbCJ9.c2lnbmF0dXJl";
let server: Server;
let url: string;

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.url === "/broken") {
      request.socket.destroy();
    } else if (request.url === "/long") {
      response.end("x".repeat(5_000));
    } else {
      const body = { code: "INVALID_STATE", secret: SECRET, access_token: TOKEN, note: "shown" };
      response.writeHead(409, { "x-request-id": "req_1" }).end(JSON.stringify(body));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
});

test("a request is reported with its body, and its answer with status, code, request id and body", async () => {
  const trail = new RequestTrail();
  await trail.send(`${url}/a?b=c`, { method: "POST", body: '{"name":"acme"}' });
  expect(trail.lines()).toEqual([
    `POST ${url}/a?b=c {"name":"acme"}`,
    expect.stringMatching(/^ {2}→ 409 INVALID_STATE req_1 \{.*"note":"shown"\}$/),
  ]);
});

test("secrets and tokens are not reported, wherever they are", async () => {
  const trail = new RequestTrail();
  const headers = { authorization: `Bearer ${TOKEN}` };
  const form = new URLSearchParams({ client_id: "cl_1", client_secret: "of-a-client" });
  await trail.send(`${url}/a?access_token=${TOKEN}`, { method: "POST", headers, body: form });
  await trail.send(`${url}/a`, { method: "POST", headers, body: '{"client_secret": "of-a-client"}' });
  const text = trail.lines().join("\n");
  expect(text).toContain("client_id=cl_1");
  for (const secret of [SECRET, TOKEN, "of-a-client", "c2VjcmV0", "authorization"]) {
    expect(text).not.toContain(secret);
  }
});

test("a long body is cut, and a request without an answer is reported as such", async () => {
  const trail = new RequestTrail();
  await trail.send(`${url}/long`);
  await expect(trail.send(`${url}/broken`)).rejects.toThrow("fetch failed");
  const pending = trail.send(`${url}/a`);
  const [, long = "", , broken, , waiting] = trail.lines();
  expect(long.length).toBeLessThan(2_100);
  expect(long).toMatch(/x… \(5000 characters\)$/);
  expect(broken).toMatch(/^ {2}→ TypeError: /);
  expect(waiting).toBe("  → no answer yet");
  await pending;
});

test("only the last 20 requests are reported", async () => {
  const trail = new RequestTrail();
  for (let count = 1; count <= 25; count += 1) {
    await trail.send(`${url}/${count}`);
  }
  const sent = trail.lines().filter((line) => line.startsWith("GET"));
  expect(sent).toHaveLength(20);
  expect(sent[0]).toBe(`GET ${url}/6`);
});
