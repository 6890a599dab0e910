#!/usr/bin/env bash
# The page of --admin-listen beside a load, in a real browser: a phone and a desk, light and dark, by keyboard; what
# the port refuses; and cancelling with a token. WEIR_SHOTS=DIRECTORY keeps what it looked like.
# time-limit: 240
source "$(dirname "$0")/../lib.sh"
begin
need chromium curl jq python3 ps

listen=127.0.0.1:$(free_port)
fmt_mount --admin-listen "$listen" --flush-age 200ms
port=${listen#*:}
mkdir "$MNT/busy"
code() { curl -s -o "$T/answer" -w '%{http_code}' "$@"; }

echo "== what the port answers, and to whom"
same "$(code "http://$listen/")" 200 "the page"
for path in / /page.js /style.css /v1/status /metrics; do
    curl -s -D "$T/head" -o /dev/null "http://$listen$path"
    for header in "content-security-policy: default-src 'self'" "x-content-type-options: nosniff" "cache-control: no-store"; do
        grep -qi "^$header" "$T/head" || fail "$path has no '$header': $(cat "$T/head")"
    done
done
for path in status throughput used history actions links prices bill; do
    same "$(code "http://$listen/v1/$path")" 200 "/v1/$path"
    jq -e . "$T/answer" >/dev/null || fail "/v1/$path is not JSON"
done
for path in / /page.js /v1/status /metrics /healthz /nothing; do
    same "$(code -H 'Host: evil.example' "http://$listen$path")" 403 "$path for another Host"
    same "$(code -H "Host: 127.0.0.1.evil.example:$port" "http://$listen$path")" 403 "$path for a Host that looks like ours"
    same "$(code --http1.0 -H 'Host:' "http://$listen$path")" 403 "$path without a Host"
done
same "$(code "http://localhost:$port/v1/status")" 200 "localhost"
for path in unmount flush actions/cancel actions/start throughput/set pin; do
    case $(code -X POST -d '{}' "http://$listen/v1/$path") in
        404 | 405) ;;
        *) fail "POST /v1/$path is not refused: $(cat "$T/answer")" ;;
    esac
done
same "$(code -X POST -H 'Authorization: Bearer ' -d '{"id": 1}' "http://$listen/v1/actions/cancel")" 404 "a cancel without a token file"
same "$(status '.port_cancels | tostring')" false "whether the port cancels"
mountpoint -q "$MNT" || fail "somebody unmounted it"

echo "== directories that are here, and are not"
mkdir -p "$MNT/cold/deep" "$MNT/slow" "$MNT/warm" "$MNT/shut/inner-name" && chmod 700 "$MNT/shut"
head -c 8M /dev/urandom >"$MNT/cold/deep/file"
head -c 4M /dev/urandom >"$MNT/warm/file"
for n in 1 2 3 4 5 6 7 8; do head -c 1M /dev/urandom >"$MNT/slow/$n"; done
head -c 1M /dev/urandom >"$MNT/shut/inner-name/file"
"$WEIR" flush "$MNT" >/dev/null || fail flush
"$WEIR" release -r "$MNT/cold" "$MNT/slow" >/dev/null || fail release
"$WEIR" status "$MNT" | grep -q "a month (in the bucket" || fail "storage is priced otherwise: $("$WEIR" status "$MNT")"
sleep 1.2
same "$(code "http://$listen/v1/survey")" 200 "/v1/survey: $(cat "$T/answer")"
jq -e '.complete and .root.files == 11 and (.root.directories[0].name | IN("cold", "slow"))' "$T/answer" >/dev/null ||
    fail "the survey: $(cat "$T/answer")"
[ "$(status .bucket_bytes)" -ge $((21 << 20)) ] || fail "$(status .bucket_bytes) bytes are in the bucket"

echo "== a load"
cat >"$T/load.py" <<'PY'
import os, sys, time
path, block = sys.argv[1], os.urandom(1 << 20)
end = time.time() + 120
while time.time() < end:
    with open(path, "wb", 0) as file:
        for _ in range(4):
            file.write(block)
        os.fsync(file.fileno())
    os.close(os.open(path, os.O_RDONLY))
    time.sleep(0.05)
