#!/usr/bin/env bash
# Records the captures of examples/captures.
#
# Everything happens between network namespaces that this script makes and
# removes: three clients, a gateway and a server. No packet leaves them. Real
# programs talk (curl, nginx, ping, Python's sockets); tcpdump listens.
#
#   client a ┐                                      10.0.1.11  2001:db8:1::11
#   client b ┼─ br0 (gateway) wan ── server         10.0.1.12, .13
#   client c ┘  10.0.1.1   203.0.113.1    198.51.100.11, 198.51.100.12
#
# Needs root, and apt-get for what is missing. Takes about a minute.
# Usage: sudo examples/record.sh [FOLDER]     (FOLDER: examples/captures)
set -euo pipefail

out=$(realpath -m "${1:-$(dirname "$0")/captures}")
id=weir$$
gw=$id-gw server=$id-server
clients=(a b c)
work=$(mktemp -d)
pids=()

die() { echo "record.sh: $*" >&2; exit 1; }

clean_up() {
    trap - EXIT INT TERM
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for ns in "$gw" "$server" "${clients[@]/#/$id-}"; do
        ip netns del "$ns" 2>/dev/null || true
    done
    rm -rf "$work"
}

[ "$(id -u)" = 0 ] || die "making network namespaces needs root: run it with sudo"

