/**
 * Settings of Temporal. `@temporalio/envconfig` reads those of the connection, so that names, profiles and precedence
 * are those of Temporal's own tools. It ignores some mistakes silently; those are errors here.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type * as EnvConfig from "@temporalio/envconfig";
import { ENCRYPTED_KEY, isEncryptedKey } from "#runtime/encrypted-key.ts";
import { messageOf } from "#runtime/thrown.ts";
import { integer, isThisMachine, oneOf, type Parser, setting, text } from "./setting.ts";

/** `TEMPORAL_GRPC_META_<NAME>`, one variable for each header. */
const METADATA_PREFIX = "TEMPORAL_GRPC_META_";

const flag: Parser<"true" | "false"> = (value) =>
  oneOf("true", "false")({ "1": "true", "0": "false" }[value] ?? value);

export const TEMPORAL_SETTINGS = {
  temporalAddress: setting(
    "TEMPORAL_ADDRESS",
    text,
    undefined,
    "Temporal frontend, host:port; disables the embedded one",
  ),
  temporalNamespace: setting("TEMPORAL_NAMESPACE", text, "signet", "Temporal namespace"),
  temporalApiKey: setting(
    "TEMPORAL_API_KEY",
    text,
    undefined,
    "API key of Temporal Cloud, or a token that another frontend checks; implies TLS",
  ),
  temporalApiKeyFile: setting(
    "TEMPORAL_API_KEY_FILE",
    text,
    undefined,
    "file with the API key; read again while the process runs, so that a key can be rotated",
  ),
  temporalTls: setting(
    "TEMPORAL_TLS",
    flag,
    undefined,
    "whether to connect to Temporal's frontend over TLS; an API key and each of the settings below imply it",
  ),
  temporalCaFile: setting(
    "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    text,
    undefined,
    "root certificates that the server's certificate must chain to, PEM; default: the public ones. `TEMPORAL_TLS_SERVER_CA_CERT_DATA` holds the PEM itself",
  ),
  temporalCertFile: setting(
    "TEMPORAL_TLS_CLIENT_CERT_PATH",
    text,
    undefined,
    "client certificate, PEM; or `TEMPORAL_TLS_CLIENT_CERT_DATA`",
  ),
  temporalKeyFile: setting(
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
    text,
    undefined,
    "private key of that certificate, PEM; or `TEMPORAL_TLS_CLIENT_KEY_DATA`",
  ),
  temporalServerName: setting(
    "TEMPORAL_TLS_SERVER_NAME",
    text,
    undefined,
    "name that the server's certificate must have; default: the host of TEMPORAL_ADDRESS",
  ),
  temporalConfigFile: setting(
    "TEMPORAL_CONFIG_FILE",
    text,
    undefined,
    "file with profiles of these settings (TOML), as `temporal config` writes it; variables override it. Read if this or TEMPORAL_PROFILE is set",
  ),
  temporalProfile: setting(
    "TEMPORAL_PROFILE",
    text,
    undefined,
    "profile of that file (default: `default`); the file is then by default the one of Temporal's CLI",
  ),
  acceptPlainTemporal: setting(
    "SIGNET_ACCEPT_PLAIN_TEMPORAL",
    oneOf("true", "false"),
    "false",
    "allows, in production, a connection without TLS to Temporal on another machine",
  ),
  temporalCompression: setting(
    "SIGNET_TEMPORAL_COMPRESSION",
    oneOf("none", "gzip"),
    "none",
    "compression of workers' calls to Temporal: `gzip` saves bytes on a slow or billed line, and costs CPU",
  ),
  temporalSdkPatches: setting(
    "SIGNET_TEMPORAL_SDK_PATCHES",
    oneOf("on", "off"),
    "on",
    "whether to run Temporal's SDK without its costly parts (docs/decisions/0007); it then runs unchanged in a version that these patches do not know",
  ),
  cachedWorkflows: setting(
    "SIGNET_CACHED_WORKFLOWS",
    integer(64, 10_000),
    undefined,
    "delivery workflows that a worker keeps in memory, up to 0.4 MiB each; default: an eighth of its memory limit, 64 to 1,000",
  ),
} as const;

/** TLS options of Temporal's SDK. `true` means TLS with the public roots and without a client certificate. */
export type TemporalTls =
  | boolean
  | {
      readonly serverNameOverride?: string;
      readonly serverRootCACertificate?: Buffer;
      readonly clientCertPair?: { readonly crt: Buffer; readonly key: Buffer };
    };

