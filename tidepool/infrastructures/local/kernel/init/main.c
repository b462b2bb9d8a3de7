/*
 * The first process of a machine, the way into one, and its cable. Static, so that it needs nothing of the machine's image.
 *
 *   init boot
 *       Makes new namespaces (mount, uts, ipc, net, pid), says "pid N" on stdout (N as the caller sees it) and
 *       leaves PID 1 of the machine behind. That one waits for a plan on stdin, carries its steps out, says "ok"
 *       (or "error: what went wrong", or "chroot: ..." where it was begun in one), and starts the plan's services, each when the one before is ready.
 *       Log: stderr. Descriptor 3: a table of the services, rewritten at each change.
 *       A plan that is cut short (its writer died) ends the machine before anything was done.
 *
 *   init enter PID START [CGROUP.PROCS...] -- COMMAND [ARGUMENT...]
 *       Runs a command in the machine whose PID 1 is PID, if that process began at START clock ticks after the
 *       host's boot: in its namespaces, its control groups, with its capabilities. Exits as the command did.
 *
 *   init cable SWITCH START MACHINE START PORT MAC ADDRESS PREFIX_LENGTH GATEWAY
 *       Plugs a machine that runs into another switch. The two are pids, each with its start as above; PORT is the
 *       name of the cable's end at the switch; GATEWAY may be empty. Says "error: what went wrong" and exits with 1 where it fails.
 *
 * A plan is a row of netstrings ("5:mount,1:/,..."): a step's name, then its arguments; the last step is "end".
 * tidepool/infrastructures/local/kernel/plan.py writes it and says what the steps are.
 */
#include "init.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "boot")) return boot();
    if (argc > 2 && !strcmp(argv[1], "enter")) return enter(argc, argv);
    if (argc == 11 && !strcmp(argv[1], "cable")) return cable(argv + 2);
    fprintf(stderr, "usage: init boot | init enter PID START [CGROUP.PROCS...] -- COMMAND [ARGUMENT...]"
                    " | init cable SWITCH START MACHINE START PORT MAC ADDRESS PREFIX_LENGTH GATEWAY\n");
    return 2;
}
