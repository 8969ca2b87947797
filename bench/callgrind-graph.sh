#!/bin/sh
# Instructions per packet of edge firewall → monitoring → application firewall, counted by
# callgrind: as compiled (plan), as written, and with a runtime per NF joined by rings (per-nf).
# Each is run with N and with 2N packets; the difference is the packets' own cost. Generator and
# sink, counted alone, are taken off in `net`.
set -eu
cd "$(dirname "$0")/.."
N=${1:-32768}
command -v valgrind >/dev/null || { echo "error: valgrind is not installed" >&2; exit 1; }
cargo build --quiet --release -p weir-bench
bench=${CARGO_TARGET_DIR:-target}/release/weir-bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" "$bench" graph count "$@" \
        >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
    sed -n 's/^.*Collected : \([0-9]*\).*$/\1/p' "$out/log"
}

per_packet() {
    few=$(run "$1" "$N")
    many=$(run "$1" $((2 * N)))
    echo $(((many - few) / N))
}

sink=$(per_packet sink)
echo "sink: $sink"
per_nf=$(per_packet per-nf)
for form in plan written per-nf; do
    with=$(per_packet "$form")
    net=$((with - sink))
    echo "$form: $with, net $net, $((100 * net / (per_nf - sink))) % of per-nf"
done
