#!/usr/bin/env bash
# What the scripts need. A script says it itself: a case by `need PROGRAM...`, any other file by a
# comment `needs: PROGRAM...` at the beginning of a line. The table scripts/programs has the package
# of each.
#
#   needs.sh of LAYER              what the scripts of a layer need: build, test, bench, docs or dist
#   needs.sh in FILE...             what these files need
#   needs.sh packages PROGRAM...    their packages
#   needs.sh check                  that nothing is needed that the table does not have, and that no
#                                   script calls a program of the table that it does not name
#   needs.sh called FILE...         words in the place of commands
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD=(Makefile scripts/demo.sh)
DIST=(packaging/*.sh packaging/*.py)
TEST=(tests/*.sh tests/cases/*.sh tests/s3/*.sh tests/tools/*.py scripts/vm.sh)
BENCH=(perf/*.py perf/*/*.py perf/*.sh tests/lib.sh tests/s3/*.sh)
DOCS=(scripts/docs.sh)

layer() {
    case $1 in
        build) needed "${BUILD[@]}" ;;
        test) needed "${TEST[@]}" ;;
        bench) needed "${BENCH[@]}" ;;
        docs) needed "${DOCS[@]}" ;;
        dist) needed "${DIST[@]}" ;;
        *) echo "no layer $1: build, test, bench, docs or dist" >&2; return 2 ;;
    esac
}

needed() { # FILE...
    sed -nE 's/^(need|# needs:|""" *needs:) +([^#;&|]*).*/\2/p' "$@" | tr -s ' ' '\n' | sed '/^$/d' | sort -u
}

packages() { # PROGRAM...
    awk -v asked="$*" 'BEGIN { n = split(asked, names, " ") }
        !/^#/ && NF == 2 { has[$1] = $2 }
        END {
            for (i = 1; i <= n; i++) {
                if (!(names[i] in has)) { print "scripts/programs has no " names[i] >"/dev/stderr"; bad = 1 }
                else print has[names[i]]
            }
            exit bad
        }' scripts/programs
}

# The words of shell scripts that stand where commands do, and the programs that Python runs, as
# `FILE WORD`. Simple: no quotes are understood, so some are no commands.
called() { # FILE...
    awk '
        FNR == 1 { is_py = FILENAME ~ /\.py$/; here = "" }
        is_py {
            line = $0
            while (match(line, /(run|Popen|check_output|which)\(\[?"[a-z0-9._-]+"/)) {
                word = substr(line, RSTART, RLENGTH)
                gsub(/.*\(\[?"|"/, "", word)
                print FILENAME, word
                line = substr(line, RSTART + RLENGTH)
            }
            next
        }
        here != "" { if ($1 == here) here = ""; next }
        /^[ \t]*#/ { next }
        {
            if (match($0, /<<-?[ ]*'"'"'?(PY|EOF|JSON|INIT|SUMMARY)'"'"'?/)) {
                here = substr($0, RSTART, RLENGTH); gsub(/[^A-Z]/, "", here)
            }
            sub(/[ \t]#.*/, "")
            n = split($0, parts, /[|;&(!{`]/)
            for (i = 1; i <= n; i++) {
                m = split(parts[i], words, " ")
                # Options, numbers, settings and words like these may stand before the command.
                for (j = 1; j <= m && words[j] ~ /^(-|[0-9]|[A-Z_]+=|"?\$|>)|^(then|do|else|if|while|until|exec|nice|timeout|xargs|time|poll)$/; j++) {}
                # `print` is of awk programs, whatever a machine has by that name.
                if (j <= m && words[j] ~ /^[a-zA-Z][a-zA-Z0-9_.+-]*$/ && words[j] != "print")
                    print FILENAME, words[j]
            }
        }' "$@" | sort -u
}

# What a file may call: what it names, and what the files that it sources do.
allowed() { # FILE
    local more=()
    case $1 in
        tests/cases/vm-* | tests/lib-guest.sh) more=(tests/lib.sh tests/lib-vm.sh tests/lib-guest.sh) ;;
        tests/*.sh) more=(tests/lib.sh) ;;
        perf/*.py) more=(perf/__main__.py) ;;
        perf/*.sh) more=(tests/lib.sh) ;;
    esac
    local sourced
    sourced=$(grep -oE 'lib-[a-z]+\.sh' "$1" | sort -u | sed 's#^#tests/#') || true
    # shellcheck disable=SC2086 # words
    needed "$1" "${more[@]}" $sourced
}

check() {
    local files=("${BUILD[@]}" "${TEST[@]}" "${BENCH[@]}" "${DOCS[@]}" "${DIST[@]}") wrong=0 file words word all
    all=$(needed "${files[@]}")
    # shellcheck disable=SC2086 # words
    packages $all >/dev/null || wrong=1
    local -A table=() may=()
    while read -r word _; do table[$word]=1; done < <(sed '/^#/d; /^$/d' scripts/programs)
    local last=
    while read -r file word; do
        [ -n "${table[$word]:-}" ] || continue
        if [ "$file" != "$last" ]; then
            last=$file may=()
            while read -r words; do may[$words]=1; done < <(allowed "$file")
        fi
        [ -z "${may[$word]:-}" ] || continue
        echo "$file calls $word, and does not say that it needs it" >&2
        wrong=1
    done < <(called $(printf '%s\n' "${files[@]}" | grep -E '\.(sh|py)$' | sort -u))
    return $wrong
}

case ${1:-} in
    of) layer "${2:-}" ;;
    in) needed "${@:2}" ;;
    packages) packages "${@:2}" ;;
    check) check ;;
    called) called "${@:2}" ;;
    *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