/** How to connect to Temporal, from variables and profile. */
export interface TemporalConnection {
  readonly tls: TemporalTls;
  /** Returns the current API key: from its file, if it has one. */
  readonly apiKey?: () => string;
  /** Headers of each call. */
  readonly metadata: Readonly<Record<string, string>>;
}

type Environment = Readonly<Record<string, string | undefined>>;

interface TemporalValues {
  readonly temporalAddress?: string | undefined;
  readonly temporalNamespace: string;
  readonly temporalApiKey?: string | undefined;
  readonly temporalApiKeyFile?: string | undefined;
  readonly temporalConfigFile?: string | undefined;
  readonly temporalProfile?: string | undefined;
}

interface ResolvedTemporal {
  readonly temporalAddress: string | undefined;
  readonly temporalNamespace: string;
  readonly temporalConnection: TemporalConnection;
}

const PLAIN: TemporalConnection = { tls: false, metadata: {} };

/** Loaded only by processes that use Temporal: the command line starts faster without it. */
function envconfig(): typeof EnvConfig {
  return createRequire(import.meta.url)("@temporalio/envconfig") as typeof EnvConfig;
}

/** Variables for envconfig. An empty variable means unset, except that it removes a header of the profile. */
function variablesOf(environment: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).flatMap(([name, value]) =>
      value === undefined || (value === "" && !name.startsWith(METADATA_PREFIX)) ? [] : [[name, value]],
    ),
  );
}

function loadProfile(
  variables: Record<string, string>,
  { temporalConfigFile, temporalProfile }: TemporalValues,
  problems: string[],
): EnvConfig.ClientConfigProfile {
  // Without these, a developer's own file would redirect `npm start` to another server.
  const usesFile = temporalConfigFile !== undefined || temporalProfile !== undefined;
  try {
    return envconfig().loadClientConfigProfile({
      overrideEnvVars: variables,
      ...(usesFile
        ? {
            // envconfig takes an absent file for an empty one.
            ...(temporalConfigFile === undefined
              ? {}
              : { configSource: { path: existing(temporalConfigFile) } }),
            profile: temporalProfile ?? "default",
            configFileStrict: true,
          }
        : { disableFile: true }),
    });
  } catch (error) {
    const source = usesFile ? (temporalConfigFile ?? "Temporal's own file of profiles") : "the environment";
    problems.push(`TEMPORAL settings of ${source}: ${messageOf(error)}`);
    return {};
  }
}

function existing(path: string): string {
  readFileSync(path);
  return path;
}

function tlsOf(profile: EnvConfig.ClientConfigProfile, problems: string[]): TemporalTls {
  const { tls } = profile;
  if (tls === undefined || tls.disabled === true) {
    return tls === undefined && profile.apiKey !== undefined;
  }
  const read = (
    source: EnvConfig.ConfigDataSource | undefined,
    { variable }: { readonly variable: string },
  ): Buffer | undefined => {
    try {
      const data = envconfig().loadConfigData(source);
      return data === undefined ? undefined : Buffer.from(data);
    } catch (error) {
      problems.push(`${variable} cannot be read: ${messageOf(error)}`);
      return undefined;
    }
  };
  const { temporalCaFile, temporalCertFile, temporalKeyFile } = TEMPORAL_SETTINGS;
  const ca = read(tls.serverCACert, temporalCaFile);
  const [crt, key] = [read(tls.clientCert, temporalCertFile), read(tls.clientKey, temporalKeyFile)];
  if (key !== undefined && isEncryptedKey(key.toString("utf8"))) {
    problems.push(`${temporalKeyFile.variable} ${ENCRYPTED_KEY}`);
  }
  return {
    ...(tls.serverName === undefined ? {} : { serverNameOverride: tls.serverName }),
    ...(ca === undefined ? {} : { serverRootCACertificate: ca }),
    ...(crt === undefined || key === undefined ? {} : { clientCertPair: { crt, key } }),
  };
}

/** Returns the problems of settings that contradict each other, in variables or between them and the profile. */
function contradictions(
  { tls, apiKey }: EnvConfig.ClientConfigProfile,
  metadata: TemporalConnection["metadata"],
): string[] {
  const material = [tls?.serverCACert, tls?.clientCert, tls?.clientKey, tls?.serverName];
  const found: readonly (readonly [wrong: boolean, problem: string])[] = [
    [
      (tls?.clientCert === undefined) !== (tls?.clientKey === undefined),
      "TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH must be set together, or the same with _DATA",
    ],
    [
      tls?.disabled === true && material.some((value) => value !== undefined),
      "TEMPORAL_TLS must not be false where other settings of TEMPORAL_TLS_* are set",
    ],
    [
      tls?.disabled === true && apiKey !== undefined,
      "TEMPORAL_TLS must not be false with an API key: it would be readable on the network",
    ],
    [
      apiKey !== undefined && metadata["authorization"] !== undefined,
      `${METADATA_PREFIX}AUTHORIZATION must not be set with an API key`,
    ],
  ];
  return found.flatMap(([wrong, problem]) => (wrong ? [problem] : []));
}

