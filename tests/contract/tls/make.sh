#!/usr/bin/env bash
# Makes the certificates of test_services.py: an authority, a server "localhost" and a client, valid for a hundred years.
set -euo pipefail
cd "$(dirname "$0")"
openssl req -x509 -newkey rsa:2048 -nodes -days 36500 -subj "/CN=schedulerd tests" -keyout ca.key -out ca.pem
for name in server client; do
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -out "$name.pem" \
        -extfile <(echo "subjectAltName=DNS:localhost,IP:127.0.0.1")
done
rm -f -- *.csr *.srl ca.key
