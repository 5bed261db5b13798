/** Inserts the rows of a large deployment, as superuser: 10,000 tenants, 100,000 endpoints, 120,000 deliveries of today. */

const ROWS: readonly string[] = [
  "SELECT ensure_day_partitions((now() - interval '29 days')::date, 31)",
  `INSERT INTO tenants (id, name, region, data_key, created_at)
    SELECT 'ten_' || lpad(n::text, 24, '0'), 'Tenant ' || n, 'eu', 'key', now() FROM generate_series(1, 10000) n`,
  `INSERT INTO endpoints (id, tenant_id, url, event_types, state, disabled_reason, verification_state,
      verification_requested_at, created_at, updated_at, authentication)
    SELECT 'ep_' || lpad(n::text, 24, '0'), 'ten_' || lpad((n % 10000 + 1)::text, 24, '0'),
      'https://receiver-' || n || '.example/hooks', '{*}', CASE WHEN n % 500 = 0 THEN 'DISABLED' ELSE 'ACTIVE' END,
      CASE WHEN n % 500 = 0 THEN 'failing' END, 'VERIFIED', now(), now(), now(),
      CASE WHEN n % 1000 = 0 THEN '{"type":"client_certificate","not_after":"2020-01-01T00:00:00.000Z"}' END
    FROM generate_series(1, 100000) n`,
  `INSERT INTO endpoint_activity (endpoint_id, tenant_id, health, health_since, results, retrying, dead)
    SELECT id, tenant_id, CASE WHEN right(id, 5)::int % 33 = 1 THEN 'failing' ELSE 'healthy' END, now(), '', 0, 0
    FROM endpoints WHERE url LIKE 'https://receiver-%'`,
  `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, carrier, claimed_at,
      next_attempt_at, created_at)
    SELECT (now() AT TIME ZONE 'UTC')::date, 'dlv_' || lpad(n::text, 24, '0'),
      'ten_' || lpad((n % 2000 + 1)::text, 24, '0'), 'evt_' || n, 'order.paid', 'ep_' || lpad('1', 24, '0'),
      CASE WHEN n % 3 = 0 THEN 'RETRYING' WHEN n % 3 = 1 THEN 'QUEUED' ELSE 'DELIVERED' END,
      CASE WHEN n % 3 = 0 THEN 'dlv_' || n END, now(), now() - interval '1 min', now()
    FROM generate_series(1, 120000) n`,
  "VACUUM (ANALYZE)",
];

/** Inserts the rows. A third of the deliveries wait for a worker, a third are overdue, a third are delivered. */
export async function seedDeployment(query: (text: string) => Promise<unknown>): Promise<void> {
  for (const text of ROWS) {
    await query(text);
  }
}
