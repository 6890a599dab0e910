#!/usr/bin/env bash
# A build tree that two nodes share: both compile at once and by turns, one runs what the other linked, and `make` on
# each does what is left to do and nothing else. And fsx on both nodes at once, in one directory, the files held
# against each other.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-nodes.sh"
need cc make fsx
seed

PARTS=24
nodes_make 2
mkdir "$(node 0)/build"
for n in 0 1; do W[n]=$(node "$n")/build; done
cd "${W[0]}" || fail "no directory"
printf '#define ANSWER 1\n' >answer.h
{
    printf '#include <stdio.h>\n'
    for n in $(seq $PARTS); do printf 'int part%d(void);\n' "$n"; done
    printf 'int main(void) { int sum = 0;\n'
    for n in $(seq $PARTS); do printf 'sum += part%d();\n' "$n"; done
    printf 'printf("%%d\\n", sum); return 0; }\n'
} >main.c
for n in $(seq $PARTS); do
    # Half of them know the header.
    if [ $((n % 2)) = 0 ]; then
        printf '#include "answer.h"\nint part%d(void) { return ANSWER * %d; }\n' "$n" "$n"
    else
        printf 'int part%d(void) { return %d; }\n' "$n" "$n"
    fi >"part$n.c"
done
cat >Makefile <<'MAKE'
OBJECTS := main.o $(patsubst %.c,%.o,$(sort $(wildcard part*.c)))
all: sum
sum: $(OBJECTS)
	$(CC) -o $@ $^
%.o: %.c
	@echo "compiles $<" >>$(LOG)
	$(CC) -MMD -c -o $@ $<
-include $(OBJECTS:.o=.d)
low: $(patsubst %,part%.o,1 2 3 4 5 6 7 8 9 10 11 12)
high: $(patsubst %,part%.o,13 14 15 16 17 18 19 20 21 22 23 24)
MAKE
cd "$T" || fail "no directory"
LOGS=("$T/log0" "$T/log1")
: >"${LOGS[0]}"
: >"${LOGS[1]}"
build() { make -s -C "${W[$1]}" LOG="${LOGS[$1]}" "${@:2}" || fail "make on node $1: ${*:2}"; } # NODE ARGS...
compiled() { wc -l <"${LOGS[$1]}"; } # NODE

echo "== both compile a half at once, one links, the other runs it"
build 0 -j4 low &
one=$!
build 1 -j4 high &
other=$!
wait $one || fail "node 0"
wait $other || fail "node 1"
same "$(compiled 0) $(compiled 1)" "12 12" "parts that each compiled"
build 0 -j4
same "$("${W[1]}/sum")" 300 "what the other node linked says"
same "$(compiled 0) $(compiled 1)" "13 12" "parts compiled until it was linked"
make -q -C "${W[1]}" LOG=/dev/null || fail "to node 1 there is something left to do"

echo "== a header changes on one, the other compiles what needs it, and nothing else"
sleep 1.1
printf '#define ANSWER 2\n' >"${W[1]}/answer.h"
build 0 -j4
same "$(compiled 0)" 25 "parts that node 0 compiled in all"
same "$("${W[1]}/sum")" 456 "what it says on node 1"
same "$("${W[0]}/sum")" 456 "what it says on node 0"
make -q -C "${W[1]}" LOG=/dev/null || fail "to node 1 there is something left to do"

echo "== clean on one, and everything anew on the other, four times by turns"
for round in 1 2 3 4; do
    n=$((round % 2))
    rm -f "${W[1 - n]}"/*.o "${W[1 - n]}"/*.d "${W[1 - n]}/sum"
    printf '#define ANSWER %d\n' "$round" >"${W[1 - n]}/answer.h"
    : >"${LOGS[n]}"
    build "$n" -j4
    same "$(compiled "$n")" 25 "parts compiled in round $round"
    same "$("${W[1 - n]}/sum")" $((144 + 156 * round)) "what it says in round $round"
done

echo "== fsx on both nodes at once"
mkdir "$(node 0)/fsx"
operations=$(amount 800 20000)
cat >"$T/fsx.toml" <<'TOML'
flen = 3000000
[opsize]
max = 65536
[weights]
close_open = 5
invalidate = 2
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 4
fsync = 1
punch_hole = 5
copy_file_range = 5
TOML
pids=()
for n in 0 1; do
    fsx -f "$T/fsx.toml" -N "$operations" -S $((SEED + n)) -P "$T" "$(node "$n")/fsx/file$n" >"$T/fsx$n.log" 2>&1 &
    pids+=($!)
done
for n in 0 1; do wait "${pids[n]}" || fail "fsx on node $n: $(tail -20 "$T/fsx$n.log")"; done
for n in 0 1; do cmp "$(node 0)/fsx/file$n" "$(node 1)/fsx/file$n" || fail "the nodes differ in file$n"; done
nodes_umount
"$WEIR" fsck --data "$URL" || fail "fsck finds problems in $URL"
