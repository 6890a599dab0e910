# A PostgreSQL server of the case's own: on loopback and a socket below $T, with a role `weir` and a
# database `weir`. Sourced after `begin`. Its password is in $PGPASSFILE only. PG_ADDRESS and PG_PORT say
# where it is to be; PG_NAME is the name in a certificate of its own, whose authority is $T/pg/authority.pem.
# shellcheck shell=bash

need /usr/lib/postgresql/15/bin/postgres ps psql setpriv
PG_BIN=/usr/lib/postgresql/15/bin
PG_ADDRESS=${PG_ADDRESS:-127.0.0.1} PG_PORT=${PG_PORT:-$(free_port)} PG_NAME=${PG_NAME:-}
PG_PASSWORD=tellnobody
META=postgres://weir@$PG_ADDRESS:$PG_PORT/weir
unset PGPASSWORD PGSERVICE PGUSER PGHOST PGDATABASE

# As the user that the server runs as, who is not root.
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }

pg_make() {
    install -d -o postgres -m 755 "$T/pg"
    (cd "$T/pg" && as_postgres "$PG_BIN/initdb" -D "$T/pg/data" -U postgres --no-sync -E UTF8 --locale=C \
        --auth-local=trust --auth-host=scram-sha-256) >"$T/initdb.log" 2>&1 || fail "initdb"
    [ -z "$PG_NAME" ] || pg_certify
    pg_start
    sql postgres "create role weir login password '$PG_PASSWORD'; create database weir owner weir" ||
        fail "no role for weir"
    PGPASSFILE=$T/pgpass
    export PGPASSFILE
    (umask 077 && echo "${PG_NAME:-$PG_ADDRESS}:$PG_PORT:*:*:$PG_PASSWORD" >"$PGPASSFILE")
}

pg_certify() {
    (cd "$T/pg/data" && as_postgres openssl req -new -x509 -days 2 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
        -subj "/CN=$PG_NAME" -addext "subjectAltName=DNS:$PG_NAME" -addext basicConstraints=critical,CA:FALSE \
        -keyout server.key -out server.crt) 2>"$T/openssl.log" || fail "no certificate"
    echo "ssl = on" >>"$T/pg/data/postgresql.conf"
    cp "$T/pg/data/server.crt" "$T/pg/authority.pem"
}

pg_start() {
    # Without fsync: nobody cuts the power here, and the disk is busy.
    (cd "$T/pg" && exec setpriv --reuid=postgres --regid=postgres --clear-groups "$PG_BIN/postgres" \
        -D "$T/pg/data" -p "$PG_PORT" -c listen_addresses="$PG_ADDRESS" -c unix_socket_directories="$T/pg" \
        -c fsync=off -c shared_buffers=16MB -c max_connections=40) >>"$T/server.log" 2>&1 &
    PG_PID=$!
    remember "$PG_PID"
    # Beside other cases it has taken more than half a minute until it so much as looked at its directory.
    poll 120 "$PG_BIN/pg_isready" -q -h "$PG_ADDRESS" -p "$PG_PORT" ||
        fail "no PostgreSQL server: $(ps -o pid,stat,wchan:30,args -p "$PG_PID"; cat "/proc/$PG_PID/stack")"
}

# Ends all connections, and the server.
pg_stop() {
    kill -INT "$PG_PID"
    poll 30 gone "$PG_PID" || fail "the PostgreSQL server stays"
    rm -f "$T/$PG_PID.pid"
}

sql() { # DATABASE STATEMENTS
    psql -qtA -v ON_ERROR_STOP=1 -h "$T/pg" -p "$PG_PORT" -U postgres -d "$1" <<<"$2"
}
