/** A long deny list. */
import type { Client } from "pg";

/**
 * Revokes as many tokens in one statement, as the owner. The chain of the lines goes on after them as if they had none,
 * like those before the chain existed.
 */
export async function fillRevocations(owner: Client, count: number): Promise<void> {
  await owner.query("ALTER TABLE revocations DISABLE TRIGGER USER");
  await owner.query(
    `WITH clock AS (
       UPDATE rev_clock SET seq = seq + $1::int WHERE id = 1 RETURNING seq - $1::int AS before
     )
     INSERT INTO revocations (seq, id, kind, target, actor, at, expires_at, log_index, leaf_hash)
     SELECT before + n, 'rev_' || before + n, 'jti', encode(substr(sha256(n::text::bytea), 1, 16), 'hex'), 'test', now(),
            now() + interval '20 minutes', 0, ''
       FROM clock, generate_series(1, $1::int) AS n`,
    [count],
  );
  await owner.query("ALTER TABLE revocations ENABLE TRIGGER USER");
}
