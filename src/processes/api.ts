/** The api process: public API and operators' API on their listeners. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import { createAdmin } from "#api/admin/app.ts";
import { createCommitChange } from "#api/admin/audited.ts";
import { InProcessCalls } from "#api/in-process.ts";
import type { AdminServices } from "#api/admin/services.ts";
import { createApi } from "./api/public-api.ts";
import { type ConsoleServices, createConsole } from "./api/console.ts";
import type { OAuthServices } from "#api/routes/oauth.ts";
import { listenServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { appendIssuedTokens, IssuedTokens } from "#tokens/oauth/issued-tokens.ts";
import { type Config, formatListen, type ListenAddress } from "#config/config.ts";
import { cellsOf } from "#config/cell-settings.ts";
import { poolAccess } from "#config/database-settings.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pepper } from "#crypto/pepper.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { CellClock, openProcessClock } from "#database/database-clock.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { databaseReadiness } from "#database/readiness.ts";
import {
  createClientLookup,
  createRetiredClientLookup,
  replaceMac,
  touchVersions,
} from "#database/repositories/tokens/clients.ts";
import { useAssertion } from "#database/repositories/tokens/workload-credentials.ts";
import type { Clock, GuardedClock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { type Cells, isAway } from "#domain/regions.ts";
import { clockReadiness, clockSkewJob, homeSkewJob } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { createTokenMint } from "#tokens/oauth/access-token.ts";
import { type AssertionOptions, createAssertionVerifier } from "#tokens/oauth/client-assertion.ts";
import {
  type AuthenticateClient,
  type ClientAuthenticatorOptions,
  createClientAuthenticator,
} from "#tokens/oauth/client-authentication.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { tokenEndpoint } from "#tokens/oauth/metadata.ts";
import { ReMac } from "#tokens/oauth/re-mac.ts";
import { createReceipts } from "#revocation/receipts.ts";
import type { RevocationView } from "#revocation/view.ts";
import { publishRefusals } from "#http/rate-limits/publish-refusals.ts";
import { TokenLimits } from "#http/rate-limits/token-limits.ts";
import { mutualTlsAddress } from "#config/mutual-tls.ts";
import { reportUnknownSdk } from "#temporal/sdk-patches.ts";
import { CHECK_TIMEOUT_MS, checkNamespace, openWatchedClient, temporalOptions } from "#temporal/client.ts";
import { findPause } from "#temporal/open-workflow.ts";
import { temporalReadiness } from "#temporal/readiness.ts";
import { temporalUi } from "#temporal/views.ts";
import { reportUnreachable } from "#temporal/unreachable.ts";
import { Upkeep, type UpkeepJob } from "#runtime/upkeep.ts";
import { openAdminListener } from "./api/admin-listener.ts";
import { type Front, handlerOf, listenForClients, openMutualTls } from "./mutual-tls.ts";
import { ReadAudit } from "#tokens/operators/read-audit.ts";
import { openOperatorAccess } from "./api/operator-access.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { openPortalBrands } from "./api/portal-brands.ts";
import { openProducers } from "./api/producers.ts";
import { followHome } from "./home-knowledge.ts";
import { followRevocations } from "./revocation.ts";
import type { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import { openTenantLimits } from "./api/tenant-limits.ts";
import { createStatusLists, type StatusLists } from "./api/status-lists.ts";
import { createTokens } from "./api/tokens.ts";
import { createTokenRotation, credentialIssuing } from "./rotation.ts";
import {
  type ApiKeys,
  keyAlgorithms,
  keyReplacement,
  openSigningKeys,
  requireVerificationKeys,
} from "./signing-keys.ts";
import type { HandOver } from "#webhooks/ingest/hand-over.ts";
import { createWebhooks } from "./api/webhooks.ts";
import type { RunningProcess } from "./with-metrics.ts";

/** For ids of tokens, which are no secrets. */
const idBytes = createRandomPool();

export interface ApiProcessOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  readonly log: Logger;
  /** Replaces the clock of this process's database in tests; not that of the home cell. */
  readonly clock?: Clock;
  /** The mutual TLS listener's address, if an edge of this deployment uses SIGNET_EDGE_LISTEN. */
  readonly mutualTlsListen?: ListenAddress | undefined;
  /** A worker in the same process, which takes new deliveries over. */
  readonly handOver?: HandOver | undefined;
  /** Starts an edge in the same process, which listens by mutual TLS in place of the api. Resolves with its address. */
  readonly front?: Front | undefined;
}