PY
python3 "$T/load.py" "$MNT/busy/file" &
remember $!
poll 20 test -s "$MNT/busy/file" || fail "no load"
"$WEIR" throughput "$MNT" --budget 5USD/h >/dev/null || fail "a budget"
# Four minutes of it, if nobody cancels it.
"$WEIR" hydrate --max-rate 32KiB -r "$MNT/slow" >/dev/null || fail "an action"

echo "== the page"
page() { # TEST [MORE...]
    PYTHONPATH=$TESTS/tools PYTHONDONTWRITEBYTECODE=1 python3 "$TESTS/tools/web_page.py" "$1" "http://$listen/" "$T/profile-$1" "${@:2}" ||
        fail "the page is not what it should be: $1"
}
page look "${WEIR_SHOTS:-$T}"
page alarms "$TESTS/../monitoring/rules.yml"

kill "$(cat "$T"/[0-9]*.pid | head -1)" 2>/dev/null
"$WEIR" throughput "$MNT" --budget 0USD/h >/dev/null 2>&1

echo "== no token that others may read, or that is none"
umount_volume
refused() { # FILE TEXT
    "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" --admin-listen "$listen" --admin-token-file "$1" 2>"$T/err" &&
        fail "mounted with the token file $1"
    grep -q -- "$2" "$T/err" || fail "$1: no '$2' in $(cat "$T/err")"
}
token=$T/token
head -c 24 /dev/urandom | base64 >"$token" && chmod 644 "$token"
refused "$token" "chmod 600"
refused "$T/none" "admin-token-file $T/none"
touch "$T/empty" && chmod 600 "$T/empty"
refused "$T/empty" "openssl rand"
chmod 600 "$token"

echo "== with a token"
(cd "$T" && "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" --admin-listen "$listen" --admin-token-file token) ||
    fail "mount with a token"
same "$(status '.port_cancels | tostring')" true "whether the port cancels"
id=$("$WEIR" actions "$MNT" --json | jq -r '[.. | objects | select(.state? == "running" or .state? == "waiting") | .id][0]')
[ "${id:-null}" != null ] || fail "no action runs: $("$WEIR" actions "$MNT" --all --json)"
# The token is on no command line: as a header in a file.
sent() { # TOKEN [CURL ARGS...]
    printf 'Authorization: Bearer %s' "$1" >"$T/header"
    code -X POST -H "@$T/header" -d "{\"id\": $id}" "${@:2}" "http://$listen/v1/actions/cancel"
}
same "$(code -X POST -d "{\"id\": $id}" "http://$listen/v1/actions/cancel")" 401 "no token"
same "$(sent "$(cat "$token")x")" 401 "another token"
same "$(sent "$(cat "$token")" -H "Host: evil.example")" 403 "by another name"
same "$(sent "$(cat "$token")" -H "Origin: http://evil.example")" 403 "from another page"
for path in unmount flush actions/start throughput/set pin; do
    case $(code -X POST -H "@$T/header" -d '{}' "http://$listen/v1/$path") in
        404 | 405) ;;
        *) fail "POST /v1/$path is not refused with a token: $(cat "$T/answer")" ;;
    esac
done
same "$(sent "$(cat "$token")" -H "Content-Type: text/plain" -d x)" 400 "what is no request"
# Another token counts at once, and none that others may read.
chmod 644 "$token"
same "$(sent "$(cat "$token")")" 403 "a token that others may read"
chmod 600 "$token"
head -c 24 /dev/urandom | base64 >"$token"
page cancel "$token" "${WEIR_SHOTS:-$T}"
"$WEIR" actions "$MNT" --all | grep -q cancelled || fail "it is not cancelled: $("$WEIR" actions "$MNT" --all)"
same "$(sent "$(cat "$token")")" 200 "what is cancelled already"
for place in "$LOG" "$T/answer"; do
    grep -qFf "$token" "$place" && fail "the token is in $place"
done
ps -eww -o args | grep -qFf "$token" && fail "the token is on a command line"
fsck_clean
echo ok
