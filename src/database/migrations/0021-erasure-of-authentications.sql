-- What endpoints authenticate with goes with the tenant that is erased.
GRANT DELETE ON endpoint_authentications TO signet_worker;
CREATE POLICY worker_erases ON endpoint_authentications FOR DELETE TO signet_worker USING (is_erased(tenant_id));
