/** Settings of hubs, and of the processes behind them (decision 33). */
import { resolve } from "node:path";
import { alternativeNames } from "./mutual-tls.ts";
import { keyMaterial, list, listen, type Parser, setting, url } from "./setting.ts";

const HUBS_MAX = 4;
/** The hash's block (RFC 2104 section 2). */
const LEASE_KEY_BYTES_MAX = 64;
/** A key, and its successor during a change. */
const LEASE_KEYS_MAX = 2;

const hubUrls: Parser<readonly string[]> = (value) => {
  const urls = list(value).map(url("wss:", "ws:"));
  if (urls.length === 0 || urls.length > HUBS_MAX || urls.some((hub) => new URL(hub).pathname !== "/")) {
    throw new Error(`must be 1 to ${HUBS_MAX} URLs without a path, separated by commas`);
  }
  return urls;
};

const leaseKeys: Parser<readonly Buffer[]> = (value) => {
  const keys = list(value).map(keyMaterial);
  if (
    keys.length === 0 ||
    keys.length > LEASE_KEYS_MAX ||
    keys.some((key) => key.length > LEASE_KEY_BYTES_MAX)
  ) {
    throw new Error(
      `must be one or two keys of 32 to ${LEASE_KEY_BYTES_MAX} bytes in base64, separated by a comma`,
    );
  }
  return keys;
};

export const HUB_SETTINGS = {
  hubListen: setting("SIGNET_HUB_LISTEN", listen, "127.0.0.1:8446", "hub: address for edges and other hubs"),
  hubs: setting(
    "SIGNET_HUBS",
    hubUrls,
    undefined,
    "edge, hub, and api of a cell: URLs of the hubs to follow instead of PostgreSQL, `wss://host:port`, separated by commas; an edge then needs no database",
  ),
  leaseKeys: setting(
    "SIGNET_LEASE_KEY",
    leaseKeys,
    undefined,
    "`signet migrate` and edges behind hubs: key with which PostgreSQL proves to edges what it knows, 32 bytes in base64 (`openssl rand -base64 32`); two keys with a comma during a change. Hubs do not get it",
  ),
  leaseKeyFile: setting(
    "SIGNET_LEASE_KEY_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_LEASE_KEY",
  ),
  hubCaFile: setting(
    "SIGNET_HUB_CA_FILE",
    resolve,
    undefined,
    "hub and edges behind it: root certificates that the other side's certificate must chain to, PEM",
  ),
  hubNames: setting(
    "SIGNET_HUB_NAMES",
    alternativeNames,
    undefined,
    "hub and edges behind it: permitted names, one of which the other side's certificate must have, for instance `DNS:hub.internal`",
  ),
  hubRelayNames: setting(
    "SIGNET_HUB_RELAY_NAMES",
    alternativeNames,
    undefined,
    "hub: those of SIGNET_HUB_NAMES that hubs behind it have. A connection with any other name introduces one process",
  ),
  hubKeyFile: setting(
    "SIGNET_HUB_KEY_FILE",
    resolve,
    undefined,
    "hub and edges behind it: private key of its own certificate, PEM",
  ),
  hubCertFile: setting(
    "SIGNET_HUB_CERT_FILE",
    resolve,
    undefined,
    "hub and edges behind it: that certificate",
  ),
} as const;

/** The values that are checked together. */
export interface HubValues {
  readonly hubs?: readonly string[] | undefined;
  readonly leaseKeys?: readonly Buffer[] | undefined;
  readonly hubCaFile?: string | undefined;
  readonly hubNames?: readonly string[] | undefined;
  readonly hubKeyFile?: string | undefined;
  readonly hubCertFile?: string | undefined;
}

/** Returns the problems of mutual TLS between hubs and what follows them. */
function hubTlsProblems(
  { hubs, hubCaFile, hubNames, hubKeyFile, hubCertFile }: HubValues,
  development: boolean,
): string[] {
  const secured = [hubCaFile, hubNames?.[0], hubKeyFile, hubCertFile];
  const wanted = !development || secured.some((value) => value !== undefined);
  const problems: string[] = [];
  if (wanted && secured.includes(undefined)) {
    problems.push(
      "SIGNET_HUB_CA_FILE, SIGNET_HUB_NAMES, SIGNET_HUB_KEY_FILE and SIGNET_HUB_CERT_FILE must be set together",
    );
  }
  if (wanted && hubs?.some((hub) => hub.startsWith("ws:")) === true) {
    problems.push("SIGNET_HUBS must be wss outside of development");
  }
  return problems;
}

/** Returns the problems of the settings of a hub, or of an edge or a cell's api that follows hubs. */
export function hubProblems(
  values: HubValues,
  asks: "hub" | "edge" | "service",
  development: boolean,
): string[] {
  const { hubs, leaseKeys: keys } = values;
  if (asks === "hub") {
    const problem = "SIGNET_LEASE_KEY must not be set for a hub: it proves nothing itself";
    return [...(keys === undefined ? [] : [problem]), ...hubTlsProblems(values, development)];
  }
  if (hubs === undefined) {
    return [];
  }
  const problem = "SIGNET_LEASE_KEY or SIGNET_LEASE_KEY_FILE must be set with SIGNET_HUBS";
  return [...(keys === undefined ? [problem] : []), ...hubTlsProblems(values, development)];
}

/** Returns the problem of a process without a database. Edges and hubs may follow hubs instead. */
export function missingDatabase(
  { databaseUrl, hubs }: { readonly databaseUrl?: string | undefined; readonly hubs?: unknown },
  asks: "service" | "edge" | "hub",
): string[] {
  const needed = asks === "service" || hubs === undefined;
  return needed && databaseUrl === undefined ? ["SIGNET_DATABASE_URL must be set in production"] : [];
}
