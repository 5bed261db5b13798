-- Retries without a workflow are claimed in turns of their tenants.
CREATE INDEX deliveries_uncarried_of_tenant ON deliveries (tenant_id, next_attempt_at)
  WHERE carrier IS NULL AND state = 'RETRYING';
DROP INDEX deliveries_uncarried;
