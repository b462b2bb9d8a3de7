/* From new namespaces to a running machine. */
#include "init.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*act)(void);
} steps[] = {
    {"mount", step_mount}, {"take", step_take},   {"root", step_root},     {"put", step_put},
    {"link", step_link},   {"device", step_device}, {"folder", step_folder}, {"file", step_file},
    {"hostname", step_hostname}, {"cgroups", step_cgroups}, {"service", step_service}, {"cable", step_cable},
    {"role", step_role},   {"confine", step_confine}, {"group", step_group}, {"hand-down", step_hand_down},
    {"hide", step_hide},
};

unsigned long long run_steps(void) {
    unsigned long long kept = ~0ULL;
    for (const char *name = field(); strcmp(name, "end"); name = field()) {
        size_t i = 0, count = sizeof steps / sizeof *steps;
        if (!strcmp(name, "drop")) {
            kept &= ~(1ULL << number()); /* done at the end: the steps need them */
            continue;
        }
        while (i < count && strcmp(name, steps[i].name)) i++;
        if (i == count) fail("the plan has an unknown step, %s", name);
        steps[i].act();
    }
    return kept;
}

static int run_plan(void) {
    umask(0022);
    read_plan();
    unsigned long long kept = run_steps();
    forget_plan();
    keep_capabilities(kept, handed_in(kept));
    prctl(PR_SET_DUMPABLE, 0); /* its log and table are files of the host: not to be opened through /proc/1/fd */
    return supervise();
}

int boot(void) {
    signal(SIGPIPE, SIG_IGN);
    close_range(STATUS_FD + 1, ~0U, 0); /* nothing of the caller's lives on here */
    if (fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC)) fail("descriptor 3 is not open");
    if (unshare(NAMESPACES)) fail("cannot make namespaces: %m");
    pid_t pid = fork();
    if (pid < 0) fail("cannot fork: %m");
    if (pid == 0) return run_plan();
    dprintf(STDOUT_FILENO, "pid %d\n", pid);
    return 0;
}
