#!/usr/bin/python3
"""What bash, zsh and fish offer after `tradewake`, as their own completion answers it."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

from blackbox import prove  # noqa: E402

BASH = ('source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tradewake; '
        'printf "%s\\n" "${COMPREPLY[@]}"')
# bashcompinit calls the function as ksh would: arrays from 0, words split.
ZSH = ('autoload -Uz compinit; compinit -D -u; eval "$("$1" completion zsh)"; shift; offer() { emulate -L ksh; '
       'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tradewake; printf "%s\\n" "${COMPREPLY[@]}"; }; offer "$@"')
FISH = '$argv[1] completion fish | source; complete -C "$argv[2]"'

# What is typed, what has to be offered, what must not be.
ASKED = [
    (["fol"], {"followers"}, {"copies"}),
    ([""], {"serve", "submit", "top", "doctor", "completion"}, {"open"}),
    (["submit", ""], {"open", "close", "trigger"}, {"serve"}),
    (["followers", "com"], {"compare"}, {"create"}),
    (["top", "--int"], {"--interval"}, {"--over"}),
    (["followers", "mode", "--ser"], {"--server"}, set()),
    (["doctor", "-o", ""], {"json", "table"}, {"--over"}),
    (["submit", "open", "--wait", "s"], {"sent"}, {"done"}),
    (["serve", "--executor-real"], {"--executor-realtime"}, {"--executor-pinned"}),
    (["serve", "--executor-realtime", ""], {"auto", "off"}, {"--config"}),
]


def offered(shell, program, words):
    typed = ["tradewake", *words]
    command = {"bash": ["bash", "--norc", "-c", BASH, "bash", program, *typed],
               "zsh": ["zsh", "-f", "-c", ZSH, "zsh", program, *typed],
               "fish": ["fish", "--no-config", "-c", FISH, program, " ".join(typed)]}[shell]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if ended.stderr:
        print("     %s: %s" % (shell, ended.stderr.strip()))
    found = {line.split("\t")[0] for line in ended.stdout.splitlines()}
    if shell == "zsh":  # its compgen leaves the prefix to the matcher, which comes after
        found = {word for word in found if word.startswith(words[-1])}
    return found


def main(options, checks):
    program = os.path.abspath(options.program)
    for shell in ("bash", "zsh", "fish"):
        for words, wanted, unwanted in ASKED:
            found = offered(shell, program, words)
            checks.true("%s: tradewake %s" % (shell, " ".join(words)), wanted <= found and not unwanted & found,
                        "%s; missing %s, too many %s" % (sorted(found)[:12], sorted(wanted - found), sorted(unwanted & found)))
    wrong = subprocess.run([program, "completion", "tcsh"], stderr=subprocess.PIPE, text=True)
    checks.true("another shell is a usage error that names the three", wrong.returncode == 2 and "bash, zsh or fish" in wrong.stderr, wrong.stderr)


prove(main)
