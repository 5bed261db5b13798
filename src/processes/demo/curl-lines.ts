/** Commands that `npm start` prints for pasting. */
import type { DemoResult } from "./demo.ts";
import type { MutualTlsAccess } from "./edge-demo.ts";

export interface CurlLinesOptions {
  readonly baseUrl: string;
  readonly mutualTls?: MutualTlsAccess | undefined;
  readonly demo: DemoResult;
}

/** Quotes one shell argument, for any directory name. */
function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}

const JSON_BODY = `-H 'Content-Type: application/json'`;

/** Requests a token and stores it in the shell's `TOKEN`. */
function tokenLine(curl: string, baseUrl: string, { tenant }: DemoResult): string {
  return `TOKEN=$(${curl} ${baseUrl}/v1/auth/token ${JSON_BODY} -d ${quoted(`@${tenant.file}`)} | sed -E 's/.*"access_token":"([^"]+)".*/\\1/')`;
}

/** The same over mutual TLS: the token works with this certificate only. */
function mutualTlsLines({ mutualTls, demo }: CurlLinesOptions): string[] {
  if (mutualTls === undefined) {
    return [];
  }
  const { baseUrl, caFile, certFile, keyFile } = mutualTls;
  const curl = `curl -s --cacert ${quoted(caFile)} --cert ${quoted(certFile)} --key ${quoted(keyFile)}`;
  return [
    tokenLine(curl, baseUrl, demo),
    `${curl} ${baseUrl}/v1/credentials -H "Authorization: Bearer $TOKEN"`,
    `${curl} ${baseUrl}/v1/inference/signet-1 -H "Authorization: Bearer $TOKEN"`,
    `${curl} ${baseUrl}/v1/pipelines -H "Authorization: Bearer $TOKEN" ${JSON_BODY} -d '{}'`,
  ];
}

export function curlLines(options: CurlLinesOptions): string[] {
  const { baseUrl, demo } = options;
  const json = JSON_BODY;
  const bearer = `-H "Authorization: Bearer $TOKEN"`;
  return [
    tokenLine("curl -s", baseUrl, demo),
    `curl -s ${baseUrl}/v1/events ${bearer} ${json} -d '{"type":"inference.completed","data":{"hello":"world"}}'`,
    `curl -s "${baseUrl}/v1/webhooks/deliveries?limit=1" ${bearer}`,
    ...mutualTlsLines(options),
  ];
}
