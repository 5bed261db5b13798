#!/bin/sh
# Puts the settings of .env and the image of this clone (or SIGNET_IMAGE) into a running stack without a pause:
#
#   sh compose/upgrade.sh [--profile NAME …]
#
# It checks and migrates beside the running stack first: a wrong line in .env changes nothing and is named. Then it replaces
# one process after the other, waits until it is ready, and stops at the first that is not. The other one of its pair serves:
# for the one process, `signet-b`, which it removes again. It also moves a stack from the parts apart (before 0.4.0, or
# compose/split.yml) to the one process, and back.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'upgrade: %s\n' "$*" >&2; }
profiles=
while [ "${1-}" = --profile ] && [ -n "${2-}" ]; do
  profiles="$profiles --profile $2"
  shift 2
done
[ $# = 0 ] || { sed -n '2,/^$/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 2; }

# shellcheck disable=SC2086
compose() { docker compose --progress quiet $profiles "$@"; }

compose config --quiet
services=" $(compose config --services | tr '\n' ' ')"
wanted() { case "$services" in *" $1 "*) ;; *) return 1 ;; esac; }
# each COMMAND SERVICE …: runs the command with each of these services that the profiles have.
each() {
  action=$1
  shift
  for service in "$@"; do
    if wanted "$service"; then "$action" "$service"; fi
  done
}
job() { compose run --rm --no-deps --no-TTY "$@" < /dev/null; }
# shellcheck disable=SC2329
check() {
  say "checking $1"
  case "$1" in
    signet | worker*) job "$1" doctor --replay 100 ;;
    *) job "$1" doctor ;;
  esac
}
# shellcheck disable=SC2329
migrate() {
  say "$1"
  job "$1"
}
runs() { [ -n "$(compose ps --quiet "$1")" ]; }
# shellcheck disable=SC2329
begin() { runs "$1" || compose up --detach --no-deps "$1"; }
# shellcheck disable=SC2329
replace() {
  say "replacing $1"
  compose up --detach --no-deps --wait "$1"
}
# Waits until `signet` opens its public port. An edge before 0.4.0 shares no port, and then `signet` waits for it there.
await_port() {
  for _ in $(seq 120); do
    ! compose exec --no-TTY signet node --eval 'fetch("http://127.0.0.1:8081/").catch(() => process.exit(1))' 2> /dev/null || return 0
    sleep 1
  done
  say "signet does not start: see its log"
  return 1
}
# Ends each of these services that runs, if it is not of this form.
remove() {
  for service in "$@"; do
    if ! wanted "$service" && runs "$service"; then
      say "removing $service"
      compose rm --stop --force "$service" > /dev/null
    fi
  done
}

if [ -n "${SIGNET_IMAGE-}" ] || grep -q '^SIGNET_IMAGE=.' .env; then
  compose pull --quiet migrate
else
  say "building the image"
  compose build --quiet migrate
fi
each migrate init init-us
say "checking TEMPORAL_DATABASE_PASSWORD"
job temporal-indexes-back psql --no-psqlrc --quiet --tuples-only --dbname postgres --command ''  > /dev/null
each check signet worker worker-us api api-us hub-a
# An edge must find its api by name. Where none runs yet, `signet` serves until the edges are ready.
if runs api; then each check edge remote-edge; fi
each migrate migrate migrate-us
# Workers first: a worker reads what older apis have written, but not the reverse.
if wanted worker || runs worker; then replace worker; fi
each replace worker-us
if wanted signet && runs signet; then replace signet-b; fi
each begin signet api-b edge-b
each replace api-b api api-us hub-a hub-b
if ! wanted edge && runs edge; then
  await_port
  remove edge-b edge
fi
each replace edge edge-b signet signet-b remote-edge
remove api-b api worker signet signet-b
# The rest: PostgreSQL, Temporal, monitoring. Without a change it does nothing.
compose up --detach --wait
say "done"
