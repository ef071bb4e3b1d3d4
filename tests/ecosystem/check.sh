#!/usr/bin/env bash
# Well-known crates in filch's tasks, with real servers of Debian's. Fails if docs/ecosystem.md has not what comes out; `check.sh write` writes it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../../.ci/apart
page=../../docs/ecosystem.md

as_root() { if [[ $EUID == 0 ]]; then "$@"; else sudo "$@"; fi; }
install() {
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" > /dev/null
}
# The folder of PostgreSQL's programs: Debian keeps them out of the path.
postgres() {
    local initdb
    initdb=$(command -v initdb || ls /usr/lib/postgresql/*/bin/initdb 2> /dev/null | tail -n 1)
    [[ -n $initdb ]] && dirname "$initdb"
}
postgres > /dev/null || install postgresql
command -v redis-server > /dev/null || install redis-server
programs=$(postgres)

cargo build --locked

# Both servers have no port, only a socket in this folder. PostgreSQL refuses to run as root.
folder=$(mktemp -d)
run=()
if [[ $EUID == 0 ]]; then
    run=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    chown nobody "$folder"
fi
chmod 755 "$folder"
redis=
stop() {
    [[ -z $redis ]] || kill "$redis"
    (cd / && "${run[@]}" "$programs/pg_ctl" -D "$folder/data" -m immediate stop > /dev/null 2>&1) || true
    rm -rf "$folder"
}
trap stop EXIT
(
    cd /
    "${run[@]}" "$programs/initdb" -D "$folder/data" -U filch --auth=trust --locale=C --encoding=UTF8 --no-sync > "$folder.log"
    "${run[@]}" "$programs/pg_ctl" -D "$folder/data" -w -l "$folder/log" -o "-k $folder -c listen_addresses= -c fsync=off" start >> "$folder.log"
) || { cat "$folder.log" "$folder/log"; exit 1; }
rm -f "$folder.log"
redis-server --port 0 --unixsocket "$folder/redis" --unixsocketperm 777 --save "" --dir "$folder" > "$folder/redis.log" &
redis=$!
for _ in {1..100}; do
    [[ -S $folder/redis ]] && break
    sleep 0.1
done

FILCH_SOCKETS=$folder "$CARGO_TARGET_DIR/debug/filch-ecosystem-test" > "$CARGO_TARGET_DIR/ecosystem.md"
if [[ ${1:-} == write ]]; then
    cp "$CARGO_TARGET_DIR/ecosystem.md" "$page"
fi
diff -u "$page" "$CARGO_TARGET_DIR/ecosystem.md"
