/**
 * Declares one setting, and the parsers of its text. Groups of settings lie beside this file. Only config.ts, which
 * combines them, reads the environment.
 */
import { REGION } from "#domain/regions.ts";
import { AddressSet, parseRange } from "#runtime/address-set.ts";
import type { ListenAddress } from "#runtime/http-server.ts";

export interface Parser<T> {
  (text: string): T;
  /** The text of the largest value, if values have an order. */
  readonly maximum?: string;
}

export interface Setting<T, Fallback extends string | undefined> {
  readonly variable: string;
  readonly parse: Parser<T>;
  /** The text to parse if the variable is unset; `undefined` leaves the setting undefined. */
  readonly fallback: Fallback;
  readonly doc: string;
}

export const text: Parser<string> = (value) => value;

export function listen(value: string): ListenAddress {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(value);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port > 65_535) {
    throw new Error("must be host:port");
  }
  return { host, port };
}

/** Formats as `host:port`, with brackets around IPv6. {@link listen} parses it. */
export function formatListen({ host, port }: ListenAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

export function integer(minimum: number, maximum: number): Parser<number> {
  const parse = (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < minimum || number > maximum) {
      throw new Error(`must be a whole number from ${minimum} to ${maximum}`);
    }
    return number;
  };
  return Object.assign(parse, { maximum: String(maximum) });
}

export function oneOf<const T extends string>(...choices: readonly T[]): Parser<T> {
  return (value) => {
    const choice = choices.find((candidate) => candidate === value);
    if (choice === undefined) {
      throw new Error(`must be one of ${choices.join(", ")}`);
    }
    return choice;
  };
}

export function url(...protocols: readonly string[]): Parser<string> {
  return (value) => {
    if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) {
      throw new Error(`must be a URL that starts with ${protocols.map((name) => `${name}//`).join(" or ")}`);
    }
    return value.replace(/\/$/, "");
  };
}

export function region(value: string): string {
  if (!REGION.test(value)) {
    throw new Error("must be a region such as eu or eu-west-1");
  }
  return value;
}

/** Parses 32 bytes or more in base64, as printed by `openssl rand -base64 32`. */
export function keyMaterial(value: string): Buffer {
  const bytes = Buffer.from(value, "base64");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(value) || bytes.length < 32) {
    throw new Error("must be at least 32 bytes in base64");
  }
  return bytes;
}

export function list(value: string): readonly string[] {
  return value
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** Parses comma-separated address ranges. */
export function cidrs(value: string): readonly string[] {
  const ranges = list(value);
  try {
    ranges.forEach(parseRange);
  } catch {
    throw new Error("must be ranges of addresses such as 10.0.0.0/8, separated by commas");
  }
  return ranges;
}

/** Parses comma-separated absolute URIs without a fragment (RFC 8707 section 2). They are compared literally. */
export function resourceIndicators(value: string): readonly string[] {
  const uris = list(value);
  for (const uri of uris) {
    if (!/^[\x21-\x7e]{1,512}$/.test(uri) || uri.includes("#") || !URL.canParse(uri)) {
      throw new Error("must be absolute URIs without a fragment");
    }
  }
  return uris;
}

const LOOPBACK = new AddressSet(["127.0.0.0/8", "::1/128"]);

/** Whether a host is this machine: its loopback, or a Unix socket, whose host is a path. */
export function isThisMachine(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "");
  return name === "localhost" || /^(\/|%2f)/i.test(name) || LOOPBACK.has(name);
}

export function setting<T, Fallback extends string | undefined>(
  variable: string,
  parse: Parser<T>,
  fallback: Fallback,
  doc: string,
): Setting<T, Fallback> {
  return { variable, parse, fallback, doc };
}

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

function milliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? [];
  return text === "0" ? 0 : Number(count) * UNITS[unit as keyof typeof UNITS];
}

/** Parses a duration such as `30d`, `24h`, `90s` or `0` into milliseconds. */
export function duration(minimum: string, maximum: string): Parser<number> {
  const parse = (value: string): number => {
    const length = milliseconds(value);
    if (!(length >= milliseconds(minimum) && length <= milliseconds(maximum))) {
      throw new Error(`must be a duration from ${minimum} to ${maximum}, such as 90s, 24h or 30d`);
    }
    return length;
  };
  return Object.assign(parse, { maximum });
}

/** Returns the further problems whose variables have no problem yet. */
export function furtherProblems(found: readonly string[], further: readonly string[]): string[] {
  const variableOf = (problem: string): string => /^[A-Z_]+?(?=(?:_FILE)?\b)/.exec(problem)?.[0] ?? problem;
  const named = new Set(found.map(variableOf));
  return further.filter((problem) => !named.has(variableOf(problem)));
}
