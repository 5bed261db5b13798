/** The operators' listener over real TLS, which accepts certificates of the test's own authority. */
import { afterAll } from "vitest";
import { useTestApi } from "./api.ts";
import { certificateFiles, newRoot, serverPair } from "./certificates.ts";
import { call, type CallOptions } from "./https-request.ts";

/** Provides one to the calling file. Its directory also holds other files of the test, and is removed afterwards. */
export async function useTlsAdmin() {
  const root = await newRoot();
  const server = await serverPair(root);
  const files = certificateFiles();
  const api = useTestApi({
    environment: {
      SIGNET_ADMIN_TLS_KEY_FILE: files.write("server.key", server.key),
      SIGNET_ADMIN_TLS_CERT_FILE: files.write("server.crt", server.cert),
      SIGNET_ADMIN_TLS_CLIENT_CA_FILE: files.write("operators.crt", root.cert),
    },
  });
  afterAll(() => files.remove());
  return {
    api,
    root,
    files,
    /** Sends a request to the operators' API with the options' credentials. */
    ask: async (path: string, options: CallOptions = {}) =>
      await call(`/admin/v1${path}`, { port: api.adminPort, ca: root.cert, ...options }),
    /** Returns the options of a request by the bootstrap operator. */
    asBootstrap: (json: unknown): CallOptions => ({
      json,
      headers: { authorization: `Bearer ${api.operatorToken}` },
    }),
  };
}
