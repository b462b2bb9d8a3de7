/* The way into a machine. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Field 22 of /proc/PID/stat: when the process began, in clock ticks since the host's boot. 0: it is gone. */
unsigned long long start_of(const char *pid) {
    char path[64], text[2048];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (size <= 0) return 0;
    text[size] = 0;
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at && strchr("ZX", at[2])) return 0; /* it ended, and nobody has asked how yet */
    for (int skip = 0; at && skip < 20; skip++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* Its bounding set; or that which it says with its inheritable one, where it has more than is for others. */
static unsigned long long handed_in_by(const char *pid) {
    char path[64], line[256];
    unsigned long long bounding = 0, inheritable = 0;
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "CapInh: %llx", &inheritable);
        sscanf(line, "CapBnd: %llx", &bounding);
    }
    if (file) fclose(file);
    return inheritable ? inheritable : bounding;
}

static void fail_entry(const char *what) __attribute__((noreturn));

static void fail_entry(const char *what) {
    fprintf(stderr, "init: %s: %m\n", what);
    _exit(125);
}

/* Signals that somebody sends to the way in, and means for the command. */
static const int PASSED_ON[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
#define PASSED_ON_COUNT (sizeof PASSED_ON / sizeof *PASSED_ON)

static volatile pid_t command;

static void pass_on(int number) { kill(command, number); }

int enter(int argc, char **argv) {
    if (argc < 4) return 125;
    int machine = syscall(SYS_pidfd_open, atoi(argv[2]), 0);
    if (machine < 0 || start_of(argv[2]) != strtoull(argv[3], NULL, 10)) {
        fprintf(stderr, "init: the machine is not running\n");
        return 125;
    }
    unsigned long long kept = handed_in_by(argv[2]);
    int at = 4;
    for (; at < argc && strcmp(argv[at], "--"); at++) {
        int group = open(argv[at], O_WRONLY | O_CLOEXEC);
        if (group < 0 || write(group, "0", 1) != 1) fail_entry(argv[at]);
        close(group);
    }
    if (++at >= argc) return 125;
    char path[64];
    struct stat its, ours;
    snprintf(path, sizeof path, "/proc/%.20s/root", argv[2]);
    if (stat(path, &its)) fail_entry(path);
    if (setns(machine, ALL_NAMESPACES)) fail_entry(errno == ESRCH ? "the machine ended" : "cannot enter the machine");
    close(machine);
    /* Whatever happened: a command for the machine never runs on another root than the machine's. */
    if (stat("/", &ours) || its.st_dev != ours.st_dev || its.st_ino != ours.st_ino) {
        fprintf(stderr, "init: refused: the way into the machine leads to another root than its own\n");
        return 125;
    }
    keep_capabilities(kept, 0);
    if (chdir("/")) fail_entry("/");
    sigset_t held, before;
    sigemptyset(&held);
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) sigaddset(&held, PASSED_ON[i]);
    sigprocmask(SIG_BLOCK, &held, &before); /* until it is known to whom they go */
    pid_t pid = fork(); /* only a child is in the new pid namespace */
    if (pid < 0) fail_entry("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execvp(argv[at], argv + at);
        fprintf(stderr, "init: cannot run %s: %m\n", argv[at]);
        _exit(errno == ENOENT ? 127 : 126);
    }
    /* A terminal's Ctrl-C goes to the command, which decides. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    command = pid;
    for (size_t i = 0; i < PASSED_ON_COUNT; i++) signal(PASSED_ON[i], pass_on);
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) fail_entry("cannot wait for the command");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
