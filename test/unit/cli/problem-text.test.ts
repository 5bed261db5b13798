/** Errors of the API in the words of the command line. */
import { Command } from "commander";
import { expect, test } from "vitest";
import { fieldSentences } from "#cli/problem-text.ts";
import { runSignet } from "#test/support/command-line.ts";

const COMMAND = new Command("create")
  .argument("<url>")
  .option("--events <types>")
  .option("--header <line...>")
  .option("--role <id>")
  .option("--days <number>")
  .option("--san-uri <uri>")
  .option("--certificate-thumbprint <sha256...>")
  .option("--require-echo")
  .option("--no-require-echo");

test.each([
  ["/events/0", "must be a type", "--events item 1 must be a type"],
  ["/headers/X-Team", "must be a text", "--header .X-Team must be a text"],
  ["/role_id", "is not a role", "--role is not a role"],
  ["/expires_in_days", "must be 1 to 366", "--days must be 1 to 366"],
  ["/require_echo", "must be true", "--require-echo must be true"],
  ["/url", "must be a URL", "<url> must be a URL"],
  ["/filter/data~1a", "is unknown", "the member filter .data/a is unknown"],
  ["", "needs san_uri or certificate_thumbprints", "create needs --san-uri or --certificate-thumbprint"],
])("the member %j is named by what sets it", (pointer, detail, sentence) => {
  const errors = [{ pointer, code: "x", detail }];
  expect(fieldSentences(COMMAND, { errors })).toBe(sentence);
});

test("other problems keep their detail", () => {
  for (const errors of [undefined, [], [{ detail: "no pointer" }], "text"]) {
    expect(fieldSentences(COMMAND, { errors })).toBeUndefined();
  }
});

test("a command prints flags in place of pointers, with code and request id", async () => {
  const problem = {
    code: "VALIDATION_FAILED",
    detail: "/region must be a region, not nowhere!; /name must be short",
    errors: [
      { pointer: "/region", code: "pattern", detail: "must be a region, not nowhere!" },
      { pointer: "/name", code: "max_length", detail: "must be short" },
    ],
    request_id: "req_1",
  };
  const run = await runSignet(
    ["tenant", "create", "x", "--region", "nowhere!"],
    { SIGNET_OPERATOR_TOKEN: "sgn_op_00000000000000000000000000000000" },
    { fetch: async () => await Promise.resolve(Response.json(problem, { status: 422 })) },
  );
  expect(run).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "signet: VALIDATION_FAILED: --region must be a region, not nowhere!; <name> must be short (request req_1)\n",
  });
});
