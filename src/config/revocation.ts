/** Settings of the time within which a revocation takes effect. */
import { integer, list, oneOf, type Parser, region, setting } from "./setting.ts";

/** A revocation reaches every process that admits tokens within this time (contract 8), in milliseconds. */
export const STRICT_BOUND_MS = 250;
/** The longest life of a token. */
const LONGEST_BOUND_MS = 900_000;

export interface RevocationMode {
  readonly name: "strict" | "bounded";
  /** Longest time that a token may still be admitted after its revocation, in milliseconds. */
  readonly boundMs: number;
}

const revocationMode: Parser<RevocationMode> = (value) => {
  if (value === "strict") {
    return { name: "strict", boundMs: STRICT_BOUND_MS };
  }
  const boundMs = Number(/^bounded:(\d{1,6})$/.exec(value)?.[1]);
  if (!(boundMs >= STRICT_BOUND_MS && boundMs <= LONGEST_BOUND_MS)) {
    throw new Error(
      `must be strict or bounded:<milliseconds>, from ${STRICT_BOUND_MS} to ${LONGEST_BOUND_MS}`,
    );
  }
  return { name: "bounded", boundMs };
};

export const REVOCATION_SETTINGS = {
  region: setting(
    "SIGNET_REGION",
    region,
    undefined,
    "region in which the process runs, such as `eu-west-1`; receipts of revocations and metrics name it",
  ),
  revocationMode: setting(
    "SIGNET_REVOCATION_MODE",
    revocationMode,
    "strict",
    "`strict`: no token is admitted 250 ms after its revocation, and none at all if the database does not answer for longer; `bounded:<ms>` sets another limit",
  ),
  acceptSlowRevocation: setting(
    "SIGNET_ACCEPT_SLOW_REVOCATION",
    oneOf("true", "false"),
    "false",
    "allows a bound above 250 ms in production",
  ),
  statusListAudiences: setting(
    "SIGNET_STATUS_LIST_AUDIENCES",
    list,
    undefined,
    "api: audiences whose tokens name their place in a status list (`status` claim), comma-separated: SIGNET_AUDIENCE or some of SIGNET_RESOURCES. Default: none",
  ),
  statusListTtlSeconds: setting(
    "SIGNET_STATUS_LIST_TTL_SECONDS",
    integer(1, 300),
    "15",
    "api: how long verifiers may use a status list before they read it again, in seconds",
  ),
  testAdmissionHeader: setting(
    "SIGNET_TEST_ADMISSION_HEADER",
    oneOf("on", "off"),
    "off",
    "edge, for tests, forbidden in production: answers carry `X-Signet-Test-Admitted-At`, the machine's monotonic clock when the token was admitted, in nanoseconds",
  ),
} as const;

/** Returns the problems in production. */
export function revocationProblems(values: {
  readonly revocationMode: RevocationMode;
  readonly acceptSlowRevocation: "true" | "false";
  readonly testAdmissionHeader: "on" | "off";
}): string[] {
  const problems: string[] = [];
  if (values.revocationMode.boundMs > STRICT_BOUND_MS && values.acceptSlowRevocation !== "true") {
    problems.push(
      `SIGNET_REVOCATION_MODE must not be above ${STRICT_BOUND_MS} ms in production without SIGNET_ACCEPT_SLOW_REVOCATION=true`,
    );
  }
  if (values.testAdmissionHeader === "on") {
    problems.push("SIGNET_TEST_ADMISSION_HEADER must not be on in production");
  }
  return problems;
}

/** Returns the audiences of status lists that are no audiences of tokens. */
export function statusListProblems(values: {
  readonly audience: string;
  readonly resources?: readonly string[] | undefined;
  readonly statusListAudiences?: readonly string[] | undefined;
}): string[] {
  const audiences = new Set([values.audience, ...(values.resources ?? [])]);
  return (values.statusListAudiences ?? [])
    .filter((name) => !audiences.has(name))
    .map(
      (name) => `SIGNET_STATUS_LIST_AUDIENCES: ${name} is neither SIGNET_AUDIENCE nor in SIGNET_RESOURCES`,
    );
}
