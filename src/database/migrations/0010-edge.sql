-- The edge checks tokens by itself: it sees the public halves of the signing keys and their times, and nothing else of
-- them. Changes reach it as they reach everybody (signet_signing_keys, migration 0006).
GRANT SELECT (kid, alg, public_jwk, state, activated_at, retired_at, revoked_at) ON signing_keys TO signet_edge;