export interface ApiProcess extends RunningProcess {
  /** Actual addresses of the listeners: port 0 in the settings means any free port. */
  readonly publicAddress: ListenAddress;
  readonly adminAddress: ListenAddress;
  /** The mutual TLS listener, if any. */
  readonly edgeAddress: ListenAddress | undefined;
  /** Finishes the requests in progress, then closes. */
  close(): Promise<void>;
}

interface Pools {
  readonly api: Pool;
  readonly ingest: Pool;
  readonly issuer: Pool;
  readonly operator: Pool;
  readonly audit: Pool;
}

function openPools({ config, log }: ApiProcessOptions): Pools {
  const open = (role: ServiceRole): Pool =>
    createPool({ ...poolAccess(config), role, max: config.databaseConnections, log });
  return {
    api: open("signet_api"),
    ingest: open("signet_ingest"),
    issuer: open("signet_issuer"),
    operator: open("signet_operator"),
    audit: open("signet_audit"),
  };
}

interface OAuthProcessServices {
  readonly config: ApiProcessOptions["config"];
  readonly pools: Pools;
  readonly pepper: Pepper;
  readonly keyring: Keyring;
  readonly keys: Omit<KeyStore, "close">;
  readonly setKeys: ApiKeys["setKeys"];
  readonly clock: GuardedClock;
  readonly log: Logger;
  readonly view: RevocationView;
}

interface OAuth extends OAuthServices {
  readonly statusDocuments: StatusLists["routes"];
  /** Writes records collected while answering. */
  close(): Promise<void>;
}

type Authenticating = Pick<ClientAuthenticatorOptions, "onOldMac" | "onRetiredSecret"> &
  Pick<AssertionOptions, "audiences">;

function createAuthenticator(
  { config, pools, pepper, clock }: OAuthProcessServices,
  { audiences, ...noting }: Authenticating,
): AuthenticateClient {
  return createClientAuthenticator({
    findClient: createClientLookup(pools.issuer, machineTimers),
    findRetiredClient: createRetiredClientLookup(pools.issuer, clock, machineTimers),
    verifyAssertion: createAssertionVerifier({
      audiences,
      algorithms: config.clientAssertionAlgs,
      use: async (used) => await useAssertion(pools.issuer, used, clock.now()),
      clock,
    }),
    pepper,
    rules: rotationRules(config),
    clock,
    ...noting,
  });
}

function createOAuth(parts: OAuthProcessServices): OAuth {
  const { config, pools, pepper, keys, setKeys, clock, log, view } = parts;
  const { publicUrl: issuer, audience, resources = [] } = config;
  const reMac = new ReMac(
    async (old) => await replaceMac(pools.issuer, old, { mac_key_id: pepper.id, mac: old.newMac }),
    log,
  );
  const lastUsed = new LastUsedRecorder({
    timers: machineTimers,
    write: async (used) => await touchVersions(pools.issuer, "secret_versions", used),
    clock,
    log,
  });
  const issued = new IssuedTokens({
    timers: machineTimers,
    append: async (counts) => await appendIssuedTokens(pools.issuer, counts, { clock, randomBytes }),
    clock,
    log,
  });
  const tokenRotation = createTokenRotation({ config, pepper, clock, log });
  const replaceRevokedKey = keyReplacement(keys, view);
  const { places, routes } = createStatusLists({
    config,
    pool: pools.issuer,
    keys,
    replaceRevokedKey,
    view,
    clock,
  });
  const mutualTlsUrl = mutualTlsAddress(config);
  const endpoints = [issuer, mutualTlsUrl].filter((url) => url !== undefined).map(tokenEndpoint);
  return {
    timers: machineTimers,
    issuer,
    mutualTls: config.mtlsMode !== "off",
    mutualTlsUrl,
    assertionAlgorithms: config.clientAssertionAlgs,
    audience,
    resources,
    publicKeys: () => [...keys.publicKeys(), ...setKeys.publicKeys()],
    authenticate: createAuthenticator(parts, {
      audiences: [issuer, ...endpoints],
      onOldMac: (old) => reMac.note(old),
      onRetiredSecret: tokenRotation.onRetiredSecret,
    }),
    limits: new TokenLimits(config, machineTimers.monotonic),
    mint: createTokenMint({ issuer, audience, keys, clock, randomBytes: idBytes }),
    clock,
    issuableFrom: (subject, kid, issuedAt) =>
      // Not a copy of the whole subject: V8 would place it in the old generation.
      view.issuableFrom({
        credentialId: subject.credentialId,
        principalId: subject.principalId,
        tenantId: subject.tenantId,
        certificateThumbprint: subject.certificateThumbprint,
        jti: "",
        kid,
        issuedAt,
      }),
    replaceRevokedKey,
    places,
    statusLists: places !== undefined,
    statusDocuments: routes,
    lastUsed,
    issued,
    rotation: tokenRotation.rotation,
    close: async () => {
      await Promise.all([lastUsed.close(), issued.close(), tokenRotation.close(), reMac.close()]);
    },
  };
}

