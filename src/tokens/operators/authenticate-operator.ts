/** Authenticates operators: by the bootstrap token, an operator's token, or a certificate. */
import { createHash, timingSafeEqual } from "node:crypto";
import { isRegisteredCertificate } from "../credentials/certificate-binding.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { Queryable } from "#database/pool.ts";
import {
  findPresentedToken,
  type PresentedTokenRow,
  touchOperatorToken,
} from "#database/repositories/tokens/operator-tokens.ts";
import { findOperatorsByCertificate } from "#database/repositories/tokens/operators.ts";
import type { Clock } from "#domain/clock.ts";
import { type OperatorRole, operatorPermissions } from "#domain/operator-roles.ts";
import type { SignetError } from "#domain/errors.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { tokenRefused } from "#http/bearer-errors.ts";
import { BOOTSTRAP_OPERATOR } from "./operator-identity.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import { isOperatorToken } from "./token-format.ts";

/** The time of last use is updated if it is older than this, in milliseconds. */
const TOUCH_EVERY_MS = 60_000;

/** Why a caller was rejected, and the token's operator, if known. */
export interface OperatorRefusal {
  readonly error: SignetError;
  readonly operatorId: string | null;
}

export type OperatorAuthentication =
  /** With the id of the token; absent for a certificate and for the bootstrap token. */
  { readonly identity: OperatorIdentity; readonly tokenId?: string } | { readonly refusal: OperatorRefusal };

export interface OperatorAuthenticatorOptions {
  /** Role signet_operator. */
  readonly db: Queryable;
  readonly pepper: Pepper;
  /** The bootstrap operator's token; `undefined` if it is disabled. */
  readonly bootstrapToken: string | undefined;
  readonly clock: Clock;
}

/** SHA-256 of a secret of an operator: the bootstrap token's, or a browser session's. */
export function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function refuse(error: SignetError, operatorId: string | null = null): OperatorAuthentication {
  return { refusal: { error, operatorId } };
}

/** Returns the reason to reject a token that we issued, if any. */
function faultOf(row: PresentedTokenRow, nowMs: number): SignetError | undefined {
  if (row.revoked_at !== null || row.operator_state === "REVOKED") {
    return tokenRefused("TOKEN_REVOKED", "The operator token has been revoked.");
  }
  return row.expires_at.getTime() <= nowMs
    ? tokenRefused("TOKEN_EXPIRED", "The operator token has expired.")
    : undefined;
}

function identified(id: string, role: OperatorRole): { readonly identity: OperatorIdentity } {
  return { identity: { id, permissions: operatorPermissions([role]) } };
}

/** Authenticates operators. It caches nothing, so a revocation applies to the next request. */
export class OperatorAuthenticator {
  readonly #options: OperatorAuthenticatorOptions;
  readonly #bootstrap: Buffer | undefined;

  constructor(options: OperatorAuthenticatorOptions) {
    this.#options = options;
    this.#bootstrap = options.bootstrapToken === undefined ? undefined : digest(options.bootstrapToken);
  }

  /** Rejects with `TOKEN_INVALID`, `TOKEN_EXPIRED` or `TOKEN_REVOKED`. */
  async byToken(token: string): Promise<OperatorAuthentication> {
    const { db, pepper, clock } = this.#options;
    if (this.isBootstrap(digest(token))) {
      return { identity: BOOTSTRAP_OPERATOR };
    }
    const row = isOperatorToken(token) ? await findPresentedToken(db, pepper.macs(token)) : undefined;
    if (row === undefined) {
      return refuse(tokenRefused("TOKEN_INVALID", "The operator token is invalid."));
    }
    const nowMs = clock.now();
    const fault = faultOf(row, nowMs);
    if (fault !== undefined) {
      return refuse(fault, row.operator_id);
    }
    const usedAtMs = row.last_used_at?.getTime() ?? -Infinity;
    if (row.mac_key_id !== pepper.id || nowMs - usedAtMs >= TOUCH_EVERY_MS) {
      await touchOperatorToken(db, row.id, { nowMs, mac: pepper.mac(token), macKeyId: pepper.id });
    }
    return { ...identified(row.operator_id, row.role), tokenId: row.id };
  }

  /** Rejects with `TOKEN_INVALID` if the certificate belongs to no operator. */
  async byCertificate(certificate: ClientCertificate): Promise<OperatorAuthentication> {
    const [uri = null] = certificate.sanUris;
    const rows = await findOperatorsByCertificate(this.#options.db, certificate.thumbprint, uri);
    const [operator, ...others] = rows.filter((row) => isRegisteredCertificate(row, certificate));
    // A certificate that two operators have registered does not identify the caller.
    if (operator === undefined || others.length > 0) {
      return refuse(tokenRefused("TOKEN_INVALID", "The client certificate does not belong to an operator."));
    }
    return identified(operator.id, operator.role);
  }

  /** Checks the SHA-256 of a token against the bootstrap token. */
  isBootstrap(given: Buffer): boolean {
    return this.#bootstrap !== undefined && timingSafeEqual(given, this.#bootstrap);
  }
}
