/** A browser keeps names with `__Host-` for the site itself, but not names that only look like one. */
import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { elementsOf } from "#http/list-header.ts";
import { SessionCookie } from "#portal/cookie.ts";

const cookies = new SessionCookie({ secure: true });
const read = (cookie: string): string | undefined =>
  cookies.read({ headers: { cookie } } as unknown as FastifyRequest);

test.each(["\u00a0", "\u00a0 ", "\u000b", "\u000c", "\ufeff"])(
  "a sibling's cookie with %j before its name is none of ours",
  (before) => {
    const theirs = `${before}__Host-signet_portal=theirs`;
    expect(read(theirs)).toBeUndefined();
    expect(read(`${theirs}; __Host-signet_portal=ours`)).toBe("ours");
    expect(read(`__Host-signet_portal=ours;${theirs}`)).toBe("ours");
  },
);

test("spaces and tabs around a cookie do not count", () => {
  expect(read("a=b;\t __Host-signet_portal=ours \t; c=d")).toBe("ours");
});

test("a header of spaces is split in linear time", () => {
  const spaces = " ".repeat(100_000);
  expect(elementsOf(`${spaces}a${spaces}b${spaces},c`)).toEqual([`a${spaces}b`, "c"]);
});
