#!/bin/sh
# Instructions per packet of chains, counted by callgrind, and the composition check: a chain of
# three functions costs at most 1.1 x (engine + sum of (function alone - engine)). The engine is a
# chain that keeps flows and has one function, `nop`, which passes each burst as a whole; so what
# calling a function for each packet costs is in the function's figure. With `flow-nop` for the
# engine, which is called for each packet too, that cost is in the sum once and not three times;
# that figure is printed as well, and not judged. Each chain is run with N and with 2N packets; the difference
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
for chain in classifier engine nop flow-nop mac-swap ip-check ttl firewall monitor nat44 http-classifier; do
    net=$(($(tenths "$chain") - sink))
    eval "net_$(echo $chain | tr - _)=$net"
    show "$chain" "$net"
done

# Its packets are 64 octets of UDP.
sink_of_router=$(tenths router-sink)
for form in router-gate router-link; do
    show "$form" $(($(tenths $form) - sink_of_router))
done

# What a chain should cost over a given engine: engine, functions.
sum_over() {
    sum=$1
    for nf in $2; do
        alone=$(eval "echo \$net_$(echo "$nf" | tr - _)")
        sum=$((sum + alone - $1))
    done
    echo "$sum"
}

failed=0
for chain in firewall+monitor+http-classifier firewall+monitor+nat44; do
    net=$(($(tenths "$chain") - sink))
    show "$chain" "$net"
    nfs=$(echo "$chain" | tr + ' ')
    sum=$(sum_over "$net_engine" "$nfs")
    show "  engine + what each adds alone" "$sum"
    if [ $((net * 100)) -gt $((sum * LIMIT)) ]; then
        failed=1
        echo "  $((net * 100 / sum)) % of it: more than $LIMIT %"
    else
        echo "  $((net * 100 / sum)) % of it (at most $LIMIT %)"
    fi
    sum=$(sum_over "$net_flow_nop" "$nfs")
    echo "  ($((net * 100 / sum)) % with flow-nop for the engine)"
done
exit $failed