interface KnowledgeServices extends Pick<
  OAuthProcessServices,
  "config" | "pools" | "keyring" | "clock" | "log"
> {
  readonly cells: Cells | undefined;
  readonly tenantLimits: TenantLimits;
}

/**
 * Opens keys, revocations and the clock that dates them, `tokenClock`: those of this database, or in another cell those
 * of the home cell. The cell's own `clock` must agree with it.
 */
async function openKnowledge({ config, cells, tenantLimits, ...parts }: KnowledgeServices) {
  const onPolicyChange = (tenantId: string): void => tenantLimits.forget(tenantId);
  const { clock: own, log } = parts;
  if (isAway(cells)) {
    const { clock: tokenClock, ...home } = await followHome({ config, onPolicyChange, ...parts });
    const clock = new CellClock(own, tokenClock);
    return { ...home, clock, tokenClock, setKeys: home.keys, jobs: [homeSkewJob(clock, log)] };
  }
  const keys = await openSigningKeys({ config, ...parts });
  const revocation = await followRevocations({ onPolicyChange, config, time: own, log });
  return { ...keys, clock: own, tokenClock: own, revocation };
}

type ReadinessServices = Pick<OAuthProcessServices, "pools" | "clock"> & {
  readonly temporal: Client;
  readonly keys: Pick<KeyStore, "signingKey" | "publicKeys" | "refresh">;
  readonly cells: Cells | undefined;
};

function readinessChecks({
  pools,
  clock,
  temporal,
  keys,
  cells,
}: ReadinessServices): readonly ReadinessCheck[] {
  const { api, ingest, issuer } = pools;
  return [
    databaseReadiness({ pools: [api, ingest, issuer], writes: true, timers: machineTimers }),
    temporalReadiness(temporal, machineTimers.monotonic),
    {
      name: "keys",
      check: async () => await (isAway(cells) ? requireVerificationKeys(keys) : keys.signingKey()),
    },
    clockReadiness(clock),
  ];
}

type OperatorsApiServices = Pick<
  AdminServices,
  "pepper" | "keyring" | "clients" | "revocation" | "clock" | "randomBytes" | "log"
> & {
  readonly config: Config;
  readonly cells: Cells | undefined;
  readonly pools: Pools;
  readonly readAudit: ReadAudit;
  readonly temporal: Client;
  readonly console: Pick<ConsoleServices, "api" | "calls" | "streams" | "brands" | "temporalUi">;
};

async function createOperatorsApi({
  config,
  pools,
  temporal,
  console,
  ...parts
}: OperatorsApiServices): Promise<SignetServer> {
  const shared = { pool: pools.operator, timers: machineTimers, ...parts };
  const access = await openOperatorAccess({ config, ...shared });
  const reading = {
    tenantPool: pools.api,
    checkTemporal: async () => await checkNamespace(temporal),
    findPause: async (workflowId: string) =>
      await temporal.withDeadline(
        Date.now() + CHECK_TIMEOUT_MS,
        async () => await findPause(temporal, workflowId),
      ),
  };
  return await createAdmin({
    ...shared,
    ...reading,
    console: createConsole({ config, access, ...shared, ...reading, ...console }),
    baseUrl: config.publicUrl,
    access,
    bootstrap: config.bootstrapOperator === "on",
    certificatesRequired: config.mtlsMode !== "off",
    assertionAlgorithms: config.clientAssertionAlgs,
    auditPool: pools.audit,
    commit: createCommitChange(shared),
    rotationRules: rotationRules(config),
    limitDefaults: config,
    algs: keyAlgorithms(config),
  });
}

function openPageParts(config: Config, pool: Pool, temporal: Client) {
  return {
    calls: new InProcessCalls(),
    brands: openPortalBrands(config, pool),
    temporalUi: temporalUi(config, temporal),
  };
}