function headerProblems(metadata: TemporalConnection["metadata"]): string[] {
  return Object.entries(metadata).flatMap(([name, value]) =>
    /^[a-z0-9-]+$/.test(name) && !name.endsWith("-bin") && /^[\x20-\x7e]+$/.test(value)
      ? []
      : [`${METADATA_PREFIX}* must be letters, digits and "_" and have printable ASCII: ${name}`],
  );
}

/** Reads a key from its file, without the line's end. Throws if it cannot be an API key. */
function readKey(file: string): string {
  const key = readFileSync(file, "utf8").trim();
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new Error(key === "" ? `${file} is empty` : `${file} holds more than one line of ASCII`);
  }
  return key;
}

/** Returns a reader of the key in a file, which keeps the last good key while the file is being replaced. */
function rereadKey(file: string): () => string {
  let last = readKey(file);
  return () => {
    try {
      last = readKey(file);
    } catch {
      // The last key may still be valid. If not, Temporal's answers say so.
    }
    return last;
  };
}

function apiKeyOf(
  fromProfile: string | undefined,
  { temporalApiKey, temporalApiKeyFile: file }: TemporalValues,
  problems: string[],
): (() => string) | undefined {
  if (file === undefined) {
    return fromProfile === undefined ? undefined : () => fromProfile;
  }
  if (temporalApiKey !== undefined) {
    problems.push("TEMPORAL_API_KEY_FILE and TEMPORAL_API_KEY must not both be set");
  }
  try {
    return rereadKey(file);
  } catch (error) {
    problems.push(`TEMPORAL_API_KEY_FILE cannot be used: ${messageOf(error)}`);
    return () => "";
  }
}

/** Resolves address, namespace and connection from variables and profile, and adds what is wrong with them. */
export function resolveTemporal(
  environment: Environment,
  values: TemporalValues,
  problems: string[],
): ResolvedTemporal {
  const { temporalAddress, temporalNamespace } = values;
  const variables = variablesOf(environment);
  if (!Object.keys(variables).some((name) => name.startsWith("TEMPORAL_"))) {
    return { temporalAddress, temporalNamespace, temporalConnection: PLAIN };
  }
  if (/^(?:1|true)$/.test(variables["TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"] ?? "")) {
    problems.push("TEMPORAL_TLS_DISABLE_HOST_VERIFICATION must not be set: Signet verifies the server");
  }
  const loaded = loadProfile(variables, values, problems);
  const apiKey = apiKeyOf(loaded.apiKey, values, problems);
  const profile = apiKey === undefined ? loaded : { ...loaded, apiKey: apiKey() };
  // envconfig replaces only the first "_".
  const metadata = Object.fromEntries(
    Object.entries(profile.grpcMeta ?? {}).map(([name, value]) => [name.replaceAll("_", "-"), value]),
  );
  problems.push(...contradictions(profile, metadata), ...headerProblems(metadata));
  return {
    temporalAddress: profile.address ?? temporalAddress,
    temporalNamespace: profile.namespace ?? temporalNamespace,
    temporalConnection: {
      tls: tlsOf(profile, problems),
      ...(apiKey === undefined ? {} : { apiKey }),
      metadata,
    },
  };
}

/** Returns a problem if production would connect to another machine without TLS. */
export function plainTemporalProblems(values: {
  readonly temporalAddress?: string | undefined;
  readonly temporalConnection: TemporalConnection;
  readonly acceptPlainTemporal: "true" | "false";
}): string[] {
  const host = values.temporalAddress?.replace(/:\d+$/, "") ?? "localhost";
  return isThisMachine(host) ||
    values.temporalConnection.tls !== false ||
    values.acceptPlainTemporal === "true"
    ? []
    : [
        "TEMPORAL_ADDRESS is on another machine: in production it needs TEMPORAL_API_KEY or the TEMPORAL_TLS_* settings, or SIGNET_ACCEPT_PLAIN_TEMPORAL=true",
      ];
}
