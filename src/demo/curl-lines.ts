/** What `npm start` prints for trying the service out: lines that work when pasted. */
import type { DemoResult } from "./demo.ts";

export interface CurlLinesOptions {
  readonly baseUrl: string;
  readonly demo: DemoResult;
}

export function curlLines({ baseUrl, demo }: CurlLinesOptions): string[] {
  const { clientId, clientSecret } = demo.tenant;
  return [
    `TOKEN=$(curl -s ${baseUrl}/v1/auth/token -H 'Content-Type: application/json' -d '{"client_id":"${clientId}","client_secret":"${clientSecret}","grant_type":"client_credentials"}' | sed -E 's/.*"access_token":"([^"]+)".*/\\1/')`,
    `curl -s ${baseUrl}/v1/webhooks/endpoints -H "Authorization: Bearer $TOKEN"`,
    `curl -s ${baseUrl}/v1/events -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"type":"inference.completed","data":{"hello":"world"}}'`,
    `curl -s "${baseUrl}/v1/webhooks/deliveries?limit=1" -H "Authorization: Bearer $TOKEN"`,
    `curl -s ${baseUrl}/v1/webhooks/deliveries/${demo.deliveryId}/attempts -H "Authorization: Bearer $TOKEN"`,
  ];
}