async function openStore(options: ApiProcessOptions) {
  const { config } = options;
  const secrets = await loadServiceSecrets(config, randomBytes, machineTimers);
  const pools = openPools(options);
  await requireUsableDatabase(pools.api, config, config);
  return { ...secrets, pools, clock: await openProcessClock(options.clock, pools.api, machineTimers) };
}

/** Starts these jobs, and those of every api. */
function startMeasures(
  { clock, log }: Pick<OAuthProcessServices, "clock" | "log">,
  jobs: readonly UpkeepJob[],
): Upkeep {
  return new Upkeep([clockSkewJob(clock, log), publishRefusals.job(log), ...jobs], machineTimers, log);
}

/** Starts the api process. Resolves when it listens. */
export async function startApi(options: ApiProcessOptions): Promise<ApiProcess> {
  const { config, log } = options;
  const { pepper, keyring, pools, clock: ownClock } = await openStore(options);
  const cells = cellsOf(config);
  // What callers see; SIGNET_PUBLIC_URL is the issuer, which is the home cell.
  const own = { ...config, publicUrl: cells?.own.url ?? config.publicUrl };
  const tenantLimits = openTenantLimits(config, pools.issuer, ownClock);
  const knowing = { clock: ownClock, log, config, cells, pools, keyring, tenantLimits };
  const { clock, tokenClock, keys, setKeys, jobs, revocation } = await openKnowledge(knowing);
  const { follower } = revocation;
  const shared = { clock, timers: machineTimers, randomBytes, log };
  const signing = { ...shared, config, pools, keyring, keys, setKeys };
  const oauth = createOAuth({ ...signing, pepper, view: follower.view });
  const receipts = createReceipts({ pool: pools.issuer, region: config.region, ...shared });
  const revoking = { ...shared, keyring, receipts, deadLetterMs: config.deadLetterMs };
  reportUnknownSdk(config, log);
  const { client: temporal, watch } = openWatchedClient(temporalOptions(config), keyring, machineTimers, log);
  const webhooks = createWebhooks({ ...options, ...knowing, ...signing, config: own, pepper, temporal });
  const tokens = createTokens({ ...revoking, clock: tokenClock, config, keys, pools, follower });
  const producers = openProducers({ ...shared, ...tokens, config, pool: pools.issuer, keyring });
  const tls = { config, clock, log, isDenied: revocation.isDenied };
  const [mutualTls, adminListener] = [await openMutualTls(tls), await openAdminListener(tls)];
  const others = [revocation, mutualTls, adminListener].flatMap((part) => part.readiness);
  const readiness = [...readinessChecks({ pools, clock, temporal, keys, cells }), ...others];
  const pages = openPageParts(config, pools.api, temporal);
  const common = { ...shared, config: own, cells, pools, keyring, revocation: revoking };

  const api = await createApi({
    ...common,
    clients: mutualTls.clients,
    oauth,
    credentials: credentialIssuing({ config, pepper }),
    webhooks,
    tokens,
    tenantLimits,
    producers: producers.authenticator,
    readiness,
    ...pages,
  });
  const readAudit = new ReadAudit({ pool: pools.operator, ...shared });
  const admin = await createOperatorsApi({
    ...common,
    pepper,
    clients: adminListener.clients,
    readAudit,
    temporal,
    console: { api, streams: webhooks.streams, ...pages },
  });
  const publicAddress = await listenServer(api, config.apiListen);
  const adminAddress = await adminListener.listen(admin);
  const edgeAddress = await listenForClients({ mutualTls, handler: handlerOf(api) }, options);
  const edge = edgeAddress && formatListen(edgeAddress);
  const measures = startMeasures(shared, [watch, readAudit.job, ...jobs]);
  void reportUnreachable(temporalOptions(config), log);
  log.info({ public: formatListen(publicAddress), admin: formatListen(adminAddress), edge }, "api started");
  return {
    publicAddress,
    adminAddress,
    edgeAddress,
    readiness,
    close: async () => {
      await Promise.all([api.close(), admin.close(), mutualTls.close(), adminListener.close()]);
      await Promise.all([keys.close(), measures.stop()]);
      await receipts.drain();
      await revocation.close();
      await webhooks.drain();
      await temporal.connection.close();
      await Promise.all([oauth.close(), producers.close()]);
      await Promise.all(Object.values(pools).map(async (pool: Pool) => await pool.end()));
    },
  };
}
