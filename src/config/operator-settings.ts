/** Who may use the operators' API, and how it is served. */
import { resolve } from "node:path";
import { oneOf, setting, text, url } from "./setting.ts";

export const OPERATOR_SETTINGS = {
  operatorToken: setting(
    "SIGNET_OPERATOR_TOKEN",
    text,
    undefined,
    "Bearer token of the bootstrap operator, who may do everything, 32 characters or more; development makes one in `.signet/operator-token`. For the command line: the token that it uses",
  ),
  operatorTokenFile: setting(
    "SIGNET_OPERATOR_TOKEN_FILE",
    resolve,
    undefined,
    "file that holds it, instead of SIGNET_OPERATOR_TOKEN",
  ),
  bootstrapOperator: setting(
    "SIGNET_BOOTSTRAP_OPERATOR",
    oneOf("on", "off"),
    "on",
    "`off`: `SIGNET_OPERATOR_TOKEN` opens nothing; needs an operator of role `security` who has a way in",
  ),
  adminTlsKeyFile: setting(
    "SIGNET_ADMIN_TLS_KEY_FILE",
    resolve,
    undefined,
    "private key of the operators' listener, PEM; with the next two it speaks TLS and takes operators' certificates",
  ),
  adminTlsCertFile: setting(
    "SIGNET_ADMIN_TLS_CERT_FILE",
    resolve,
    undefined,
    "its certificate, followed by those between it and the root",
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
    "command line: where the operators' API is; default: http:// and SIGNET_ADMIN_LISTEN",
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
    "command line: the operator's certificate; takes the place of a token",
  ),
  adminCaFile: setting(
    "SIGNET_ADMIN_CA_FILE",
    resolve,
    undefined,
    "command line: root certificates of the operators' listener, where it speaks TLS; default: the system's",
  ),
} as const;
