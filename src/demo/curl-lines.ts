/** What `npm start` prints for trying the service out: lines that work when pasted. */
import type { DemoResult } from "./demo.ts";

export interface CurlLinesOptions {
  readonly baseUrl: string;
  readonly demo: DemoResult;
}

/** One argument for a shell, whatever a directory is called. */
function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`;
}

export function curlLines({ baseUrl, demo }: CurlLinesOptions): string[] {
  const json = `-H 'Content-Type: application/json'`;
  const bearer = `-H "Authorization: Bearer $TOKEN"`;
  return [
    `TOKEN=$(curl -s ${baseUrl}/v1/auth/token ${json} -d ${quoted(`@${demo.tenant.file}`)} | sed -E 's/.*"access_token":"([^"]+)".*/\\1/')`,
    `curl -s ${baseUrl}/v1/webhooks/endpoints ${bearer}`,
    `curl -s ${baseUrl}/v1/events ${bearer} ${json} -d '{"type":"inference.completed","data":{"hello":"world"}}'`,
    `curl -s "${baseUrl}/v1/webhooks/deliveries?limit=1" ${bearer}`,
    `curl -s ${baseUrl}/v1/webhooks/deliveries/${demo.deliveryId}/attempts ${bearer}`,
  ];
}