# --- what it needs -----------------------------------------------------------
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need ip iproute2
need tcpdump tcpdump
need nginx nginx-light
need curl curl
need ethtool ethtool
need nft nftables
need ping iputils-ping
need python3 python3-minimal
need editcap wireshark-common
if [ ${#missing[@]} -gt 0 ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
        die "can't install ${missing[*]}"
fi

trap clean_up EXIT
trap 'exit 1' INT TERM
mkdir -p "$out"

# --- namespaces --------------------------------------------------------------
in_ns() { local ns=$1; shift; timeout 30 ip netns exec "$ns" "$@"; }
client() { local name=$1; shift; in_ns "$id-$name" "$@"; }

for ns in "$gw" "$server" "${clients[@]/#/$id-}"; do
    ip netns add "$ns"
    ip -n "$ns" link set lo up
    # Addresses are usable at once, and nobody asks for others.
    in_ns "$ns" sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
        net.ipv6.conf.default.accept_ra=0 net.ipv6.conf.default.router_solicitations=0
done

# Checksums left to a network card that does not exist would be wrong in the
# captures, and segments longer than the MTU would be in them.
no_offload() { in_ns "$1" ethtool -K "$2" tx off gro off >/dev/null 2>&1 || true; }

ip -n "$gw" link add br0 type bridge
for i in 0 1 2; do
    ns=$id-${clients[$i]}
    ip link add eth0 netns "$ns" type veth peer name "lan$i" netns "$gw"
    ip -n "$ns" addr add "10.0.1.1$((i + 1))/24" dev eth0
    ip -n "$ns" addr add "2001:db8:1::1$((i + 1))/64" dev eth0 nodad
    ip -n "$ns" link set eth0 up
    ip -n "$gw" link set "lan$i" master br0 up
    no_offload "$ns" eth0
    no_offload "$gw" "lan$i"
done
ip -n "$gw" addr add 10.0.1.1/24 dev br0
ip -n "$gw" addr add 2001:db8:1::1/64 dev br0 nodad
ip -n "$gw" link set br0 up
ip link add wan netns "$gw" type veth peer name eth0 netns "$server"
ip -n "$gw" addr add 203.0.113.1/24 dev wan
ip -n "$gw" addr add 198.51.100.1/24 dev wan
ip -n "$gw" addr add 2001:db8:2::1/64 dev wan nodad
ip -n "$gw" link set wan up
ip -n "$server" addr add 198.51.100.11/24 dev eth0
ip -n "$server" addr add 198.51.100.12/24 dev eth0
ip -n "$server" addr add 2001:db8:2::11/64 dev eth0 nodad
ip -n "$server" link set eth0 up
no_offload "$gw" br0
no_offload "$gw" wan
no_offload "$server" eth0
in_ns "$gw" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
# Otherwise the bridge translates before tcpdump sees the packets.
in_ns "$gw" sysctl -qw net.bridge.bridge-nf-call-iptables=0 2>/dev/null || true
for name in "${clients[@]}"; do
    ip -n "$id-$name" route add default via 10.0.1.1
    ip -n "$id-$name" -6 route add default via 2001:db8:1::1
done
ip -n "$server" route add default via 198.51.100.1
ip -n "$server" -6 route add default via 2001:db8:2::1

# --- servers -----------------------------------------------------------------
mkdir -p "$work/www" "$work/log"
python3 - "$work/www" <<'PY'
import random, sys
# Text of a fixed seed: the same captures, as far as times allow, on each run.
words = "flow state packet clock view switch owner replica chain port".split()
pick = random.Random(2)
for name, size in [("small.txt", 200), ("page.html", 4_000), ("medium.txt", 20_000), ("large.bin", 90_000)]:
    text = ""
    while len(text) < size:
        text += pick.choice(words) + " "
    open(f"{sys.argv[1]}/{name}", "w").write(text[:size])
PY
cat >"$work/nginx.conf" <<CONF
worker_processes 1;
pid $work/nginx.pid;
error_log $work/log/error.log;
events { worker_connections 64; }
http {
    access_log off;
    types { text/html html; text/plain txt; application/octet-stream bin; }
    client_body_temp_path $work/log/body;
    server {
        listen 80;
        listen [::]:80;
        server_name www.example.com;
        root $work/www;
        location /search { default_type text/html; return 200 "<p>nothing found</p>\n"; }
        location /login { default_type text/html; return 302 /page.html; }
        location /old { return 301 /page.html; }
    }
}
CONF
chmod 755 "$work"
# Not `in_ns`: that ends a program after 30 seconds.
ip netns exec "$server" nginx -c "$work/nginx.conf" -g 'daemon off; user root;' 2>>"$work/log/nginx" &
pids+=($!)

# Names and their addresses over UDP, as DNS writes them (RFC 1035), and an echo.
cat >"$work/udp.py" <<'PY'
import selectors, socket, struct

def answer(query):
    name_end = query.index(0, 12)
    question = query[12:name_end + 5]
    head = query[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0)
    record = struct.pack("!HHHIH4B", 0xC00C, 1, 1, 60, 4, 198, 51, 100, 11)
    return head + question + record

wait = selectors.DefaultSelector()
# One socket per address: an answer comes from where the question went.
for host in ("198.51.100.11", "198.51.100.12", "2001:db8:2::11"):
    for port in (53, 7):
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((host, port))
        wait.register(s, selectors.EVENT_READ, port)
while True:
    for key, _ in wait.select():
        data, peer = key.fileobj.recvfrom(65536)
        key.fileobj.sendto(answer(data) if key.data == 53 else data, peer)
PY
ip netns exec "$server" python3 "$work/udp.py" &
pids+=($!)

cat >"$work/ask.py" <<'PY'
import socket, struct, sys
# ask.py ADDRESS PORT NAME|SIZE [SOURCE PORT]: a DNS query, or SIZE bytes to the echo.
address, port, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
s = socket.socket(family, socket.SOCK_DGRAM)
s.settimeout(2)
if len(sys.argv) > 4:
    s.bind(("", int(sys.argv[4])))
if port == 53:
    name = b"".join(bytes([len(p)]) + p.encode() for p in what.split(".")) + b"\0"
    data = struct.pack("!6H", 0x1234 + len(what), 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", 1, 1)
else:
    data = bytes(i % 251 for i in range(int(what)))
s.connect((address, port))
s.send(data)
try:
    s.recv(65536)
except OSError:
    pass
PY

cat >"$work/tagged.py" <<'PY'
import socket, struct, sys
# tagged.py MAC: UDP in 802.1Q and 802.1ad tags to that address, as a trunk port sends it. (By
# hand: not every kernel has VLAN devices.)
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF

def udp(source, destination, ports, data):
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    length = 8 + len(data)
    head = struct.pack("!4H", *ports, length, 0)
    total = checksum(ends + struct.pack("!BBH", 0, 17, length) + head + data) or 0xFFFF
    segment = struct.pack("!4H", *ports, length, total) + data
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1, 0, 64, 17, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + segment

s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
to = bytes.fromhex(sys.argv[1].replace(":", ""))
own = s.getsockname()[4]
tags = [[(0x8100, 100)], [(0x8100, 101)], [(0x88A8, 200), (0x8100, 300)]]
for number in range(4):
    for stack in tags:
        frame = to + own
        for kind, vlan in stack:
            frame += struct.pack("!HH", kind, vlan)
        last = stack[-1][1]
        packet = udp(f"10.0.{last % 256}.11", f"10.0.{last % 256}.1", (4000 + last, 7), b"tagged %d" % number)
        s.send(frame + struct.pack("!H", 0x0800) + packet)
PY

# Waits for a condition, five seconds at most.
until_true() {
    for _ in $(seq 100); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.05
    done
    die "waited in vain for: $*"
}
until_true client a curl -sf http://198.51.100.11/small.txt -o /dev/null
until_true client a curl -sf 'http://[2001:db8:2::11]/small.txt' -o /dev/null

# --- recording ---------------------------------------------------------------
# listen FILE NAMESPACE INTERFACE [FILTER AND OPTIONS…]
listening=()
listen() {
    local file=$1 ns=$2 interface=$3
    shift 3
    rm -f "$file"
    # Each packet takes a slot of the snapshot length in the kernel's buffer.
    ip netns exec "$ns" tcpdump -q -n -s 2048 -B 16384 -U --immediate-mode -Z root \
        -i "$interface" -w "$file" "$@" 2>>"$work/log/tcpdump" &
    listening+=($!)
    pids+=($!)
    until_true test -s "$file"
}
stop() {
    sleep 0.3
    for pid in "${listening[@]}"; do kill -INT "$pid"; wait "$pid" || true; done
    listening=()
    if grep -E '^[1-9][0-9]* packets dropped' "$work/log/tcpdump"; then
        die "tcpdump was too slow: record again"
    fi
}
fetch() { local name=$1; shift; client "$name" curl -s --max-time 10 -o /dev/null "$@"; }
# Ports without surprises: the captures of the two sides of a NAT must agree.
from_port() { echo --local-port "$1"; }
# shellcheck disable=SC2046
record_web() {
    local v4=http://198.51.100.11 v6='http://[2001:db8:2::11]' host=(-H 'Host: www.example.com')
    listen "$out/web.pcap" "$gw" br0 tcp
    fetch a "${host[@]}" "$v4/small.txt" -o /dev/null "$v4/page.html" -o /dev/null "$v4/medium.txt" \
        -o /dev/null "$v4/missing.txt"
    fetch b "${host[@]}" "$v6/page.html" -o /dev/null "$v6/old" -o /dev/null "$v6/search?q=flow+state"
    fetch b "${host[@]}" "$v4/large.bin"
    fetch c "${host[@]}" -d 'user=ada&password=lovelace' "$v4/login"
    fetch c "${host[@]}" -I "$v4/page.html"
    fetch c "${host[@]}" -A 'weir-example/1.0' -H 'Range: bytes=0-99' "$v6/medium.txt"
    fetch a --http1.0 "$v4/small.txt"
    # Two requests in one segment (pipelining).
    client a python3 -c "
import socket
s = socket.create_connection(('198.51.100.11', 80), 5)
s.sendall(b'GET /small.txt HTTP/1.1\r\nHost: www.example.com\r\n\r\nGET /page.html HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n')
while s.recv(65536):
    pass"
    stop
}

record_mixed() {
    local mac
    for name in "${clients[@]}"; do ip -n "$id-$name" neigh flush all; done
    listen "$work/mixed.pcap" "$gw" br0
    client a ping -q -c 3 -i 0.2 198.51.100.11 >/dev/null
    client a ping -q -c 3 -i 0.2 2001:db8:2::11 >/dev/null
    # More than one frame's worth: fragments, IPv4 and IPv6, echoed in fragments.
    client b ping -q -c 2 -i 0.2 -s 4000 198.51.100.11 >/dev/null
    client b ping -q -c 2 -i 0.2 -s 4000 2001:db8:2::11 >/dev/null
    client b python3 "$work/ask.py" 198.51.100.11 7 5000
    client b python3 "$work/ask.py" 2001:db8:2::11 7 3000
    for name in www.example.com mail.example.com example.net; do
        client c python3 "$work/ask.py" 198.51.100.11 53 "$name"
        client c python3 "$work/ask.py" 2001:db8:2::11 53 "$name"
    done
    # Nobody listens: a TCP reset, and an ICMP error that quotes the datagram.
    client c curl -s --max-time 2 http://198.51.100.11:81/ || true
    client c python3 "$work/ask.py" 198.51.100.11 9 20
    client c python3 "$work/ask.py" 2001:db8:2::11 9 20
    # One hop is too few: time exceeded.
    client c ping -q -c 1 -W 1 -t 1 198.51.100.11 >/dev/null || true
    fetch c http://198.51.100.11/page.html
    fetch c 'http://[2001:db8:2::11]/page.html'
    mac=$(ip -n "$gw" -brief link show br0 | awk '{print $3}')
    client a python3 "$work/tagged.py" "$mac"
    stop
    editcap -F pcapng "$work/mixed.pcap" "$out/mixed.pcapng"
}

record_attack() {
    local v4=http://198.51.100.11
    listen "$out/attack.pcap" "$gw" br0 tcp
    # Innocent requests among them, to be left alone.
    fetch a "$v4/page.html" -o /dev/null "$v4/search?q=union+station+select+seats"
    # SQL injection, written in several ways.
    fetch b -A 'sqlmap/1.7' "$v4/search?id=1%27%20OR%20%271%27%3D%271"
    fetch b "$v4/search?id=1+UNION+SELECT+name,password+FROM+users--"
    fetch b "$v4/search?id=1%2527%2520union%2520all%2520select%2520null"
    fetch b "$v4/search?id=1;DROP%20TABLE%20users"
    fetch b "$v4/search?id=1/**/aNd/**/sleep(5)"
    fetch b -d "user=admin'--&password=x" "$v4/login"
    # Path traversal and cross-site scripting.
    fetch b --path-as-is "$v4/../../../../etc/passwd"
    fetch b "$v4/search?q=%3Cscript%3Ealert(1)%3C/script%3E"
    # A port scan.
    client c python3 -c "
import socket
for port in [*range(20, 60), 80, 110, 143, 443, 3306, 5432, 6379, 8080]:
    s = socket.socket()
    s.settimeout(0.5)
    s.connect_ex(('198.51.100.11', port))
    s.close()"
    stop
}

# Both sides of a gateway that translates: what its clients send, and what the
# servers send back to 203.0.113.1.
gateway_in() {
    listen "$out/$1-inside.pcap" "$gw" br0 -Q in "not arp and not icmp6"
    listen "$out/$1-outside.pcap" "$gw" wan -Q in "not arp and not icmp6"
}

# shellcheck disable=SC2046
record_nat() {
    # Three clients use one source port. The first keeps it. The kernel is told to
    # give the others what weir's nat44 gives them, or its answers would not be
    # theirs in a run: `nat.yaml --events` shows which ports those are.
    in_ns "$gw" nft -f - <<NFT
table ip nat {
    chain post {
        type nat hook postrouting priority 100;
        oifname wan ip saddr 10.0.1.12 tcp sport 40000 snat to 203.0.113.1:1024
        oifname wan ip saddr 10.0.1.13 tcp sport 40000 snat to 203.0.113.1:1088
        oifname wan ip saddr 10.0.1.0/24 snat to 203.0.113.1
    }
}
NFT
    gateway_in nat
    for name in "${clients[@]}"; do
        fetch "$name" $(from_port 40000) http://198.51.100.11/page.html
    done
    fetch a $(from_port 40100) http://198.51.100.11/small.txt
    fetch b $(from_port 40200) http://198.51.100.12/small.txt
    client a python3 "$work/ask.py" 198.51.100.11 53 www.example.com 41001
    client b python3 "$work/ask.py" 198.51.100.12 53 www.example.com 41003
    client c ping -q -c 3 -i 0.2 -e 2007 198.51.100.11 >/dev/null
    # An ICMP error that quotes a translated datagram.
    client c python3 "$work/ask.py" 198.51.100.11 9 20 41005
    stop
    in_ns "$gw" nft delete table ip nat
}

# shellcheck disable=SC2046
record_edge() {
    in_ns "$gw" nft -f - <<NFT
table ip nat {
    chain pre {
        type nat hook prerouting priority -100;
        iifname br0 ip daddr 203.0.113.80 tcp dport 80 dnat to 198.51.100.11
    }
    chain post {
        type nat hook postrouting priority 100;
        oifname wan ip saddr 10.0.1.0/24 snat to 203.0.113.1
    }
}
NFT
    local vip=http://203.0.113.80
    gateway_in edge
    fetch a $(from_port 42001) "$vip/page.html" -o /dev/null "$vip/medium.txt"
    fetch b $(from_port 42003) "$vip/search?q=state"
    client a python3 "$work/ask.py" 198.51.100.11 53 www.example.com 42011
    client c ping -q -c 2 -i 0.2 -e 2009 198.51.100.11 >/dev/null
    # For the IDS: an injection, and a tool that gives its name.
    fetch b $(from_port 42005) -A 'sqlmap/1.7' "$vip/search?id=1+UNION+SELECT+password+FROM+users"
    # For the firewall: telnet and mail go nowhere. And a stranger knocks.
    client c python3 -c "
import socket
for port in (23, 25):
    s = socket.socket()
    s.settimeout(0.3)
    s.connect_ex(('198.51.100.11', port))"
    in_ns "$server" python3 -c "
import socket
for port in (22, 3389):
    s = socket.socket()
    s.settimeout(0.3)
    s.connect_ex(('203.0.113.1', port))"
    fetch c $(from_port 42007) "$vip/large.bin"
    stop
    in_ns "$gw" nft delete table ip nat
}

record_web
record_mixed
record_attack
record_nat
record_edge

for file in "$out"/*.pcap "$out"/*.pcapng; do
    size=$(stat -c %s "$file")
    [ "$size" -lt 300000 ] || die "$file has $size bytes: too many to keep"
    printf '%8d bytes  %s\n' "$size" "$file"
done
