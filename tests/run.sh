#!/usr/bin/env bash
# tests/run.sh [PART...] - proves what is promised, from a bare Debian 12, as root.
#
# Parts: unit cases stress fuzz faults fix security bench container examples browser (default: all).
# Installs what is missing, builds the presets a part needs, runs it, and ends with one line,
# `N passed, N failed`: the sum over everything. Exit 0 only when nothing failed. One line per suite;
# the log of a suite that failed follows it. All logs stay in tests/.work. With CI=true warnings of the
# dev and release presets are errors.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
logs=$root/tests/.work
shared=$root/../shared
all=(unit cases stress fuzz faults fix security bench container examples browser)
passed=0
failed=0
declare -A built=()

# Reports of the sanitizers: gRPC and the system's libraries are not compiled for TSan.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-ignore_noninstrumented_modules=1:halt_on_error=1}

usage() {
    sed -n '2,/^set/{/^set/!p}' "$0" | sed 's/^# \{0,1\}//' >&2
    exit 2
}

seconds() { echo $((SECONDS - $1)); }

# The counts in a log, whoever wrote it: ours ("3 passed, 1 failed"), ctest, unittest.
# Prints "PASSED FAILED", or nothing when it has no closing line.
counts() {
    awk '
        match($0, /^[0-9]+ passed, [0-9]+ failed/) { split($0, n, " "); p = n[1]; f = n[3]; seen = 1 }
        / tests? failed out of [0-9]+$/ { f = $4; p = $NF - f; seen = 1 }
        /^Ran [0-9]+ tests? in / { p = $2; f = 0; seen = 1; unit = 1 }
        unit && /^FAILED \(/ { gsub(/[^0-9]+/, " "); f = 0; for (i = 1; i <= NF; i++) f += $i; p -= f }
        END { if (seen) print p, f }' "$1"
}

# What a reader needs of a failed suite, said once more before the last line: whoever cuts the output of
# a run keeps its end. Names first, then what they said: ctest's list, Criterion's, sanitizers' and ours.
reasons() {
    grep -E '^[[:space:]]+[0-9]+ - .*\(|^(FAIL|FAILED|ERROR|not ok)\b' "$1" | tail -n 12
    grep -E '^(\[----\]|\[FAIL\]|\[CRASH\]) |Sanitizer:|runtime error:|Assertion|ssertion.*failed|^[A-Za-z.]*Error:' "$1" | head -n 12
}

suite_log() { printf '%s/%s.log\n' "$logs" "${1//[^a-zA-Z0-9._-]/-}"; }

# suite_run NAME LIMIT_S COMMAND...: runs it; what came of it is beside its log.
suite_run() {
    local limit_s=$2 start=$SECONDS log
    log=$(suite_log "$1")
    shift 2
    timeout --kill-after=20 "$limit_s" "$@" >"$log" 2>&1 </dev/null
    printf '%s %s %s\n' "$?" "$(seconds "$start")" "$limit_s" >"$log.end"
}

# One line, and its share of the sum. A suite that ends badly without having counted a failure is one
# failure; one without a closing line is one test.
suite_count() {
    local name=$1 log code took_s limit_s p f
    log=$(suite_log "$name")
    read -r code took_s limit_s <"$log.end"
    read -r p f < <(counts "$log"; echo)
    if [ -z "${p:-}" ]; then p=$((code == 0)); f=$((code != 0)); fi
    [ "$code" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    passed=$((passed + p))
    failed=$((failed + f))
    printf '%-4s %-34s %5d passed, %d failed (%d s)\n' "$([ "$f" -eq 0 ] && echo ok || echo FAIL)" "$name" "$p" "$f" "$took_s"
    if [ "$f" -gt 0 ]; then
        [ "$code" -ne 124 ] || echo "     | it did not end within $limit_s s"
        tail -n 60 "$log" | sed 's/^/     | /'
        { echo "FAIL $name, code $code"; reasons "$log" | sed 's/^/     | /'; } >>"$logs/failed.txt"
    fi
    [ "$f" -eq 0 ]
}

suite() {
    suite_run "$@"
    suite_count "$1"
}

# Something that has to work before tests can run; nothing is counted when it does.
step() {
    local name=$1 start=$SECONDS log=$logs/$1.log
    shift
    if timeout 1800 "$@" >"$log" 2>&1 </dev/null; then
        printf '     %-34s done (%d s)\n' "$name" "$(seconds "$start")"
        return 0
    fi
    failed=$((failed + 1))
    printf 'FAIL %s\n' "$name"
    tail -n 60 "$log" | sed 's/^/     | /'
    return 1
}

nothing() { printf '     %-34s nothing to run yet\n' "$1"; }

# A preset, once in a run. In CI the warnings of the two presets that people build are errors; the
# project's own are not, so that a new compiler locks nobody out.
build() {
    local preset=$1 strict=()
    [ -z "${built[$preset]:-}" ] || return "${built[$preset]}"
    case ${CI:-}.$preset in
        true.dev | true.release) strict=(-DCMAKE_COMPILE_WARNING_AS_ERROR=ON) ;;
    esac
    step "configure-$preset" cmake --preset "$preset" "${strict[@]}" && step "build-$preset" cmake --build --preset "$preset"
    built[$preset]=$?
    return "${built[$preset]}"
}

has_tests() { [ -d "tests/$1" ] && [ -f "tests/$1/CMakeLists.txt" ]; }

# The tests of one label in one preset.
labelled() {
    local label=$1 preset=$2 jobs=$3
    build "$preset" || return
    suite "$label.ctest ($preset)" 1200 ctest --test-dir "build/$preset" -L "^$label\$" -j "$jobs" --output-on-failure \
        --no-tests=error
}

# Programs of a part that need no build of their own: tests/PART/run.
has_run() { [ -x "tests/$1/run" ]; }

part_unit() {
    has_tests unit && labelled unit dev 2
    suite 'unit.cases-runner' 300 tests/cases/lib/test_runner.py
}

# The folders of cases: our own, and the shared ones where they are.
case_folders() {
    local folder
    for folder in tests/cases/*/; do
        ! compgen -G "$folder*.json" >/dev/null || printf '%s\n' "$folder"
    done
    [ ! -d "$shared/cases" ] || printf '%s\n' "$shared/cases"
}

# The due cases against a build with sanitizers, which judges everything but time.
sanitized_cases() {
    local preset=$1 what=$2 folders
    mapfile -t folders < <(case_folders)
    build "$preset" && suite "cases ($preset: $what)" 900 tests/cases/run --no-times --program "build/$preset/tradewake" \
        --must tests/cases/expected.txt "${folders[@]}"
}

part_cases() {
    local folders program
    build release || return
    mapfile -t folders < <(case_folders)
    suite 'cases' 900 tests/cases/run --must tests/cases/expected.txt "${folders[@]}"
    grep -h '^not due yet' "$logs/cases.log" | sed 's/^/     /'
    suite 'simulation' 600 tests/simulation/run
    sanitized_cases dev 'ASan, UBSan'
    [ "${built[dev]:-1}" -ne 0 ] || suite 'simulation (dev)' 600 tests/simulation/run --events 1000 --program build/dev/tradewake
    part_blackbox
}

# What measures has the machine to itself; the others wait most of their time, two at once.
part_blackbox() {
    local name alone=(burst slow_reader watched) others=()
    for name in tests/blackbox/*.py; do
        name=$(basename "$name" .py)
        case " ${alone[*]} " in *" $name "*) ;; *) others+=("$name") ;; esac
    done
    for name in "${alone[@]}"; do
        suite_run "blackbox.$name" 600 "tests/blackbox/$name.py"
    done
    for name in "${others[@]}"; do
        suite_run "blackbox.$name" 600 "tests/blackbox/$name.py" &
        while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    done
    wait
    for name in "${alone[@]}" "${others[@]}"; do
        suite_count "blackbox.$name"
        grep -h '^     ' "$logs/blackbox.$name.log"
    done
}

part_stress() {
    local name
    if has_tests stress; then labelled stress tsan 1; else nothing stress; fi
    sanitized_cases tsan TSan || return
    for name in burst lost once; do
        suite "blackbox.$name (tsan)" 600 "tests/blackbox/$name.py" --program build/tsan/tradewake
    done
}

part_fuzz() {
    if has_tests fuzz; then labelled fuzz fuzz 2; else nothing fuzz; fi
}

# The rounds of faults wait most of their time, the schedules never: both at once.
part_faults() {
    local schedules=
    build faults || return
    if build release; then
        suite_run schedules 1200 nice -n 10 tests/schedules/run &
        schedules=$!
    fi
    suite faults 1200 tests/faults/run
    grep -h '^     ' "$logs/faults.log"
    suite 'cases (faults: jobs are parked slowly)' 300 env TW_FAULT_PARK_MS=50 \
        tests/cases/run --no-times --program build/faults/tradewake --filter 'refused again and again' tests/cases/reports
    suite 'fix.kill (faults: at each of its places)' 300 tests/fix/kill.py --rounds 6 --program build/faults/tradewake
    [ -n "$schedules" ] || return
    wait "$schedules"
    suite_count schedules
    grep -h '^     ' "$logs/schedules.log"
}

part_examples() {
    suite 'examples.quickstart' 1200 client-examples/quickstart.sh
    grep -h -A 5 '^own time' "$logs/examples.quickstart.log" | sed 's/^/     /'
    has_run examples && build release || return
    suite 'examples' 900 tests/examples/run
    grep -h '^     ' "$logs/examples.log"
}

# Builds what it tests by itself: the image, with the release preset inside.
part_container() {
    suite container 1200 tests/container/run
    grep -h '^     ' "$logs/container.log"
}

# A browser is large: only who runs this part gets it.
part_browser() {
    step packages-browser docker/install-deps.sh browser && part_of_its_own browser
}

# Parts that are one program, tests/PART/run, on the release build.
part_of_its_own() {
    if has_run "$1"; then
        build release && suite "$1" 1200 "tests/$1/run" && grep -h '^     ' "$logs/$1.log"
    else
        nothing "$1"
    fi
}

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")
for part in "${parts[@]}"; do
    case " ${all[*]} " in *" $part "*) ;; *) usage ;; esac
done
mkdir -p "$logs"
: >"$logs/failed.txt"
if step packages docker/install-deps.sh build test examples; then
    for part in "${parts[@]}"; do
        case $part in
            unit | cases | stress | fuzz | faults | container | examples | browser) "part_$part" ;;
            *) part_of_its_own "$part" ;;
        esac
    done
fi
[ ! -s "$logs/failed.txt" ] || { printf '\nwhat failed, once more:\n'; cat "$logs/failed.txt"; }
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
