#!/usr/bin/env bash
# Makes the certificates of the tests, valid for a hundred years: an authority `ca`, of which are a server "localhost",
# its successor `renewed`, a client, and a client whose time is over; and another authority, of which is `stranger`. Two
# have names that are to be told apart: `kinds` has each kind of name, and `confusing` those of others in places where they
# do not count, one of them with a zero byte behind it.
set -euo pipefail
cd "$(dirname "$0")"

authority() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=$2" -keyout "$1.key" -out "$1.pem"
}

certificate() { # name, authority, days, subject alternative names
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days "$3" -out "$1.pem" \
        -extfile <(echo "subjectAltName=${4:-DNS:localhost,IP:127.0.0.1}")
}

authority ca "schedulerd tests"
authority other-ca "somebody else"
for name in server renewed client; do
    certificate "$name" ca 36500
done
certificate expired ca -1
certificate stranger other-ca 36500
certificate kinds ca 36500 "URI:spiffe://cluster/shim,email:shim@example,DNS:shim.example,IP:10.0.0.1"
# DNS:client<0>, DNS:spiffe://cluster/shim, e-mail:client, URI:client
hex() { printf '%s' "$1" | od -An -tx1 | tr -d ' \n'; }
names="8207$(hex client)00"
names+="8215$(hex spiffe://cluster/shim)8106$(hex client)8606$(hex client)"
certificate confusing ca 36500 "DER:30$(printf '%02x' $((${#names} / 2)))$names"
rm -f -- *.csr *.srl ca.key other-ca.key
