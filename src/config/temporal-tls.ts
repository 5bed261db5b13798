/** Settings of the connection to Temporal. The names are those of Temporal's own tools. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../runtime/thrown.ts";
import { isThisMachine, oneOf, setting, text } from "./setting.ts";

export const TEMPORAL_TLS_SETTINGS = {
  temporalTls: setting(
    "TEMPORAL_TLS",
    oneOf("true", "false"),
    undefined,
    "whether to connect to Temporal's frontend over TLS; each of the files below implies it",
  ),
  temporalCaFile: setting(
    "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    resolve,
    undefined,
    "root certificates that the server's certificate must chain to, PEM; default: the public ones",
  ),
  temporalCertFile: setting("TEMPORAL_TLS_CLIENT_CERT_PATH", resolve, undefined, "client certificate, PEM"),
  temporalKeyFile: setting(
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
    resolve,
    undefined,
    "private key of that certificate, PEM",
  ),
  temporalServerName: setting(
    "TEMPORAL_TLS_SERVER_NAME",
    text,
    undefined,
    "name that the server's certificate must have; default: the host of TEMPORAL_ADDRESS",
  ),
  acceptPlainTemporal: setting(
    "SIGNET_ACCEPT_PLAIN_TEMPORAL",
    oneOf("true", "false"),
    "false",
    "allows, in production, a connection without TLS to Temporal on another machine",
  ),
} as const;

export interface TemporalTlsValues {
  readonly temporalTls?: "true" | "false" | undefined;
  readonly temporalCaFile?: string | undefined;
  readonly temporalCertFile?: string | undefined;
  readonly temporalKeyFile?: string | undefined;
  readonly temporalServerName?: string | undefined;
}

/** TLS options of Temporal's SDK. `true` means TLS with the public roots and without a client certificate. */
export type TemporalTls =
  | boolean
  | {
      readonly serverNameOverride?: string;
      readonly serverRootCACertificate?: Buffer;
      readonly clientCertPair?: { readonly crt: Buffer; readonly key: Buffer };
    };

function isUsed(values: TemporalTlsValues): boolean {
  const { temporalTls, temporalCaFile, temporalCertFile, temporalServerName } = values;
  return temporalTls === "true" || [temporalCaFile, temporalCertFile, temporalServerName].some(Boolean);
}

/** Returns the problems of unreadable files and of settings that contradict each other. */
export function temporalTlsProblems(values: TemporalTlsValues): string[] {
  const problems: string[] = [];
  if ((values.temporalCertFile === undefined) !== (values.temporalKeyFile === undefined)) {
    problems.push("TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH must be set together");
  }
  if (values.temporalTls === "false" && isUsed(values)) {
    problems.push("TEMPORAL_TLS must not be false where other settings of TEMPORAL_TLS_* are set");
  }
  for (const path of [values.temporalCaFile, values.temporalCertFile, values.temporalKeyFile]) {
    try {
      void (path === undefined || readFileSync(path));
    } catch (error) {
      problems.push(`TEMPORAL_TLS: a file cannot be read: ${messageOf(error)}`);
    }
  }
  return problems;
}

/** Returns a problem if production would connect to another machine without TLS. */
export function plainTemporalProblems(
  values: TemporalTlsValues & {
    readonly temporalAddress?: string | undefined;
    readonly acceptPlainTemporal: "true" | "false";
  },
): string[] {
  const host = values.temporalAddress?.replace(/:\d+$/, "") ?? "localhost";
  return isThisMachine(host) || isUsed(values) || values.acceptPlainTemporal === "true"
    ? []
    : [
        "TEMPORAL_ADDRESS is on another machine: in production it needs the TEMPORAL_TLS_* settings, or SIGNET_ACCEPT_PLAIN_TEMPORAL=true",
      ];
}

/** Returns the TLS options of a connection. Reads the files now; a running process does not reload them. */
export function temporalTls(values: TemporalTlsValues): TemporalTls {
  const {
    temporalCaFile: ca,
    temporalCertFile: cert,
    temporalKeyFile: key,
    temporalServerName: name,
  } = values;
  if (!isUsed(values)) {
    return false;
  }
  return {
    ...(name === undefined ? {} : { serverNameOverride: name }),
    ...(ca === undefined ? {} : { serverRootCACertificate: readFileSync(ca) }),
    ...(cert === undefined || key === undefined
      ? {}
      : { clientCertPair: { crt: readFileSync(cert), key: readFileSync(key) } }),
  };
}
