/** `POST /v1/auth/token`: the client credentials grant (RFC 6749 section 4.4). */
import { namesCertificate } from "../credentials/certificate-binding.ts";
import type { CredentialRotation, TokenRotationService } from "../credentials/rotation.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import { parseScopes } from "#domain/scopes.ts";
import { SignetError } from "#domain/errors.ts";
import { type MintedToken, type MintToken, type TokenSubject } from "./access-token.ts";
import {
  type AuthenticatedClient,
  invalidClient,
  type AuthenticateClient,
  type PresentedCredentials,
  presentedCredentials,
} from "./client-authentication.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { TokenLimits } from "#http/rate-limits/token-limits.ts";
import type { IssuedTokens } from "./issued-tokens.ts";
import type { LastUsedRecorder } from "./last-used.ts";
import type { StatusPlaces } from "../status-lists/places.ts";
import { readParameters, refuseQueryParameters, type RequestParameters } from "./request-parameters.ts";

/** The longest wait for a token right after a suspension was lifted, in milliseconds. */
const READMISSION_MAX_MS = 2_500;

const PARAMETERS = [
  "grant_type",
  "client_id",
  "client_secret",
  "client_assertion",
  "client_assertion_type",
  "scope",
  "resource",
];

/** The parts of the HTTP request that the grant uses. */
export interface TokenRequest {
  readonly body: Buffer | undefined;
  readonly contentType: string | undefined;
  readonly authorization: string | undefined;
  readonly query: Readonly<Record<string, unknown>>;
  /** The client's address. */
  readonly address: string;
  /** The verified client certificate; undefined if mutual TLS is not in use. */
  readonly clientCertificate?: ClientCertificate | undefined;
}

/** The response. `token` is the specification's name for the same JWT. */
export interface TokenResponse {
  readonly access_token: string;
  readonly token_type: "Bearer";
  readonly expires_in: number;
  readonly scope: string;
  readonly token: string;
  /** The successor of the secret in use, once its rotation is due (security decisions C). */
  readonly credential_rotation?: CredentialRotation;
}

export interface TokenServices {
  readonly authenticate: AuthenticateClient;
  readonly mint: MintToken;
  readonly timers: Timers;
  readonly lastUsed: Pick<LastUsedRecorder, "note">;
  readonly issued: Pick<IssuedTokens, "note">;
  readonly limits: Pick<TokenLimits, "admitClient" | "authenticate" | "identify">;
  readonly rotation: Pick<TokenRotationService, "step">;
  /** Places in status lists; absent if no audience asks for them. */
  readonly places?: StatusPlaces | undefined;
  /** `aud` of a token that is requested without a resource. */
  readonly audience: string;
  /** Other resources for which tokens may be requested (RFC 8707). */
  readonly resources: readonly string[];
  readonly clock: Clock;
  /**
   * Returns the second of Unix time from which a token of this holder and key is valid: 0 if `second` itself is,
   * infinity if the holder or the key is revoked.
   */
  readonly issuableFrom: (subject: TokenSubject, kid: string, second: number) => number;
  /** Reads the signing keys again if this one is revoked and signs. Resolves with whether another one signs now. */
  readonly replaceRevokedKey: (kid: string) => Promise<boolean>;
}

/** Answers a token request. Rejects with a SignetError whose code corresponds to the OAuth error. */
export async function issueToken(request: TokenRequest, services: TokenServices): Promise<TokenResponse> {
  const { limits } = services;
  const { parameters, presented, authenticated } = await limits.identify(
    request.address,
    async () => await identifyClient(request, services),
  );
  limits.admitClient(authenticated.client.client_id);
  const audience = grantedAudience(parameters, services);
  const scope = grantedScope(parameters["scope"], authenticated.client.scope);
  noteUse(authenticated, services.lastUsed);
  const rotation = rotationStep(authenticated, { presented, request, rotation: services.rotation });
  const credentialRotation = rotation === undefined ? undefined : await rotation;
  const subject = tokenSubject(authenticated, { scope, audience, certificate: request.clientCertificate });
  const minted =
    services.places?.covers(audience) === true
      ? await mintUnlessRevoked(subject, services, services.places)
      : await mintUnlessRevoked(subject, services);
  if (minted === undefined) {
    throw invalidClient(presented.method === "client_secret_basic");
  }
  const { token, jti } = minted;
  services.issued.note(subject.tenantId, jti);
  return {
    access_token: token,
    token_type: "Bearer",
    expires_in: TOKEN_LIFETIME_SECONDS,
    scope,
    token,
    ...(credentialRotation === undefined ? {} : { credential_rotation: credentialRotation }),
  };
}

