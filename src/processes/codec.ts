/** The codec of a process, if payloads are encrypted. */
import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import type { Config } from "../config/config.ts";
import { createLazyClient, temporalOptions } from "../temporal/client.ts";
import { type CodecServices, createPayloadCodec } from "../temporal/codec.ts";

/** Returns the codec; undefined if `SIGNET_TEMPORAL_CODEC` is off. */
export function codecOf(
  { temporalCodec }: Pick<Config, "temporalCodec">,
  services: CodecServices,
): PayloadCodec | undefined {
  return temporalCodec === "on" ? createPayloadCodec(services) : undefined;
}

/** Creates the client of a process without a worker; it connects on first use. */
export function openTemporal(
  config: Config & { readonly temporalAddress: string },
  services: CodecServices,
): Client {
  return createLazyClient(temporalOptions(config), codecOf(config, services));
}
