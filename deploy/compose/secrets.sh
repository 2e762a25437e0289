#!/usr/bin/env bash
# Makes the secrets of compose.yaml: an authority and its certificates, passwords, and the key of the
# first administrator. Only their owner may enter the folder. The files in it are readable, because the
# containers that get one of them run as other users.
#
#	deploy/compose/secrets.sh [FOLDER]
#
# The folder is deploy/compose/secrets unless named, and must not be there. It needs openssl, and
# budgetctl: bin/budgetctl, or what BUDGETCTL names, such as
#
#	BUDGETCTL='docker run --rm --entrypoint /usr/bin/budgetctl budgetd'
#
# SUBJECT_ALT_NAME has further names of the nodes for their callers, such as DNS:budgets.example.com.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -r -a budgetctl <<<"${BUDGETCTL:-$here/../../bin/budgetctl}"
folder=${1:-$here/secrets}
if [ -e "$folder" ]; then
	echo "$folder is there already" >&2
	exit 1
fi
"${budgetctl[@]}" keys generate >/dev/null # before anything is made
umask 022
mkdir -m 700 "$folder"
cd "$folder"

ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
openssl req -x509 "${ec[@]}" -days 3650 -subj '/CN=budgetd authority' -keyout ca.key -out ca.pem 2>ca.log
chmod 600 ca.key

# certificate NAME ALTERNATIVES makes NAME.pem and NAME.key.
certificate() {
	openssl req "${ec[@]}" -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>"$1.log"
	printf 'subjectAltName=%s\n' "$2" | openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key \
		-CAcreateserial -days 365 -extfile /dev/stdin -out "$1.pem" 2>>"$1.log"
	chmod 644 "$1.key"
	rm "$1.csr" "$1.log"
}
this=DNS:localhost,IP:127.0.0.1
certificate server "DNS:mariadb,DNS:redis-a,DNS:redis-b,DNS:redis-c,$this"
certificate node "DNS:budgetd-a,DNS:budgetd-b,$this${SUBJECT_ALT_NAME:+,$SUBJECT_ALT_NAME}"
certificate prometheus DNS:prometheus
rm -f ca.log ca.srl

for name in mariadb-root-password mariadb-password redis-password grafana-password; do
	openssl rand -hex 24 >"$name"
done
printf 'budgetd:%s@tcp(mariadb:3306)/budgetd\n' "$(<mariadb-password)" >dsn
# The second user may do what docs/OPERATIONS.md lists, the default one only be asked whether it is there.
cat >redis-users <<END
user default on nopass resetkeys resetchannels -@all +ping
user budgetd on >$(<redis-password) ~budgetd:* &* -@all +evalsha +eval +hget +hmget +hset +hdel +hlen +hscan +sadd +srem +scard +sismember +sscan +unlink +type +time +info +hello +client|setname +select +config|get
END
"${budgetctl[@]}" keys generate >first-key
echo "made in $folder"
