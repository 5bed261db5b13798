# PostgreSQL's image reads this when it creates the database. Temporal's separate login can create its databases and cannot
# read Signet's.
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username postgres --set=password="$TEMPORAL_DATABASE_PASSWORD" <<'SQL'
CREATE ROLE temporal LOGIN CREATEDB PASSWORD :'password'
SQL
