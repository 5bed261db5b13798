/** A tenant's view of its credentials. */
import { SignetError } from "../../errors.ts";
import type { Pool } from "../../database/pool.ts";
import { findTenantCredential, listTenantCredentials } from "../../database/repositories/credentials.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdParams, Page, PageQuery } from "../schemas/common.ts";
import { Credential, presentCredential } from "../schemas/credentials.ts";
import type { SignetServer } from "../types.ts";

export function registerCredentialRoutes(server: SignetServer, pool: Pool): void {
  server.get(
    "/v1/credentials",
    {
      config: { scopes: ["credentials:read"] },
      schema: { tags: ["credentials"], querystring: Closed(PageQuery), response: { 200: Page(Credential) } },
    },
    async (request) => {
      const { tenantId } = request.identity;
      const page = readPage(request);
      const rows = await tenantTransaction(pool, tenantId, (client) =>
        listTenantCredentials(client, tenantId, page),
      );
      return toPage(rows.map(presentCredential), page);
    },
  );

  server.get(
    "/v1/credentials/:id",
    {
      config: { scopes: ["credentials:read"] },
      schema: { tags: ["credentials"], params: IdParams("credential"), response: { 200: Credential } },
    },
    async ({ identity: { tenantId }, params: { id } }) => {
      const row = await tenantTransaction(pool, tenantId, (client) =>
        findTenantCredential(client, tenantId, id),
      );
      if (row === undefined) {
        throw new SignetError("NOT_FOUND", { detail: "There is no such credential." });
      }
      return presentCredential(row);
    },
  );
}
