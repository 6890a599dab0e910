#!/usr/bin/env bash
# The same requests to Weir and to NFS-Ganesha: where the two answer otherwise, the client has the reason for it.
# time-limit: 120
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nfs.sh"
need ganesha.nfsd

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; } # PORT

format_volume
port=$(free_port)
"$WEIR" serve "$URL" --tier "$T/tier" --log-file "$T/weir.log" --nfs "127.0.0.1:$port" --nfs-lease 5s "${CONNECT[@]}" || fail "weir serve"
"$WEIR" export add "$URL" / --name '' --squash none >/dev/null || fail "weir export add"

# In memory its files would have no handles.
mkdir "$T/files" "$T/ganesha"
other=$(free_port)
cat >"$T/ganesha.conf" <<CONF
NFS_CORE_PARAM {
    Protocols = 4; NFS_Port = $other; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
}
NFSv4 { Graceless = true; RecoveryRoot = $T/ganesha; }
EXPORT {
    Export_Id = 1; Path = $T/files; Pseudo = /g; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 4; Transports = TCP; FSAL { Name = VFS; }
}
CONF
ganesha.nfsd -F -f "$T/ganesha.conf" -L "$T/ganesha.log" -p "$T/ganesha.pid" </dev/null >/dev/null 2>&1 &
ganesha=$!
remember "$ganesha"
poll 30 answers "$other" || fail "NFS-Ganesha does not answer: $(tail -n 5 "$T/ganesha.log")"

client=$(nfs_client)
WEIR_NFS=127.0.0.1:$port,127.0.0.1:$other WEIR_NFS_EXPORTS=/,/g \
    "$client" --ignored --exact alike::both_answer_alike --nocapture >"$T/client.log" 2>&1 || fail "$(grep -v '^ *[0-9]*:\|^ *at ' "$T/client.log")"
grep "answers are alike" "$T/client.log" || fail "nothing was compared: $(cat "$T/client.log")"
kill "$ganesha"
"$WEIR" stop "$URL" "${CONNECT[@]}" || fail "weir stop"
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" >/dev/null || fail "weir fsck"
