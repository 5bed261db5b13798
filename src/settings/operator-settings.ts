/** Who may use the operators' API, and how it is served. */
import { oneOf, setting, text } from "./setting.ts";

export const OPERATOR_SETTINGS = {
  operatorToken: setting(
    "SIGNET_OPERATOR_TOKEN",
    text,
    undefined,
    "Bearer token of the bootstrap operator, who may do everything, 32 characters or more; development makes one in `.signet/operator-token`. For the command line: the token that it uses",
  ),
  bootstrapOperator: setting(
    "SIGNET_BOOTSTRAP_OPERATOR",
    oneOf("on", "off"),
    "on",
    "`off`: `SIGNET_OPERATOR_TOKEN` opens nothing; needs an operator of role `security` who has a way in",
  ),
} as const;
