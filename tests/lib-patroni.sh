# PostgreSQL as Patroni runs it: two servers on loopback, one a standby of the other, and etcd, in which they agree on
# who takes writes. Sourced after `begin` and lib-nodes.sh, whose `pg_make` and `sql` it replaces. Who is killed
# here takes no leave: its standby takes over when its key in etcd has run out.
# shellcheck shell=bash disable=SC2034 # what it sets is used by the cases

need curl etcd patroni pkill psql setpriv unshare /usr/lib/python3/dist-packages/etcd
PATRONI_PORTS=("$(free_port)" "$(free_port)") PATRONI_APIS=("$(free_port)" "$(free_port)")
META="postgres://weir@127.0.0.1:${PATRONI_PORTS[0]},127.0.0.1:${PATRONI_PORTS[1]}/weir"

pg_make() {
    install -d -o postgres -m 755 "$T/patroni"
    PGPASSFILE=$T/pgpass
    export PGPASSFILE
    (umask 077 && echo "127.0.0.1:*:*:*:$PG_PASSWORD" >"$PGPASSFILE")
    etcd_start
    local server
    for server in 0 1; do
        patroni_settings $server >"$T/patroni/$server.yml"
        patroni_start $server
        # The first one makes the database, which the second copies.
        poll 120 patroni_says $server "$([ $server = 0 ] && echo primary || echo replica)" ||
            fail "no server $server: $(tail -n 20 "$T/patroni$server.log")"
    done
    poll 60 patroni_whole || fail "no standby: $(curl -s "http://127.0.0.1:${PATRONI_APIS[0]}/cluster")"
    sql postgres "create role weir login password '$PG_PASSWORD'; create database weir owner weir" ||
        fail "no role for weir"
}

etcd_start() {
    local client peer
    client=$(free_port) peer=$(free_port)
    ETCD=127.0.0.1:$client
    (cd "$T/patroni" && exec etcd --name one --data-dir "$T/patroni/etcd" --unsafe-no-fsync \
        --listen-client-urls "http://$ETCD" --advertise-client-urls "http://$ETCD" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "one=http://127.0.0.1:$peer") >"$T/etcd.log" 2>&1 &
    remember $!
    poll 60 curl -sfo "$T/etcd.health" "http://$ETCD/health" || fail "no etcd"
}

# What Patroni is to do, as its manual has it; all times are as short as it lets them be.
patroni_settings() { # SERVER
    local port=${PATRONI_PORTS[$1]} api=${PATRONI_APIS[$1]}
    cat <<YAML
scope: weir
name: server$1
restapi: { listen: "127.0.0.1:$api", connect_address: "127.0.0.1:$api" }
etcd3: { host: "$ETCD" }
bootstrap:
  dcs:
    ttl: 8
    loop_wait: 1
    retry_timeout: 3
    primary_start_timeout: 0
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
  initdb: [ encoding: UTF8, locale: C, data-checksums, no-sync ]
postgresql:
  listen: "127.0.0.1:$port"
  connect_address: "127.0.0.1:$port"
  bin_dir: $PG_BIN
  data_dir: $T/patroni/data$1
  pgpass: $T/patroni/pgpass$1
  authentication:
    superuser: { username: postgres, password: $PG_PASSWORD }
    replication: { username: replicator, password: $PG_PASSWORD }
    rewind: { username: rewinder, password: $PG_PASSWORD }
  parameters: { unix_socket_directories: "$T/patroni", shared_buffers: 16MB, max_connections: 60, fsync: "off" }
  pg_hba:
    - local all all trust
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication all 127.0.0.1/32 scram-sha-256
YAML
}

# In a process namespace of its own, so that all of it ends with its first process.
patroni_start() { # SERVER
    # shellcheck disable=SC2016 # for the shell inside
    (cd "$T/patroni" && exec unshare --mount --pid --fork --kill-child --mount-proc bash -c "$DROP_COPIES"'; "$@"; exit' patroni \
        setpriv --reuid=postgres --regid=postgres --clear-groups env PATH=/usr/bin:/bin HOME="$T/patroni" \
        patroni "$T/patroni/$1.yml") >>"$T/patroni$1.log" 2>&1 &
    PATRONI_PIDS[$1]=$!
    remember $!
}

# Whether a server is `primary` or `replica`, and works.
patroni_says() { [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:${PATRONI_APIS[$1]}/$2")" = 200 ]; } # SERVER WORD

patroni_primary() {
    local server
    for server in 0 1; do
        if patroni_says $server primary; then echo $server && return; fi
    done
    return 1
}

# There is a primary, and a standby that commits wait for.
patroni_whole() {
    local primary
    primary=$(patroni_primary) && patroni_says $((1 - primary)) synchronous
}

# The server and who looks after it, both at once, as the loss of a machine ends them.
patroni_kill9() { # SERVER
    kill -KILL "${PATRONI_PIDS[$1]}" || fail "server $1 was not there"
    rm -f "$T/${PATRONI_PIDS[$1]}.pid"
}

# The server alone: who looks after it sees that at once.
patroni_kill9_postgres() { # SERVER
    pkill -KILL -o -f -- "postgres -D $T/patroni/data$1 " || fail "server $1 does not run"
}

# The other one takes over, by order.
patroni_switchover() {
    local primary
    primary=$(patroni_primary) || fail "nobody to hand over"
    curl -sf -X POST "http://127.0.0.1:${PATRONI_APIS[$primary]}/switchover" -d \
        "{\"leader\": \"server$primary\", \"candidate\": \"server$((1 - primary))\"}" >"$T/switchover" ||
        fail "no switchover: $(cat "$T/switchover")"
    poll 60 patroni_says $((1 - primary)) primary || fail "server $((1 - primary)) did not take over"
}

# Changes what Patroni is to do.
patroni_set() { # JSON
    curl -sf -o "$T/patroni.set" -X PATCH "http://127.0.0.1:${PATRONI_APIS[0]}/config" -d "$1" || fail "Patroni refuses $1"
}

sql() { # DATABASE STATEMENTS
    local primary
    primary=$(patroni_primary) || fail "no server takes writes"
    psql -qtA -v ON_ERROR_STOP=1 -h "$T/patroni" -p "${PATRONI_PORTS[$primary]}" -U postgres -d "$1" <<<"$2"
}
