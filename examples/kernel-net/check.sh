#!/usr/bin/env bash
# The clients of the network kernel: boots it with four harts and with one, and checks every answer. See ../boot.sh.
#
#   kernel-net/check.sh BINARY LOG QEMU [ARGUMENT]...
#
# NET_REQUESTS answers (10000) on each machine: nine of ten over connections that are kept, the others over a new one
# each. Each client has a port of its own: QEMU listens with a backlog of one, and a
# second client that comes at the same time may have to try again a second later.
set -euo pipefail
# The kernel may reset a connection at any time: a write to it then fails, and does not end this script.
trap '' PIPE
binary=$1 log=$2
shift 2
qemu=("$@")
requests=${NET_REQUESTS:-10000}
# Each talks to an address of its own: QEMU does not tell apart two clients that have the same port of the host by chance.
# Of the kernel: its addresses and sockets, and how many seconds a client may be silent.
clients=8 sockets=32 patience=5
# Where a lost packet may take seconds; the packets of another client would wake the interface in the timer's place.
lossy=
if [[ $binary == *-lossy ]]; then
    lossy=1 clients=1
fi
work=$(mktemp -d) pid=
trap 'rm -rf "$work"; [[ ! $pid ]] || kill "$pid"' EXIT
: >"$log"

# Also prints what the kernel has said last.
fail() {
    local line
    while [[ $pid ]] && IFS= read -r -t 1 line <&"$from"; do
        echo "$line" | tee -a "$log"
    done
    echo "net: $*" >&2
    exit 1
}

# The next line of the machine, which is printed too.
next_line() {
    IFS= read -r -t "${BOOT_LIMIT:-200}" line <&"$from" || return 1
    line=${line%$'\r'}
    echo "$line" | tee -a "$log"
}

# Boots, and waits until the kernel listens. Other ports, if one is in use.
boot() {
    local harts=$1 forwards client
    for _ in 1 2 3 4 5; do
        port=$((20000 + RANDOM % 12000)) forwards=
        for ((client = 0; client < clients; client++)); do
            forwards+=,hostfwd=tcp:127.0.0.1:$((port + client))-10.0.2.$((15 + client)):80
        done
        coproc machine {
            exec timeout "${BOOT_LIMIT:-200}" "${qemu[@]}" -smp "$harts" -kernel "$binary" \
                -netdev "user,id=net$forwards" -device virtio-net-device,netdev=net
        }
        # The shell closes its own as soon as the machine ends.
        pid=$machine_PID
        exec {from}<&"${machine[0]}" {to}>&"${machine[1]}"
        while next_line; do
            [[ $line != *" listen at "* ]] || return 0
        done
        wait "$pid" || true
    done
    fail "the kernel does not listen"
}

# Asks for the squares of numbers from $1 to $2, with so many clients at a time; the rest is for curl.
squares() {
    local first=$1 last=$2 client start end answered jobs=()
    local began=${EPOCHREALTIME/./}
    shift 2
    rm -rf "$work/answers"
    mkdir "$work/answers"
    for ((client = 0; client < clients; client++)); do
        start=$((first + (last - first + 1) * client / clients))
        end=$((first + (last - first + 1) * (client + 1) / clients - 1))
        ((start <= end)) || continue
        curl --silent --show-error --fail --fail-early --max-time 120 "$@" --output "$work/answers/#1" \
            "http://127.0.0.1:$((port + client))/square/[$start-$end]" &
        jobs+=($!)
    done
    for client in "${jobs[@]}"; do
        wait "$client" || fail "a client has no answer"
    done
    took=$((${EPOCHREALTIME/./} - began))
    answered=$(find "$work/answers" -type f | wc -l)
    ((answered == last - first + 1)) || fail "$answered answers to $((last - first + 1)) requests"
    (cd "$work/answers" && seq "$first" "$last" | xargs cat) |
        cmp - <(seq "$first" "$last" | awk '{ printf "%d\n", $1 * $1 }') || fail "a wrong answer"
}

# Connects to the port of client $1; the connection is $wire.
connect() {
    exec {wire}<>"/dev/tcp/127.0.0.1/$((port + $1 % clients))"
}

disconnect() {
    exec {wire}>&-
}

# Half a request, and an answer of which nobody reads the rest: an end in order, and a reset.
cut_connections() {
    local i
    for ((i = 0; i < 2 * sockets; i++)); do
        connect "$i"
        printf 'GET /square/1 HT' >&"$wire" || true
        disconnect
        connect "$i"
        printf 'GET /bytes/1000000 HTTP/1.1\r\n\r\n' >&"$wire" || true
        read -r -N 1 -u "$wire" _ || true
        disconnect
    done
}

