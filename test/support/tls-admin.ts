/** The operators' listener over real TLS, which takes certificates of an authority of the test's own. */
import { afterAll } from "vitest";
import { useTestApi } from "./api.ts";
import { certificateFiles, newRoot, serverPair } from "./certificates.ts";
import { call, type CallOptions } from "./https-request.ts";

/** One for the file that calls this. The files are for what else a test writes, and gone after it. */
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
    /** Asks the operators' API, with whatever proof the options have. */
    ask: async (path: string, options: CallOptions = {}) =>
      await call(`/admin/v1${path}`, { port: api.adminPort, ca: root.cert, ...options }),
    /** The options of a request by the bootstrap operator. */
    asBootstrap: (json: unknown): CallOptions => ({
      json,
      headers: { authorization: `Bearer ${api.operatorToken}` },
    }),
  };
}
