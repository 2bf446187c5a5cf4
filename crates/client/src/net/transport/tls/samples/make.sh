#!/bin/sh
# Makes the samples of keys and key stores that the tests of this module read, with OpenSSL 3 and keytool. All passwords are
# "changeit"; the certificates are for nobody and expire in 2126.
set -eu
cd "$(dirname "$0")"
rm -f ./*.pem ./*.p12 ./*.jks
export PASS=changeit
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout plain.pem -out certificate.pem -days 36500 \
    -subj /CN=sample -addext subjectAltName=DNS:sample.example 2>/dev/null
encrypt() { openssl pkcs8 -topk8 -in plain.pem -passout env:PASS "$@"; }
encrypt -v2 aes-256-cbc -v2prf hmacWithSHA256 -out pbes2-aes256.pem
encrypt -v2 aes-128-cbc -v2prf hmacWithSHA512 -iter 1000 -out pbes2-aes128.pem
encrypt -v2 des3 -v2prf hmacWithSHA1 -out pbes2-des3.pem
encrypt -v1 PBE-SHA1-3DES -out pbe-sha1-3des.pem
encrypt -v1 PBE-SHA1-RC2-40 -provider legacy -provider default -out pbe-sha1-rc2.pem
encrypt -v1 PBE-MD5-DES -provider legacy -provider default -out pbe-md5-des.pem
encrypt -scrypt -out scrypt.pem
openssl ec -in plain.pem -aes256 -passout env:PASS -out header-aes256.pem 2>/dev/null
openssl ec -in plain.pem -des3 -passout env:PASS -out header-des3.pem 2>/dev/null
openssl ec -in plain.pem -out sec1.pem 2>/dev/null
store() { openssl pkcs12 -export -inkey plain.pem -in certificate.pem -name sample -passout env:PASS "$@"; }
store -out modern.p12
store -legacy -out legacy.p12
store -keypbe NONE -certpbe NONE -nomac -out open.p12
openssl pkcs12 -export -nokeys -in certificate.pem -passout env:PASS -out trust-openssl.p12
keytool -importcert -noprompt -alias ca -file certificate.pem -keystore trust-java.p12 -storetype PKCS12 -storepass "$PASS" \
    2>/dev/null
keytool -genkeypair -alias own -keyalg EC -groupname secp256r1 -dname CN=sample -validity 36500 -keystore java.p12 \
    -storetype PKCS12 -storepass "$PASS" 2>/dev/null
keytool -importkeystore -srckeystore java.p12 -srcstorepass "$PASS" -destkeystore java.jks -deststoretype JKS \
    -deststorepass "$PASS" -destkeypass "$PASS" 2>/dev/null
