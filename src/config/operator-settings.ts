/** Settings of the operators' API: who may use it, and how it is served. */
import { resolve } from "node:path";
import { oneOf, setting, text, url } from "./setting.ts";

export const OPERATOR_SETTINGS = {
  operatorToken: setting(
    "SIGNET_OPERATOR_TOKEN",
    text,
    undefined,
    "Bearer token of the bootstrap operator, who has every permission, 32 characters or more; development generates one in `.signet/operator-token`. Command line: the token to use",
  ),
  operatorTokenFile: setting(
    "SIGNET_OPERATOR_TOKEN_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_OPERATOR_TOKEN",
  ),
  bootstrapOperator: setting(
    "SIGNET_BOOTSTRAP_OPERATOR",
    oneOf("on", "off"),
    "on",
    "`off`: `SIGNET_OPERATOR_TOKEN` is rejected; requires an operator of role `security` who can sign in",
  ),
  adminTlsKeyFile: setting(
    "SIGNET_ADMIN_TLS_KEY_FILE",
    resolve,
    undefined,
    "private key of the operators' listener, PEM; with the next two settings, the listener uses TLS and accepts operators' certificates",
  ),
  adminTlsCertFile: setting(
    "SIGNET_ADMIN_TLS_CERT_FILE",
    resolve,
    undefined,
    "its certificate, followed by the intermediate certificates",
  ),
  adminTlsClientCaFile: setting(
    "SIGNET_ADMIN_TLS_CLIENT_CA_FILE",
    resolve,
    undefined,
    "root certificates of the CAs that issue operators' certificates, PEM",
  ),
  adminUrl: setting(
    "SIGNET_ADMIN_URL",
    url("https:", "http:"),
    undefined,
    "command line: URL of the operators' API; default: http:// and SIGNET_ADMIN_LISTEN",
  ),
  operatorKeyFile: setting(
    "SIGNET_OPERATOR_KEY_FILE",
    resolve,
    undefined,
    "command line: private key of the operator's certificate, PEM",
  ),
  operatorCertFile: setting(
    "SIGNET_OPERATOR_CERT_FILE",
    resolve,
    undefined,
    "command line: the operator's certificate; replaces a token",
  ),
  adminCaFile: setting(
    "SIGNET_ADMIN_CA_FILE",
    resolve,
    undefined,
    "command line: root certificates for the operators' TLS listener; default: the system's",
  ),
} as const;
