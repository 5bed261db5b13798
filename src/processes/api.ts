/** The api process: public API and operators' API on their listeners. */
import { formatListen, type ListenAddress } from "#config/config.ts";
import type { Pool } from "#database/pool.ts";
import { databaseReadiness } from "#database/readiness.ts";
import { isAway } from "#domain/regions.ts";
import { publishRefusals } from "#http/rate-limits/publish-refusals.ts";
import { listenServer } from "#http/server.ts";
import { clockReadiness, clockSkewJob } from "#observability/clock-skew.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { Upkeep } from "#runtime/upkeep.ts";
import { temporalOptions } from "#temporal/client.ts";
import { temporalReadiness } from "#temporal/readiness.ts";
import { reportUnreachable } from "#temporal/unreachable.ts";
import { AdminListener } from "./api/admin-listener.ts";
import { createOAuth } from "./api/oauth.ts";
import { createOperatorsApi } from "./api/operators-api.ts";
import { openProducers } from "./api/producers.ts";
import { createApi } from "./api/public-api.ts";
import { type ApiProcessOptions, type ApiProcessServices, openServices } from "./api/services.ts";
import { createTokens } from "./api/tokens.ts";
import { createWebhooks } from "./api/webhooks.ts";
import { handlerOf, listenForClients, MutualTls } from "./mutual-tls.ts";
import { requireVerificationKeys } from "./signing-keys.ts";
import type { RunningProcess } from "./with-metrics.ts";

export interface ApiProcess extends RunningProcess {
  /** Actual addresses of the listeners: port 0 in the settings means any free port. */
  readonly publicAddress: ListenAddress;
  readonly adminAddress: ListenAddress;
  /** The mutual TLS listener, if any. */
  readonly edgeAddress: ListenAddress | undefined;
  /** Finishes the requests in progress, then closes. */
  close(): Promise<void>;
}

function readinessChecks(services: ApiProcessServices): readonly ReadinessCheck[] {
  const { pools, clock, temporal, timers, keys, cells } = services;
  return [
    databaseReadiness({ pools: [pools.api, pools.ingest, pools.issuer], writes: true, timers }),
    temporalReadiness(temporal, timers.monotonic),
    {
      name: "keys",
      check: async () => await (isAway(cells) ? requireVerificationKeys(keys) : keys.signingKey()),
    },
    clockReadiness(clock),
  ];
}

/** Starts the api process. Resolves when it listens. */
export async function startApi(options: ApiProcessOptions): Promise<ApiProcess> {
  const services = await openServices(options);
  const { config, clock, timers, log, revocation, receipts } = services;
  const webhooks = createWebhooks(services);
  const tokens = createTokens(services);
  const oauth = createOAuth(services, tokens);
  const producers = openProducers(services, tokens.isAdmitted);
  const tls = { config, clock, log, isDenied: revocation.isDenied };
  const [mutualTls, adminListener] = [await MutualTls.open(tls), await AdminListener.open(tls)];
  const others = [revocation, mutualTls, adminListener].flatMap((part) => part.readiness);
  const readiness = [...readinessChecks(services), ...others];

  const api = await createApi(services, {
    clients: mutualTls.clients,
    oauth,
    webhooks,
    tokens,
    producers: producers.authenticator,
    readiness,
  });
  const admin = await createOperatorsApi(services, {
    api,
    clients: adminListener.clients,
    streams: webhooks.streams,
  });
  const publicAddress = await listenServer(api, config.apiListen);
  const adminAddress = await adminListener.listen(admin);
  const edgeAddress = await listenForClients({ mutualTls, handler: handlerOf(api) }, options);
  const edge = edgeAddress && formatListen(edgeAddress);
  const jobs = [clockSkewJob(clock, log), publishRefusals.job(log), ...services.jobs];
  const upkeep = new Upkeep(jobs, timers, log);
  void reportUnreachable(temporalOptions(config), log);
  log.info({ public: formatListen(publicAddress), admin: formatListen(adminAddress), edge }, "api started");
  return {
    publicAddress,
    adminAddress,
    edgeAddress,
    readiness,
    close: async () => {
      await Promise.all([api.close(), admin.close(), mutualTls.close(), adminListener.close()]);
      await Promise.all([services.keys.close(), upkeep.stop()]);
      await receipts.drain();
      await revocation.close();
      await webhooks.drain();
      await services.temporal.connection.close();
      await Promise.all([oauth.close(), producers.close()]);
      await Promise.all(Object.values(services.pools).map(async (pool: Pool) => await pool.end()));
    },
  };
}
