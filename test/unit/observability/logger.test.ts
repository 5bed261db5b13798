import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { newClientSecret } from "#tokens/credentials/secret-format.ts";
import { createLogger, maskSecrets } from "#observability/logger.ts";

const SECRET = newClientSecret("production", randomBytes);
const TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl";

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  write(createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } }));
  return lines.join("");
}

test.each([
  ["a member", (log) => log.info({ client_secret: "hunter2-canary" }, "x")],
  ["a member of a member", (log) => log.info({ body: { client_secret: "hunter2-canary" } }, "x")],
  ["a header", (log) => log.info({ req: { headers: { authorization: "Basic hunter2-canary" } } }, "x")],
  ["a secret", (log) => log.info({ endpoint: { secret: "hunter2-canary" } }, "x")],
  ["a token", (log) => log.info({ token: "hunter2-canary", access_token: "hunter2-canary" }, "x")],
  ["a signature", (log) => log.info({ headers: { "webhook-signature": "v1,hunter2-canary" } }, "x")],
] as const satisfies readonly (readonly [string, (log: ReturnType<typeof createLogger>) => void])[])(
  "the value of %s is redacted",
  (_name, write) => {
    const text = logged(write);
    expect(text).toContain("[redacted]");
    expect(text).not.toContain("hunter2-canary");
  },
);

test("secrets and tokens inside messages and errors are masked", () => {
  const text = logged((log) => {
    log.info(`refused ${SECRET}`);
    log.error(
      { err: new Error(`bad token ${TOKEN}`), deep: { a: { b: { c: [SECRET, "whsec_abc/+="] } } } },
      "x",
    );
  });
  for (const secret of [SECRET, TOKEN, "whsec_abc"]) {
    expect(text).not.toContain(secret);
  }
  expect(text).toContain("sgn_live_sk_[redacted]");
});

test("other text is unchanged", () => {
  expect(maskSecrets("ten_06gzkqfw1vef5z17bwfnzgnc sgn_ eyJ a.b.c")).toBe(
    "ten_06gzkqfw1vef5z17bwfnzgnc sgn_ eyJ a.b.c",
  );
});

test("a line has no characters that reorder or control what people read, and means the same", () => {
  const url = "https://a.example/\u202egnp\u2067\u009b2J";
  const line = logged((log) => log.info({ url }, "the delivery of \u202e failed"));
  expect(line).not.toMatch(/[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
  expect(JSON.parse(line)).toMatchObject({ url, msg: "the delivery of \u202e failed" });
});
