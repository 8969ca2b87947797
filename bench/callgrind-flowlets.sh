#!/bin/sh
# Instructions that flowlets cost the switch, counted by callgrind: per packet (does it begin a
# flowlet, count it) and per boundary (end, pick of 10 runtimes, begin), over 1,000 flows. Each is run
# with N and with 2N packets; the difference is the packets' own cost. The loop alone is taken off.
set -eu
cd "$(dirname "$0")/.."
N=${1:-65536}
command -v valgrind >/dev/null || { echo "error: valgrind is not installed" >&2; exit 1; }
cargo build --quiet --release -p weir-bench
bench=${CARGO_TARGET_DIR:-target}/release/weir-bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" "$bench" snf count "$@" \
        >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
    sed -n 's/^.*Collected : \([0-9]*\).*$/\1/p' "$out/log"
}

per_packet() {
    few=$(run "$1" "$N")
    many=$(run "$1" $((2 * N)))
    echo $(((many - few) / N))
}

bare=$(per_packet bare)
for what in packets boundaries; do
    echo "$what: $(($(per_packet "$what") - bare)) instructions each"
done
