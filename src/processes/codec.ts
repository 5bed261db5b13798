/** The codec of a process, if payloads are encrypted. */
import type { PayloadCodec } from "@temporalio/common";
import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { createWatchedClient, temporalOptions } from "../temporal/client.ts";
import { type CodecServices, createPayloadCodec } from "../temporal/codec.ts";
import { machineTimers } from "../runtime/machine-timers.ts";

/** Returns the codec; undefined if `SIGNET_TEMPORAL_CODEC` is off. */
export function codecOf(
  { temporalCodec }: Pick<Config, "temporalCodec">,
  services: CodecServices,
): PayloadCodec | undefined {
  return temporalCodec === "on" ? createPayloadCodec(services) : undefined;
}

/** Creates the client of a process without a worker, which connects on first use, and the job that watches it. */
export function openTemporal(
  config: Config & { readonly temporalAddress: string },
  { log, ...services }: CodecServices & { readonly log: Logger },
): ReturnType<typeof createWatchedClient> {
  return createWatchedClient(temporalOptions(config), codecOf(config, services), machineTimers, log);
}
