#!/bin/sh
# The one-shot service `init` of docker-compose.yml. It creates missing keys and certificates, and renews certificates
# within 30 days of expiry. It leaves all others unchanged.
#
#   init.sh                    creates what the services need
#   init.sh ca                 prints the CA's certificate
#   init.sh client NAME        prints a key and a certificate for a client, spiffe://signet.compose/client/NAME
#   init.sh internal-ca        prints the certificate of the CA behind PostgreSQL and Temporal
#   init.sh temporal NAME      prints a key and a certificate for Temporal's own command line
#
# Files and certificates have the form of `signet dev-ca` (src/http/mutual-tls/dev-ca.ts), and each continues a directory of the
# other. Production does not trust that one's CA, hence another name here.
#
# With SIGNET_INIT_CELL=us it creates what that cell needs, for services such as postgres-us. Only the authorities are
# those of the home cell.
#
# There are two authorities, because a certificate of the internal one gives full control of Temporal. Clients of the
# service get theirs from the other.
set -eu
umask 077

# Warns anyone who would trust this CA elsewhere: its key is in a volume on this machine.
organisation="O=Signet compose - made on this machine - do not trust elsewhere"
days_ca=3650
days_leaf=397
# The names of a cell's services end with this.
of="${SIGNET_INIT_CELL:+-$SIGNET_INIT_CELL}"
ca="$SIGNET_INIT_CA" keys="$SIGNET_INIT_KEYS" api="$SIGNET_INIT_API" edge="$SIGNET_INIT_EDGE" worker="$SIGNET_INIT_WORKER"
hub="$SIGNET_INIT_HUB" lease="$SIGNET_INIT_LEASE" config="$SIGNET_INIT_CONFIG" initdb="$SIGNET_INIT_INITDB"
target_ca="${SIGNET_INIT_TARGET_CA:-}"
trust="$SIGNET_INIT_TRUST" postgres="$SIGNET_INIT_POSTGRES" temporal="$SIGNET_INIT_TEMPORAL" ui="$SIGNET_INIT_TEMPORAL_UI"

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
printf '[req]\ndistinguished_name=name\n[name]\n' > "$work/openssl.cnf"
new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config $work/openssl.cnf"

# put FILE: writes stdin to FILE atomically; fails if stdin is empty.
put() {
  cat > "$1.new"
  [ -s "$1.new" ]
  mv "$1.new" "$1"
}

# make_authority FILE NAME: creates FILE.key and FILE.crt in the CA's directory, if missing.
make_authority() {
  [ -s "$ca/$1.crt" ] && return
  # shellcheck disable=SC2086
  openssl req -x509 $new_key -keyout "$work/ca.key" -out "$work/ca.crt" -days "$days_ca" -subj "/CN=$2/$organisation" \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign \
    -addext subjectKeyIdentifier=hash -addext authorityKeyIdentifier=keyid:always 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
  put "$ca/$1.key" < "$work/ca.key"
  put "$ca/$1.crt" < "$work/ca.crt"
  echo "init: created a CA for this machine only: CN=$2/$organisation" >&2
}

make_authorities() {
  make_authority ca "Signet compose CA"
  make_authority internal "Signet compose internal CA"
}

# issue AUTHORITY NAME PURPOSE ALTERNATIVE_NAMES: creates leaf.key and leaf.crt in the work directory.
issue() {
  printf '%s\n' basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature subjectKeyIdentifier=hash \
    authorityKeyIdentifier=keyid:always "extendedKeyUsage=$3" "subjectAltName=$4" > "$work/extensions"
  # shellcheck disable=SC2086
  openssl req $new_key -keyout "$work/leaf.key" -out "$work/leaf.csr" -subj "/CN=$2" 2> "$work/log" \
    && openssl x509 -req -in "$work/leaf.csr" -out "$work/leaf.crt" -days "$days_leaf" -extfile "$work/extensions" \
      -CA "$ca/$1.crt" -CAkey "$ca/$1.key" -set_serial "0x7$(openssl rand -hex 15)" 2>> "$work/log" \
    || { cat "$work/log" >&2; exit 1; }
}

# keep AUTHORITY FILE PURPOSE ALTERNATIVE_NAMES: creates FILE.key and FILE.crt, if missing or within 30 days of expiry.
keep() {
  [ -s "$2.crt" ] && openssl x509 -in "$2.crt" -noout -checkend 2592000 > /dev/null && return
  issue "$1" "$(basename "$2")" "$3" "$4"
  put "$2.key" < "$work/leaf.key"
  put "$2.crt" < "$work/leaf.crt"
}

# keep_authority FILE: creates FILE.crt, which clients' certificates are verified with, if missing.
keep_authority() {
  [ -s "$1.crt" ] || put "$1.crt" < "$ca/ca.crt"
}

# own USER DIRECTORIES: the images' users must own their files, because their processes cannot read those of others.
own() {
  [ "$(id -u)" != 0 ] || chown -R "$@"
}

