/** The error that each service of docker-compose.yml reports without one of its settings. */
type Reasons = Readonly<Record<"migrate" | "api" | "edge" | "worker", Readonly<Record<string, RegExp>>>>;

const PAIR = /TEMPORAL_TLS_CLIENT_CERT_PATH and .* must be set together/;
const PRODUCTION = {
  SIGNET_PUBLIC_URL: /SIGNET_PUBLIC_URL must be set in production/,
  SIGNET_DATABASE_URL: /SIGNET_DATABASE_URL must be set in production/,
} as const;
const SERVICE = {
  ...PRODUCTION,
  TEMPORAL_ADDRESS: /TEMPORAL_ADDRESS must be set in production/,
  SIGNET_PEPPER_FILE: /SIGNET_PEPPER must be set in production/,
  SIGNET_KEK_FILE: /SIGNET_KEK, SIGNET_KEK_FILE or SIGNET_KEK_KMS must be set in production/,
  TEMPORAL_TLS_CLIENT_CERT_PATH: PAIR,
  TEMPORAL_TLS_CLIENT_KEY_PATH: PAIR,
} as const;

/** Errors of the configuration when a setting is missing. */
export const REFUSED: Reasons = {
  migrate: SERVICE,
  api: SERVICE,
  worker: SERVICE,
  edge: {
    SIGNET_PUBLIC_URL: PRODUCTION.SIGNET_PUBLIC_URL,
    SIGNET_EDGE_DATABASE_URL: PRODUCTION.SIGNET_DATABASE_URL,
    SIGNET_EDGE_API_URL: /SIGNET_EDGE_API_URL or SIGNET_EDGE_ROUTES must be set/,
    SIGNET_EDGE_API_CA_FILE: /with https needs SIGNET_EDGE_API_CA_FILE/,
    SIGNET_EDGE_API_NAMES: /with https needs .*SIGNET_EDGE_API_NAMES/,
    SIGNET_EDGE_KEY_FILE: /with https needs .*SIGNET_EDGE_KEY_FILE/,
    SIGNET_EDGE_CERT_FILE: /with https needs .*SIGNET_EDGE_CERT_FILE/,
  },
};

/** Errors at start-up when a setting is missing that the configuration does not require. */
export const MISSED: Reasons = {
  migrate: {
    // Without it, migrate does not create the edge's login.
    SIGNET_EDGE_DATABASE_URL: /edge ended:.*password authentication failed/s,
    SIGNET_DATABASE_ADMIN_URL: /migrate ended:.*password authentication failed/s,
    SIGNET_DATABASE_CA_FILE: /migrate ended:.*no encryption/s,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: /migrate ended:.*(UNAVAILABLE|Failed to connect)/s,
  },
  api: {
    SIGNET_DATABASE_CA_FILE: /no encryption/,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: /api is not ready:.*temporal/s,
    SIGNET_OPERATOR_TOKEN_FILE: /SIGNET_OPERATOR_TOKEN must be set/,
    SIGNET_METRICS_LISTEN: /api:9464 cannot be reached/,
    SIGNET_EDGE_LISTEN: /api:8443 cannot be reached/,
    SIGNET_TLS_KEY_FILE: /SIGNET_MTLS_MODE=proxy needs .*SIGNET_TLS_KEY_FILE/,
    SIGNET_TLS_CERT_FILE: /SIGNET_MTLS_MODE=proxy needs .*SIGNET_TLS_CERT_FILE/,
    SIGNET_CLIENT_CA_FILE: /SIGNET_CLIENT_CA_FILE must be set/,
    SIGNET_MTLS_MODE: /the issuer is undefined/,
    SIGNET_PROXY_CA_FILE: /SIGNET_MTLS_MODE=proxy needs .*SIGNET_PROXY_CA_FILE/,
    SIGNET_PROXY_NAMES: /SIGNET_MTLS_MODE=proxy needs .*SIGNET_PROXY_NAMES/,
    SIGNET_TRUSTED_PROXIES: /SIGNET_MTLS_MODE=proxy needs .*SIGNET_TRUSTED_PROXIES/,
  },
  edge: {
    SIGNET_DATABASE_CA_FILE: /no encryption/,
    SIGNET_METRICS_LISTEN: /edge:9464 cannot be reached/,
    SIGNET_EDGE_LISTEN: /edge:8443 cannot be reached/,
    SIGNET_TLS_KEY_FILE: /SIGNET_TLS_KEY_FILE must be set/,
    SIGNET_TLS_CERT_FILE: /SIGNET_TLS_CERT_FILE must be set/,
    SIGNET_CLIENT_CA_FILE: /SIGNET_CLIENT_CA_FILE must be set/,
  },
  worker: {
    SIGNET_DATABASE_CA_FILE: /no encryption/,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: /worker is not ready:.*Temporal cannot be/s,
    SIGNET_METRICS_LISTEN: /worker:9464 cannot be reached/,
    SIGNET_CHECKPOINT_KEY_FILE: /SIGNET_CHECKPOINT_KEY or SIGNET_CHECKPOINT_KEY_FILE must be set/,
    SIGNET_CHECKPOINT_DIR: /SIGNET_CHECKPOINT_DIR|\.signet\/checkpoints/,
  },
};

/** Settings that may be omitted, and those that `migrate` only shares with the other services. */
export const OPTIONAL: readonly string[] = [
  "SIGNET_ALLOWED_TARGET_CIDRS",
  "SIGNET_DENIED_TARGET_CIDRS",
  "SIGNET_OUTBOUND_PROXY",
  "SIGNET_LOG_LEVEL",
  // Without a second cell.
  "SIGNET_CELLS",
  "SIGNET_CELL",
  "SIGNET_HOME_DATABASE_URL",
  // Without edges behind hubs.
  "SIGNET_LEASE_KEY_FILE",
];
export const NOT_OF_MIGRATE: readonly string[] = ["SIGNET_METRICS_LISTEN"];
