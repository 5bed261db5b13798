import { expect, it } from "vitest";
import { isOpenStatus } from "#temporal/open-workflow.ts";

it.each(["RUNNING", "PAUSED", "CONTINUED_AS_NEW", "UNSPECIFIED", "UNKNOWN"] as const)(
  "a workflow that is %s keeps what it carries",
  (status) => {
    expect(isOpenStatus(status)).toBe(true);
  },
);

it.each(["COMPLETED", "FAILED", "CANCELLED", "TERMINATED", "TIMED_OUT"] as const)(
  "a workflow that is %s is closed",
  (status) => {
    expect(isOpenStatus(status)).toBe(false);
  },
);
