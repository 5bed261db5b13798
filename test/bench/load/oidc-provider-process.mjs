/**
 * The baseline for the token benchmark: Node's oidc-provider with its in-memory adapter, client_secret_basic and ES256
 * JWT access tokens. Arguments: port, client id, client secret. Prints one line when it listens.
 */
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const [port, clientId, clientSecret] = process.argv.slice(2);
const jwk = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: clientId ?? "",
      client_secret: clientSecret ?? "",
      grant_types: ["client_credentials"],
      response_types: [],
      redirect_uris: [],
      token_endpoint_auth_method: "client_secret_basic",
      id_token_signed_response_alg: "ES256",
    },
  ],
  jwks: { keys: [{ ...jwk, kty: "EC", alg: "ES256", use: "sig", kid: "bench" }] },
  ttl: { ClientCredentials: 900 },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:bench",
      getResourceServerInfo: () => ({
        scope: "webhooks:read webhooks:write",
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => {
  process.stdout.write("listening\n");
});
