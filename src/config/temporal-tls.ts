/** Settings of the way to Temporal, by the names that Temporal's own tools have. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../runtime/thrown.ts";
import { isThisMachine, oneOf, setting, text } from "./setting.ts";

export const TEMPORAL_TLS_SETTINGS = {
  temporalTls: setting(
    "TEMPORAL_TLS",
    oneOf("true", "false"),
    undefined,
    "whether Temporal's frontend is spoken to over TLS; each of the files below says so too",
  ),
  temporalCaFile: setting(
    "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    resolve,
    undefined,
    "root certificates that its certificate must lead to, PEM; default: the public ones",
  ),
  temporalCertFile: setting(
    "TEMPORAL_TLS_CLIENT_CERT_PATH",
    resolve,
    undefined,
    "certificate that is shown to it, PEM",
  ),
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
    "name that its certificate must have; default: the host of TEMPORAL_ADDRESS",
  ),
  acceptPlainTemporal: setting(
    "SIGNET_ACCEPT_PLAIN_TEMPORAL",
    oneOf("true", "false"),
    "false",
    "allows, in production, a way to Temporal on another machine without TLS",
  ),
} as const;

export interface TemporalTlsValues {
  readonly temporalTls?: "true" | "false" | undefined;
  readonly temporalCaFile?: string | undefined;
  readonly temporalCertFile?: string | undefined;
  readonly temporalKeyFile?: string | undefined;
  readonly temporalServerName?: string | undefined;
}

/** As Temporal's SDK takes it; true is TLS with the public roots and no certificate of one's own. */
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

/** What does not fit together. */
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

/** What production refuses. */
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
        "TEMPORAL_ADDRESS leads to another machine: in production it needs TEMPORAL_TLS_SERVER_CA_CERT_PATH and its siblings, or SIGNET_ACCEPT_PLAIN_TEMPORAL=true",
      ];
}

/** What a connection to Temporal is opened with; the files are read now, and again by the next process. */
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
