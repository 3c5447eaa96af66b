#!/usr/bin/env bash
# Makes the certificates of the tests, valid for a hundred years: an authority `ca`, of which are a server "localhost",
# its successor `renewed`, a client, and a client whose time is over; and another authority, of which is `stranger`.
set -euo pipefail
cd "$(dirname "$0")"

authority() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=$2" -keyout "$1.key" -out "$1.pem"
}

certificate() { # name, authority, days
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "$3" -out "$1.pem" \
        -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")
}

authority ca "schedulerd tests"
authority other-ca "somebody else"
for name in server renewed client; do
    certificate "$name" ca 36500
done
certificate expired ca -1
certificate stranger other-ca 36500
rm -f -- *.csr *.srl ca.key other-ca.key
