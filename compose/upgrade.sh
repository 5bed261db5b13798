#!/bin/sh
# Puts the settings of .env and the image of this clone (or SIGNET_IMAGE) into a running stack without a pause:
#
#   sh compose/upgrade.sh [--profile NAME …]
#
# It checks and migrates beside the running stack first: a wrong line in .env changes nothing and is named. Then it replaces
# one process after the other, waits until it is ready, and stops at the first that is not. The other one of its pair serves.
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
# each COMMAND SERVICE …: runs the command with each of these services that the profiles have.
each() {
  action=$1
  shift
  for service in "$@"; do
    case "$services" in *" $service "*) "$action" "$service" ;; esac
  done
}
job() { compose run --rm --no-deps --no-TTY "$@" < /dev/null; }
# shellcheck disable=SC2329
check() {
  say "checking $1"
  case "$1" in
    worker*) job "$1" doctor --replay 100 ;;
    *) job "$1" doctor ;;
  esac
}
# shellcheck disable=SC2329
migrate() {
  say "$1"
  job "$1"
}
# shellcheck disable=SC2329
begin() { [ -n "$(compose ps --quiet "$1")" ] || compose up --detach --no-deps "$1"; }
# shellcheck disable=SC2329
replace() {
  say "replacing $1"
  compose up --detach --no-deps --wait "$1"
}

if [ -n "${SIGNET_IMAGE-}" ] || grep -q '^SIGNET_IMAGE=.' .env; then
  compose pull --quiet api
else
  say "building the image"
  compose build --quiet migrate
fi
each migrate init init-us
say "checking TEMPORAL_DATABASE_PASSWORD"
job temporal-indexes-back psql --no-psqlrc --quiet --tuples-only --dbname postgres --command ''  > /dev/null
each check worker worker-us api api-us edge hub-a remote-edge
each migrate migrate migrate-us
# What a version before 0.4.0 has not. Its edge shares no port, so the second one waits for the port.
each begin api-b edge-b
each replace worker worker-us api-b api api-us hub-a hub-b edge edge-b remote-edge
# The rest: PostgreSQL, Temporal, monitoring. Without a change it does nothing.
compose up --detach --wait
say "done"
