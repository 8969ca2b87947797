#!/bin/sh
# Instructions per packet that switch, entry and gate add to an engine, counted by callgrind: all on
# one thread, without rings. Each is run with N and with 2N packets; the difference is the packets'
# own cost, generator and sink included.
set -eu
cd "$(dirname "$0")/.."
N=${1:-32768}
command -v valgrind >/dev/null || { echo "error: valgrind is not installed" >&2; exit 1; }
cargo build --quiet --release -p weir-bench
bench=${CARGO_TARGET_DIR:-target}/release/weir-bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" "$bench" "$@" \
        >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
    sed -n 's/^.*Collected : \([0-9]*\).*$/\1/p' "$out/log"
}

# Instructions per packet: words before the number of packets.
per_packet() {
    few=$(run "$@" "$N")
    many=$(run "$@" $((2 * N)))
    echo $(((many - few) / N))
}

for chain in flow-nop firewall+http; do
    plain=$(per_packet count "$chain")
    echo "$chain: $plain"
    for runtimes in 1 2 4; do
        with=$(per_packet count-switch "$chain" "$runtimes")
        echo "  switch and $runtimes runtimes: $with ($((with - plain)) more)"
    done
done