# Heads and bodies that no client should send, and what they are answered with.
bad_requests() {
    local answer
    while IFS='|' read -r request status; do
        connect 0
        printf "$request" >&"$wire"
        IFS= read -r -t 20 -u "$wire" answer || fail "no answer to $request"
        [[ $answer == "HTTP/1.1 $status "* ]] || fail "$request is answered with $answer"
        disconnect
    done <<END
nonsense\r\n\r\n|400
GET /square/x HTTP/1.1\r\n\r\n|404
POST /square/1 HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc|405
GET /$(printf '%02000d' 0)|431
END
}

# One sends its request in two parts, one reads its answer late. Others do not wait for them.
slow_clients() {
    local sends reads
    connect 0
    sends=$wire
    connect 1
    reads=$wire
    printf 'GET /square/123 HT' >&"$sends"
    printf 'GET /bytes/1000000 HTTP/1.1\r\nconnection: close\r\n\r\n' >&"$reads"
    squares 1 100
    printf 'TP/1.1\r\nconnection: close\r\n\r\n' >&"$sends"
    [[ $(tail -n 1 <&"$sends") == 15129 ]] || fail "a slow client has no answer"
    # `yes` would end by a signal.
    tail -c 1000000 <&"$reads" | cmp - <({ yes 0123456789abcdef || true; } | head -c 1000000) ||
        fail "a slow client has a wrong answer"
    exec {sends}>&- {reads}>&-
}

# As many clients as sockets, which then are silent: one more is refused. The kernel ends their connections in time.
crowd() {
    local i answer wires=() began=$SECONDS
    for ((i = 0; i < sockets; i++)); do
        connect "$i"
        wires+=("$wire")
        printf 'GET /square/9 HTTP/1.1\r\n\r\n' >&"$wire"
        IFS= read -r -t 20 -u "$wire" _ || fail "client $i of $sockets has no answer"
    done
    connect "$i"
    printf 'GET /square/9 HTTP/1.1\r\n\r\n' >&"$wire" || true
    if IFS= read -r -t 20 -u "$wire" answer 2>/dev/null && ((SECONDS - began < patience)); then
        fail "there are more sockets than the kernel says: $answer"
    fi
    disconnect
    tail -n 1 <&"${wires[0]}" >"$work/last"
    [[ $(<"$work/last") == 81 ]] || fail "a silent client's connection ended with $(<"$work/last")"
    for wire in "${wires[@]}"; do
        disconnect
    done
}

# Each socket has to listen again, but for that of the client that asks.
all_listen() {
    local said tries=0
    until said=$(curl --silent --fail --max-time 10 "http://127.0.0.1:$port/") &&
        [[ $said == *" $((sockets - 1)) of $sockets sockets listen"* ]]; do
        ((++tries < 200)) || fail "sockets are lost: $said"
        sleep 0.1
    done
}

run() {
    local harts=$1 kept=$((requests * 9 / 10)) figures= last= polled=0 status=0
    boot "$harts"
    squares 1 "$kept"
    figures+=" $((kept * 1000000 / took)) requests a second"
    squares $((kept + 1)) "$requests" --header 'connection: close'
    figures+=", $(((requests - kept) * 1000000 / took)) on a new connection each"
    if [[ ! $lossy ]]; then
        cut_connections
        # On a busy host some sockets are still about to end.
        all_listen
        bad_requests
        slow_clients
        if ((harts > 1)); then
            crowd
        fi
        squares 1 100
    fi
    all_listen
    # The end of the machine.
    echo >&"$to"
    while next_line; do
        last=$line
        if [[ $line =~ in\ us:\ (.*) ]]; then
            figures+="; from interrupt to task, in us: ${BASH_REMATCH[1]}"
        elif [[ $line =~ ^\ +[0-9]\ +([0-9]+)\  ]] && ((BASH_REMATCH[1])); then
            polled=$((polled + 1))
        fi
    done
    wait "$pid" || status=$?
    pid=
    exec {from}<&- {to}>&-
    ((status == 0)) || fail "the machine ended with status $status"
    # Work is stolen: the handler's hart is not the only one.
    ((polled > 1 || harts == 1)) || fail "one of $harts harts has polled all tasks"
    # Sent again in time, and not only because a client has asked again.
    [[ ! $lossy || $last == *", 0 cut, "* ]] || fail "lost packets have cut connections"
    summary+=("$harts harts:$figures")
}

summary=()
run 4
[[ $lossy ]] || run 1
printf 'net: %s\n' "${summary[@]}" | tee -a "$log"
