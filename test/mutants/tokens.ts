/** Faults in credentials, tokens, mutual TLS, the edge and revocation. */
import type { Mutant } from "./mutant.ts";

export const TOKENS: readonly Mutant[] = [
  // Client authentication and rotation.
  {
    name: "any-secret-authenticates",
    breaks: "A client authenticates with its own secret (specification 5)",
    file: "src/tokens/oauth/client-authentication.ts",
    find: "timingSafeEqual(version.mac, mac)",
    replace: "timingSafeEqual(version.mac.subarray(0, 0), mac.subarray(0, 0))",
    caughtBy: "test/unit/tokens/oauth/client-authentication.test.ts",
  },
  {
    name: "inactive-client-authenticates",
    breaks: "A revoked credential or suspended tenant gets no token (specification 4)",
    file: "src/tokens/oauth/client-authentication.ts",
    find: "      !client.active ||\n",
    replace: "",
    caughtBy: "test/unit/tokens/oauth/client-authentication.test.ts",
  },
  {
    name: "old-secret-stays-valid",
    breaks: "A rotated secret ends once its successor is in use (specification 5.4)",
    file: "src/domain/secret-version.ts",
    find: "lastLife(version) + quietMs : Number.POSITIVE_INFINITY;",
    replace: "lastLife(version) + 365 * quietMs : Number.POSITIVE_INFINITY;",
    caughtBy: "test/unit/domain/secret-version.test.ts",
  },
  {
    name: "successor-after-31-days",
    breaks: "Production credentials rotate every 30 days (specification 5.4)",
    file: "src/tokens/credentials/issue-credential.ts",
    find: "const dueAt = nowMs + rules.periodMs;",
    replace: "const dueAt = nowMs + rules.periodMs + 86_400_000;",
    caughtBy: "test/promises/rotation.test.ts",
  },

  // Access tokens.
  {
    name: "token-for-16-minutes",
    breaks: "A token is valid for 15 minutes (specification 8)",
    file: "src/tokens/oauth/access-token.ts",
    find: "export const TOKEN_LIFETIME_SECONDS = 900;",
    replace: "export const TOKEN_LIFETIME_SECONDS = 960;",
    caughtBy: "test/unit/tokens/oauth/verify-access-token.test.ts",
  },
  {
    name: "scope-not-owned-is-granted",
    breaks: "A token has only scopes of the principal's role (specification 2)",
    file: "src/tokens/oauth/token.ts",
    find: "if (!scopes.every((scope) => permitted.has(scope))) {",
    replace: "if (!scopes.every((scope) => permitted.size > 0 || permitted.has(scope))) {",
    caughtBy: "test/promises/token.test.ts",
  },
  {
    name: "algorithm-not-pinned",
    breaks: "The key determines a token's algorithm (RFC 8725 section 3.1)",
    file: "src/tokens/oauth/verify-access-token.ts",
    find: 'if (header["alg"] !== found.alg || !isSignedWith(',
    replace: "if (!isSignedWith(",
    caughtBy: "test/unit/tokens/oauth/verify-access-token.test.ts",
  },
  {
    name: "audience-not-checked",
    breaks: "A token for another service is rejected (RFC 9068 section 4)",
    file: "src/tokens/oauth/verify-access-token.ts",
    find: '|| !audience.has(payload["aud"])) {',
    replace: '|| (audience.size === 0 && !audience.has(payload["aud"]))) {',
    caughtBy: "test/unit/tokens/oauth/verify-access-token.test.ts",
  },
  {
    name: "expired-token-accepted",
    breaks: "An expired token is rejected, also if it was accepted before (specification 2)",
    file: "src/tokens/oauth/verified-tokens.ts",
    find: "if (nowMs >= entry.expiresAt) {",
    replace: "if (nowMs >= 2 * entry.expiresAt) {",
    caughtBy: "test/unit/tokens/oauth/verify-access-token.test.ts",
  },
  {
    name: "other-certificate-accepted",
    breaks: "A token is bound to its client's certificate (specification 5.1, RFC 8705)",
    file: "src/tokens/guards/authentication.ts",
    find: "if (certificate === undefined || !isSame(certificateThumbprint, certificate.x5t)) {",
    replace: 'if (certificate === undefined || isSame(certificateThumbprint, "")) {',
    caughtBy: "test/unit/tokens/guards/authentication.test.ts",
  },

  // Scopes and the edge.
  {
    name: "one-of-several-scopes-suffices",
    breaks: "A request outside the token's scopes gets 403 (specification 5.3)",
    file: "src/tokens/guards/authentication.ts",
    find: "const violation = required.every((scope) => granted.has(scope))",
    replace: "const violation = required.some((scope) => granted.has(scope))",
    caughtBy: "test/unit/tokens/guards/authentication.test.ts",
  },
  {
    name: "edge-checks-no-scope",
    breaks: "Scopes are checked at the edge, before the data plane (specification 5.3)",
    file: "src/edge/gateway.ts",
    find: "config: { scopes, ...(regions",
    replace: "config: { scopes: scopes.slice(1), ...(regions",
    caughtBy: "test/promises/scopes.test.ts",
  },
  {
    name: "missing-permission-not-named",
    breaks: "SCOPE_VIOLATION names the missing permission (specification 7)",
    file: "src/http/bearer-errors.ts",
    find: '      missing_permission: missing.join(" "),\n',
    replace: "",
    caughtBy: "test/unit/tokens/guards/authentication.test.ts",
  },
  {
    name: "forged-identity-forwarded",
    breaks: "Upstreams get the caller's identity from the edge alone (docs/edge.md)",
    file: "src/edge/headers.ts",
    find: '  "x-signet-",\n',
    replace: "",
    caughtBy: "test/unit/edge/headers.test.ts",
  },
  {
    name: "chunked-body-without-limit",
    breaks: "A body has a limit, with a declared length or without (CONTRIBUTING)",
    file: "src/edge/request-checks.ts",
    find: "done(seen > limit ? tooLarge(limit) : null, chunk);",
    replace: "done(seen > Number.MAX_SAFE_INTEGER ? tooLarge(limit) : null, chunk);",
    caughtBy: "test/unit/edge/request-checks.test.ts",
  },
  {
    name: "pipelined-requests-without-pace",
    breaks: "A client without a credential cannot exhaust a process (changelog 0.3.0)",
    file: "src/runtime/pipelined-requests.ts",
    find: "setTimeout(() => this.#next(), PACE_MS);",
    replace: "setTimeout(() => this.#next(), PACE_MS / 100);",
    caughtBy: "test/unit/runtime/pipelined-requests.test.ts",
  },
  {
    name: "right-token-locked-out",
    breaks: "A valid credential is never rejected for others' failures (changelog 0.3.0)",
    file: "src/http/rate-limits/failure-limiter.ts",
    find: "    return isBeyond ? await this.#gate.run(key, check) : await check();",
    replace: `    if (isBeyond) {
      throw rateLimited(this.#options.limit, LONGEST_WAIT_MS, this.#options.detail);
    }
    return await this.#gate.run(key, check);`,
    caughtBy: "test/unit/http/rate-limits/rate-limits.test.ts",
  },

  // Revocation.
  {
    name: "revoked-credential-admitted",
    breaks: "A revoked credential's tokens end (specification 4)",
    file: "src/revocation/deny-list.ts",
    find: "this.#credentials.has(token.credentialId) ||",
    replace: "this.#credentials.has(token.principalId) ||",
    caughtBy: "test/unit/revocation/view.test.ts",
  },
  {
    name: "cached-token-outlives-revocation",
    breaks: "A revocation also ends tokens that were accepted before (specification 5.5)",
    file: "src/tokens/oauth/token-admission.ts",
    find: 'knowledge.view.verdict(identity) !== "admit") {',
    replace: 'knowledge.view.verdict(identity) === "stale") {',
    caughtBy: "test/promises/revocation.test.ts",
  },
  {
    name: "lease-expiry-ignored",
    breaks: "An edge that may have missed a revocation admits nobody (specification 8: 250 ms)",
    file: "src/revocation/view.ts",
    find: 'return this.#holds() ? "admit" : "stale";',
    replace: 'return this.#lease.ageMs() < Infinity ? "admit" : "stale";',
    caughtBy: "test/unit/revocation/view.test.ts",
  },
];
