/** Wires the token endpoint, and the check and revocation of tokens for other services. */
import type { OAuthServices } from "#api/routes/oauth.ts";
import type { StatusListServices } from "#api/routes/status-lists.ts";
import type { TokenStatusServices } from "#api/routes/token-status.ts";
import { mutualTlsAddress } from "#config/mutual-tls.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import {
  createClientLookup,
  createRetiredClientLookup,
  replaceMac,
  touchVersions,
} from "#database/repositories/tokens/clients.ts";
import { useAssertion } from "#database/repositories/tokens/workload-credentials.ts";
import { TokenLimits } from "#http/rate-limits/token-limits.ts";
import { createTokenMint } from "#tokens/oauth/access-token.ts";
import { type AssertionOptions, createAssertionVerifier } from "#tokens/oauth/client-assertion.ts";
import {
  type AuthenticateClient,
  type ClientAuthenticatorOptions,
  createClientAuthenticator,
} from "#tokens/oauth/client-authentication.ts";
import { appendIssuedTokens, IssuedTokens } from "#tokens/oauth/issued-tokens.ts";
import { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { tokenEndpoint } from "#tokens/oauth/metadata.ts";
import { ReMac } from "#tokens/oauth/re-mac.ts";
import { keyReplacement } from "#tokens/signing-keys/revoke.ts";
import { createTokenRotation } from "../rotation.ts";
import type { ApiProcessServices } from "./services.ts";
import { createStatusLists } from "./status-lists.ts";
import type { Tokens } from "./tokens.ts";

/** For ids of tokens, which are no secrets. */
const idBytes = createRandomPool();

export interface OAuth extends OAuthServices, TokenStatusServices {
  readonly statusDocuments: StatusListServices;
  /** Writes records collected while answering. */
  close(): Promise<void>;
}

type Authenticating = Required<Pick<ClientAuthenticatorOptions, "onOldMac" | "onRetiredSecret">> &
  Pick<AssertionOptions, "audiences">;

function createAuthenticator(
  { config, pools, pepper, clock, timers }: ApiProcessServices,
  { audiences, onOldMac, onRetiredSecret }: Authenticating,
): AuthenticateClient {
  return createClientAuthenticator({
    findClient: createClientLookup(pools.issuer, timers),
    findRetiredClient: createRetiredClientLookup(pools.issuer, clock, timers),
    verifyAssertion: createAssertionVerifier({
      audiences,
      algorithms: config.clientAssertionAlgs,
      use: async (used) => await useAssertion(pools.issuer, used, clock.now()),
      clock,
    }),
    pepper,
    rules: rotationRules(config),
    clock,
    onOldMac,
    onRetiredSecret,
  });
}

export function createOAuth(services: ApiProcessServices, { status }: Pick<Tokens, "status">): OAuth {
  const { config, issuer, pools, pepper, keys, setKeys, clock, timers, log } = services;
  const { view } = services.revocation.follower;
  const { audience, resources = [] } = config;
  const reMac = new ReMac(
    async (old) => await replaceMac(pools.issuer, old, { mac_key_id: pepper.id, mac: old.newMac }),
    log,
  );
  const lastUsed = new LastUsedRecorder({
    timers,
    write: async (used) => await touchVersions(pools.issuer, "secret_versions", used),
    clock,
    log,
  });
  const issued = new IssuedTokens({
    timers,
    append: async (counts) => await appendIssuedTokens(pools.issuer, counts, services),
    clock,
    log,
  });
  const tokenRotation = createTokenRotation(services);
  const replaceRevokedKey = keyReplacement(keys, view);
  const { places, routes } = createStatusLists(services, replaceRevokedKey);
  const mutualTlsUrl = mutualTlsAddress(config);
  const endpoints = [issuer, mutualTlsUrl].filter((url) => url !== undefined).map(tokenEndpoint);
  return {
    timers,
    issuer,
    mutualTls: config.mtlsMode !== "off",
    mutualTlsUrl,
    assertionAlgorithms: config.clientAssertionAlgs,
    audience,
    resources,
    publicKeys: () => [...keys.publicKeys(), ...setKeys.publicKeys()],
    authenticate: createAuthenticator(services, {
      audiences: [issuer, ...endpoints],
      onOldMac: (old) => reMac.note(old),
      onRetiredSecret: tokenRotation.onRetiredSecret,
    }),
    limits: new TokenLimits(config, timers.monotonic),
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
    verify: status.verify,
    admit: status.admit,
    revoke: status.revoke,
    lastUsed,
    issued,
    rotation: tokenRotation.rotation,
    close: async () => {
      await Promise.all([lastUsed.close(), issued.close(), tokenRotation.close(), reMac.close()]);
    },
  };
}
