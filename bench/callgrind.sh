#!/bin/sh
# Instructions per packet of chains, counted by callgrind, and the composition check: a chain of
# three functions costs at most 1.1 x (engine + sum of (function alone - engine)), where the
# engine is the chain of `flow-nop`. Each chain is run with N and with 2N packets; the difference
# is the packets' own cost, without start and flow opens. Counts don't depend on what else the
# machine does.
set -eu
cd "$(dirname "$0")/.."
N=${1:-65536}
LIMIT=110 # per cent
command -v valgrind >/dev/null || { echo "error: valgrind is not installed" >&2; exit 1; }
cargo build --quiet --release -p weir-bench
bench=${CARGO_TARGET_DIR:-target}/release/weir-bench
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Instructions of one run: chain, packets.
run() {
    valgrind --tool=callgrind --callgrind-out-file="$out/callgrind" "$bench" count "$1" "$2" \
        >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
    sed -n 's/^.*Collected : \([0-9]*\).*$/\1/p' "$out/log"
}

# Instructions per packet in tenths: chain.
tenths() {
    few=$(run "$1" "$N")
    many=$(run "$1" $((2 * N)))
    echo $(((many - few) * 10 / N))
}

show() {
    printf '%-38s %6d.%d\n' "$1" $(($2 / 10)) $(($2 % 10))
}

echo "instructions per packet, generator and sink taken off ($N packets)"
sink=$(tenths sink)
show "(generator and sink)" "$sink"
for chain in flow-nop mac-swap ip-check ttl firewall monitor nat44 http-classifier; do
    net=$(($(tenths "$chain") - sink))
    eval "net_$(echo $chain | tr - _)=$net"
    show "$chain" "$net"
done

failed=0
for chain in firewall+monitor+http-classifier firewall+monitor+nat44; do
    net=$(($(tenths "$chain") - sink))
    show "$chain" "$net"
    sum=$net_flow_nop
    for nf in $(echo "$chain" | tr + ' '); do
        alone=$(eval "echo \$net_$(echo "$nf" | tr - _)")
        sum=$((sum + alone - net_flow_nop))
    done
    show "  engine + what each adds alone" "$sum"
    percent=$((net * 100 / sum))
    if [ $((net * 100)) -gt $((sum * LIMIT)) ]; then
        failed=1
        echo "  $percent % of it: more than $LIMIT %"
    else
        echo "  $percent % of it (at most $LIMIT %)"
    fi
done
exit $failed
