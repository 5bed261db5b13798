#!/bin/sh
# The one-shot service `init` of docker-compose.yml. It makes the keys and certificates that are missing and leaves those
# that are there; run again, it renews certificates in their last 30 days.
#
#   init.sh                    what the services need
#   init.sh ca                 prints the CA's certificate
#   init.sh client NAME        prints a key and a certificate for a client, spiffe://signet.compose/client/NAME
set -eu
umask 077

# What the world is told about whoever trusts this CA: its key lies in a volume of this machine.
authority="O=Signet compose - made on this machine - do not trust elsewhere/CN=Signet compose CA"
days_ca=3650
days_leaf=397
ca="$SIGNET_INIT_CA" keys="$SIGNET_INIT_KEYS" api="$SIGNET_INIT_API" edge="$SIGNET_INIT_EDGE" worker="$SIGNET_INIT_WORKER"

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
printf '[req]\ndistinguished_name=name\n[name]\n' > "$work/openssl.cnf"
new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -config $work/openssl.cnf"

# put FILE: what comes in, whole or not at all.
put() {
  cat > "$1.new"
  [ -s "$1.new" ]
  mv "$1.new" "$1"
}

make_authority() {
  [ -s "$ca/ca.crt" ] && return
  # shellcheck disable=SC2086
  openssl req -x509 $new_key -keyout "$work/ca.key" -out "$work/ca.crt" -days "$days_ca" -subj "/$authority" \
    -addext basicConstraints=critical,CA:TRUE,pathlen:0 -addext keyUsage=critical,keyCertSign,cRLSign \
    -addext subjectKeyIdentifier=hash 2> "$work/log" || { cat "$work/log" >&2; exit 1; }
  put "$ca/ca.key" < "$work/ca.key"
  put "$ca/ca.crt" < "$work/ca.crt"
  echo "init: made a CA for this machine alone: $authority" >&2
}

# issue NAME PURPOSE ALTERNATIVE_NAMES: leaf.key and leaf.crt in the work directory.
issue() {
  printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=%s\n' \
    "$2" "$3" > "$work/extensions"
  # shellcheck disable=SC2086
  openssl req $new_key -keyout "$work/leaf.key" -out "$work/leaf.csr" -subj "/CN=$1" 2> "$work/log" \
    && openssl x509 -req -in "$work/leaf.csr" -out "$work/leaf.crt" -days "$days_leaf" -extfile "$work/extensions" \
      -CA "$ca/ca.crt" -CAkey "$ca/ca.key" -set_serial "0x7$(openssl rand -hex 15)" 2>> "$work/log" \
    || { cat "$work/log" >&2; exit 1; }
}

# keep FILE PURPOSE ALTERNATIVE_NAMES: FILE.key and FILE.crt, new ones if there are none or if they end soon.
keep() {
  [ -s "$1.crt" ] && openssl x509 -in "$1.crt" -noout -checkend 2592000 > /dev/null && return
  issue "$(basename "$1")" "$2" "$3"
  put "$1.key" < "$work/leaf.key"
  put "$1.crt" < "$work/leaf.crt"
}

make_certificates() {
  keep "$api/server" serverAuth "DNS:api,DNS:localhost,IP:127.0.0.1,IP:::1"
  keep "$edge/server" serverAuth "DNS:localhost,DNS:edge,IP:127.0.0.1,IP:::1"
  # What the api knows its edge by; a client's name has /client/ in it.
  keep "$edge/edge" clientAuth "URI:spiffe://signet.compose/edge"
  for trusted in "$api/clients-ca" "$api/proxies-ca" "$edge/clients-ca" "$edge/api-ca"; do
    [ -s "$trusted.crt" ] || put "$trusted.crt" < "$ca/ca.crt"
  done
}

make_services() {
  make_authority
  make_certificates
  # Given in .env they are taken over: a set-up of an earlier version had them there.
  [ -s "$keys/pepper" ] || printf '%s\n' "${SIGNET_PEPPER:-$(openssl rand -base64 32)}" | put "$keys/pepper"
  [ -s "$keys/kek" ] || printf '%s\n' "${SIGNET_KEK:-$(openssl rand -base64 32)}" | put "$keys/kek"
  [ -s "$api/operator-token" ] ||
    printf '%s\n' "${SIGNET_OPERATOR_TOKEN:-$(openssl rand -hex 32)}" | put "$api/operator-token"
  [ -s "$worker/checkpoint-key" ] ||
    printf '%s\n' "${SIGNET_CHECKPOINT_KEY:-$(openssl rand -base64 32)}" | put "$worker/checkpoint-key"
  # The user of the image; its processes have no capability to read what is somebody else's.
  if [ "$(id -u)" = 0 ]; then
    chown -R 1000:1000 "$keys" "$api" "$edge" "$worker"
  fi
}

case "${1-}" in
  '') make_services ;;
  ca) make_authority; cat "$ca/ca.crt" ;;
  client)
    case "${2-}" in
      '' | *[!a-z0-9-]*) echo "init: a client's name is lower-case letters, digits and hyphens" >&2; exit 2 ;;
    esac
    make_authority
    issue "$2" clientAuth "URI:spiffe://signet.compose/client/$2"
    cat "$work/leaf.key" "$work/leaf.crt"
    ;;
  *) echo "init: unknown word $1" >&2; exit 2 ;;
esac