local="DNS:localhost,IP:127.0.0.1,IP:::1"

# What every cell has.
make_cell() {
  keep ca "$api/server" serverAuth "DNS:api$of,$local"
  keep internal "$postgres/server" serverAuth "DNS:postgres$of,$local"
  # Temporal's services also present their server certificate as clients of each other.
  keep internal "$temporal/server" serverAuth,clientAuth "DNS:temporal$of,$local"
  keep internal "$keys/temporal" clientAuth "URI:spiffe://signet.compose/temporal/signet$of"
  keep_authority "$api/clients-ca"
  # Takes values from .env if set: earlier versions kept the keys there.
  [ -s "$keys/pepper" ] || printf '%s\n' "${SIGNET_PEPPER:-$(openssl rand -base64 32)}" | put "$keys/pepper"
  [ -s "$keys/kek" ] || printf '%s\n' "${SIGNET_KEK:-$(openssl rand -base64 32)}" | put "$keys/kek"
  [ -s "$api/operator-token" ] ||
    printf '%s\n' "${SIGNET_OPERATOR_TOKEN:-$(openssl rand -hex 32)}" | put "$api/operator-token"
  [ -s "$worker/checkpoint-key" ] ||
    printf '%s\n' "${SIGNET_CHECKPOINT_KEY:-$(openssl rand -base64 32)}" | put "$worker/checkpoint-key"
  own 1000:1000 "$keys" "$api" "$worker" "$temporal"
  own 999:999 "$postgres"
}

# What only the home cell has: edges, hubs and Temporal's UI.
make_home() {
  keep ca "$edge/server" serverAuth "DNS:edge,$local"
  # The api and hubs identify an edge by this URI. Clients' URIs contain /client/.
  keep ca "$edge/edge" clientAuth "URI:spiffe://signet.compose/edge"
  keep ca "$hub/hub" serverAuth,clientAuth "URI:spiffe://signet.compose/hub"
  keep internal "$ui/temporal" clientAuth "URI:spiffe://signet.compose/temporal/ui"
  keep_authority "$api/proxies-ca"
  keep_authority "$edge/clients-ca"
  keep_authority "$edge/api-ca"
  keep_authority "$edge/hubs-ca"
  keep_authority "$hub/hubs-ca"
  [ -s "$lease/lease-key" ] || openssl rand -base64 32 | put "$lease/lease-key"
  own 1000:1000 "$api" "$edge" "$hub" "$lease" "$ui"
}

# Configuration that is no secret, readable by every user whatever its mode in the clone. Each run copies it again, because
# a new version may have changed it.
copy_configuration() {
  here=$(dirname "$0")
  (
    umask 022
    mkdir -p "$config/prometheus" "$config/grafana/datasources" "$config/grafana/dashboards"
    for file in pg_hba.conf temporal-dynamic-config.yaml prune-visibility-indexes.sql restore-visibility-indexes.sql \
      grafana/datasources/signet.yaml grafana/dashboards/signet.yaml; do
      put "$config/$file" < "$here/$file"
    done
    for file in prometheus/prometheus.yml prometheus/alerts.yml grafana/dashboard.json; do
      put "$config/$file" < "$here/../deploy/$file"
    done
    put "$initdb/temporal-login.sh" < "$here/initdb/temporal-login.sh"
  )
  # Without SIGNET_TARGET_CA_FILE, it is /dev/null.
  if [ -s "$target_ca" ]; then
    grep -q 'BEGIN CERTIFICATE' "$target_ca" || { echo "init: SIGNET_TARGET_CA_FILE has no certificate in PEM" >&2; exit 1; }
    put "$config/target-ca.crt" < "$target_ca"
    chmod 0644 "$config/target-ca.crt"
  fi
  chmod 0755 "$config" "$initdb"
}

make_services() {
  make_authorities
  # The CA certificate is public. Only its owner can read each other file.
  [ -s "$trust/internal-ca.crt" ] || put "$trust/internal-ca.crt" < "$ca/internal.crt"
  chmod 0755 "$trust"
  chmod 0644 "$trust/internal-ca.crt"
  make_cell
  [ -n "$of" ] || { make_home; copy_configuration; }
}

case "${1-}" in
  '') make_services ;;
  ca) make_authorities; cat "$ca/ca.crt" ;;
  internal-ca) make_authorities; cat "$ca/internal.crt" ;;
  client | temporal)
    case "${2-}" in
      '' | *[!a-z0-9-]*) echo "init: a client's name is limited to lower-case letters, digits and hyphens" >&2; exit 2 ;;
    esac
    make_authorities
    case "$1" in client) authority=ca ;; temporal) authority=internal ;; esac
    issue "$authority" "$2" clientAuth "URI:spiffe://signet.compose/$1/$2"
    cat "$work/leaf.key" "$work/leaf.crt"
    ;;
  *) echo "init: unknown command $1" >&2; exit 2 ;;
esac
