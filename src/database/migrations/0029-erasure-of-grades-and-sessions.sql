-- The erasure of a tenant goes through the tables that came after it: grades of receivers, and the portal's links and sessions.
GRANT DELETE ON endpoint_grades TO signet_worker;
CREATE POLICY worker_erases ON endpoint_grades AS RESTRICTIVE FOR DELETE TO signet_worker USING (is_erased(tenant_id));
GRANT SELECT (tenant_id, hash), DELETE ON portal_links, portal_sessions TO signet_worker;
CREATE POLICY worker_reads ON portal_links FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON portal_links FOR DELETE TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_reads ON portal_sessions FOR SELECT TO signet_worker USING (is_erased(tenant_id));
CREATE POLICY worker_erases ON portal_sessions FOR DELETE TO signet_worker USING (is_erased(tenant_id));
