-- Finds pings that are overdue: the workflow of their verification may be gone.
CREATE INDEX endpoints_verifying ON endpoints (verification_next_attempt_at, id) WHERE verification_state = 'RUNNING' AND state = 'PENDING';