/** Reads the request, and authenticates its client. */
async function identifyClient(request: TokenRequest, { authenticate, limits }: TokenServices) {
  refuseQueryParameters(request.query);
  const parameters = readParameters(request.body, request.contentType, PARAMETERS);
  requireClientCredentialsGrant(parameters);
  const presented = presentedCredentials(request.authorization, parameters, request.clientCertificate);
  const authenticated = await limits.authenticate(
    request.address,
    presented.clientId,
    async () => await authenticate(presented, request.clientCertificate),
  );
  return { parameters, presented, authenticated };
}

/**
 * Signs a token unless the client was revoked since its authentication. A client that was just readmitted waits for
 * the second from which its new tokens differ from the dead ones.
 */
async function mintUnlessRevoked(
  subject: TokenSubject,
  { mint, issuableFrom, replaceRevokedKey, clock, timers }: TokenServices,
  places?: StatusPlaces,
): Promise<MintedToken | undefined> {
  for (;;) {
    // Take the second before signing: afterwards, the next one may have begun.
    const second = Math.floor(clock.now() / 1_000);
    const place = places === undefined ? undefined : await places.take();
    const minted = await mint(place === undefined ? subject : { ...subject, place });
    if (place !== undefined && issuableFrom(subject, minted.kid, second) === 0) {
      // Before the last look at the revocations: a status list made since one of them has this token.
      await places?.record(place, subject, second);
    }
    const from = issuableFrom(subject, minted.kid, second);
    if (from === 0) {
      return minted;
    }
    // A key's revocation may be known before its successor, or become known while it signs.
    if (from === Infinity && (await replaceRevokedKey(minted.kid))) {
      continue;
    }
    const waitMs = from * 1_000 - clock.now();
    if (waitMs > READMISSION_MAX_MS) {
      return undefined;
    }
    await timers.sleep(Math.max(1, waitMs));
  }
}

function noteUse(
  { client, version, admission }: AuthenticatedClient,
  lastUsed: Pick<LastUsedRecorder, "note">,
): void {
  // The use of a version that fell out of use must not revive it, so its retirement is recorded first.
  if (version !== undefined && (admission !== "rescued" || version.state === "RETIRED")) {
    lastUsed.note(client, version);
  }
}

interface RotationServices {
  readonly presented: PresentedCredentials;
  readonly request: TokenRequest;
  readonly rotation: Pick<TokenRotationService, "step">;
}

function rotationStep(
  { client, version, admission, registeredCertificate }: AuthenticatedClient,
  { presented, request, rotation }: RotationServices,
): ReturnType<TokenRotationService["step"]> {
  if (version === undefined || !("clientSecret" in presented)) {
    return undefined;
  }
  const bare = request.clientCertificate === undefined && !namesCertificate(client);
  return rotation.step({
    client,
    version,
    admission,
    secret: presented.clientSecret,
    trusted: registeredCertificate || bare,
  });
}

function requireClientCredentialsGrant({ grant_type: grantType }: RequestParameters): void {
  if (grantType === undefined) {
    throw new SignetError("INVALID_REQUEST", { detail: "Parameter grant_type is missing." });
  }
  if (grantType !== "client_credentials") {
    throw new SignetError("UNSUPPORTED_GRANT_TYPE", { detail: "grant_type must be client_credentials." });
  }
}

/** Returns the token's only audience (RFC 8707), so that one resource cannot use it at another. */
function grantedAudience(
  { resource }: RequestParameters,
  { audience, resources }: Pick<TokenServices, "audience" | "resources">,
): string {
  if (resource === undefined || resource === audience) {
    return audience;
  }
  if (!resources.includes(resource)) {
    throw new SignetError("INVALID_TARGET", { detail: "resource is unknown: no tokens are issued for it." });
  }
  return resource;
}

/** Returns all scopes of the client, or the requested subset. Rejects other scopes instead of dropping them. */
function grantedScope(requested: string | undefined, owned: string): string {
  if (requested === undefined) {
    return owned;
  }
  const scopes = parseScopes(requested);
  if (scopes === undefined) {
    throw new SignetError("INVALID_SCOPE", {
      detail: "scope must list scopes of the form resource:action, separated by single spaces.",
    });
  }
  const permitted = new Set(owned.split(" "));
  if (!scopes.every((scope) => permitted.has(scope))) {
    throw new SignetError("INVALID_SCOPE", { detail: "The client does not have all of these scopes." });
  }
  return scopes.join(" ");
}

function tokenSubject(
  { client, version }: AuthenticatedClient,
  {
    scope,
    audience,
    certificate,
  }: {
    readonly scope: string;
    readonly audience: string;
    readonly certificate: ClientCertificate | undefined;
  },
): TokenSubject {
  return {
    clientId: client.client_id,
    tenantId: client.tenant_id,
    principalId: client.principal_id,
    credentialId: client.credential_id,
    secretVersion: version?.version ?? 0,
    region: client.region,
    scope,
    audience,
    certificateThumbprint: certificate?.x5t,
  };
}
