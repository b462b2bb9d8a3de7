/* The services of a machine: started in order, started again when they die, stopped backwards. */
#include "init.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SERVICES 64
/* A daemon that lived this long is started again at once; one that did not waits, twice as long each time. */
#define STEADY_MS 10000
#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS 10000
/* How often it is looked for the path that a service begins with: a cluster's start may wait for it. */
#define BEGINS_LOOK_MS 10

enum state { WAITING, STARTING, UP, BACKING_OFF, DONE, STOPPED };
static const char *const state_names[] = {"waiting", "starting", "up", "backing-off", "done", "stopped"};

struct service {
    char *name, *user, *begins_path, *ready_kind, *ready_value;
    char **argv, **environment;
    long ready_timeout_ms, stop_timeout_ms;
    int once;
    enum state state;
    pid_t pid;
    long long started, due;
    long delay;
    int starts, was_ready;
};

static struct service services[MAX_SERVICES];
static int service_count;

static char **list_field(void) {
    long count = number();
    char **list = calloc(count + 1, sizeof *list);
    if (!list) fail("out of memory for the plan");
    for (long i = 0; i < count; i++) list[i] = strdup(field());
    return list;
}

void step_service(void) {
    if (service_count == MAX_SERVICES) fail("more than %d services", MAX_SERVICES);
    struct service *service = &services[service_count++];
    service->name = strdup(field());
    service->user = strdup(field());
    service->once = number();
    service->begins_path = strdup(field());
    service->ready_kind = strdup(field());
    service->ready_value = strdup(field());
    service->ready_timeout_ms = number();
    service->stop_timeout_ms = number();
    service->argv = list_field();
    service->environment = list_field();
}

static void show_status(void) {
    char table[MAX_SERVICES * 160];
    size_t used = 0;
    for (int i = 0; i < service_count; i++)
        used += snprintf(table + used, sizeof table - used, "%.80s\t%s\t%d\t%d\n", services[i].name,
                         state_names[services[i].state], services[i].pid,
                         services[i].starts ? services[i].starts - 1 : 0);
    used += snprintf(table + used, sizeof table - used, "end\n");
    /* A full disk must not stop the machine. */
    if (pwrite(STATUS_FD, table, used, 0) < 0 || ftruncate(STATUS_FD, used)) return;
}

static void enter_state(struct service *service, enum state state) {
    service->state = state;
    show_status();
}

static void run_service(struct service *service) __attribute__((noreturn));

static void run_service(struct service *service) {
    sigset_t none;
    struct user user;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    if (find_user(service->user, &user)) {
        say("%s: the image has no user %s", service->name, service->user);
        _exit(127);
    }
    if (setgroups(user.group_count, user.groups) || setgid(user.gid) || setuid(user.uid)) {
        say("%s: cannot become user %s: %m", service->name, service->user);
        _exit(127);
    }
    execve(service->argv[0], service->argv, service->environment);
    say("%s: cannot run %s: %m", service->name, service->argv[0]);
    _exit(127);
}

static void start_service(struct service *service) {
    service->pid = fork();
    if (service->pid == 0) run_service(service);
    service->started = now_ms();
    service->starts++;
    if (service->pid < 0) {
        say("%s: cannot start: %m", service->name);
        service->pid = 0;
        service->due = service->started + LAST_DELAY_MS;
        enter_state(service, BACKING_OFF);
        return;
    }
    say("%s: started, pid %d", service->name, service->pid);
    enter_state(service, STARTING);
}

static int is_ready(const struct service *service) {
    if (service->once) return 0; /* by its exit only */
    if (!strcmp(service->ready_kind, "tcp")) {
        unsigned port = strtoul(service->ready_value, NULL, 10);
        return listens(port);
    }
    if (!strcmp(service->ready_kind, "unix")) return answers(service->ready_value);
    if (!strcmp(service->ready_kind, "path")) return !access(service->ready_value, F_OK);
    return 1;
}

static int may_begin(const struct service *service) {
    return !*service->begins_path || !access(service->begins_path, F_OK);
}

static void mark_ready(struct service *service, enum state state) {
    say("%s: ready after %lld ms", service->name, now_ms() - service->started);
    service->was_ready = 1;
    enter_state(service, state);
}

static void reap(int stopping) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < service_count; i++) {
            struct service *service = &services[i];
            if (service->pid != pid) continue;
            long long now = now_ms(), lived = now - service->started;
            service->pid = 0;
            if (service->once && !stopping && WIFEXITED(status) && !WEXITSTATUS(status)) {
                mark_ready(service, DONE);
                break;
            }
            say("%s: %s %d after %lld ms", service->name, WIFEXITED(status) ? "ended with exit code" : "killed by signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), lived);
            if (stopping) {
                enter_state(service, STOPPED);
                break;
            }
            if (lived >= STEADY_MS) service->delay = 0;
            service->due = now + service->delay;
            service->delay = service->delay ? service->delay * 2 : FIRST_DELAY_MS;
            if (service->delay > LAST_DELAY_MS) service->delay = LAST_DELAY_MS;
            enter_state(service, BACKING_OFF);
            break;
        }
}

/* Does what is due; says in how many milliseconds it wants to look again (-1: when a signal comes). */
static int advance(void) {
    long long now = now_ms(), wake = -1;
    for (int i = 0; i < service_count; i++) {
        struct service *service = &services[i];
        if (service->state == BACKING_OFF && now >= service->due) enter_state(service, WAITING);
        if (service->state == WAITING) {
            if (may_begin(service)) start_service(service);
            else if (wake < 0 || BEGINS_LOOK_MS < wake) wake = BEGINS_LOOK_MS;
        }
        if (service->state == STARTING && is_ready(service)) mark_ready(service, UP);
        if (service->state == STARTING) {
            long long waited = now - service->started;
            if (service->ready_timeout_ms && waited > service->ready_timeout_ms) {
                say("%s: not ready after %lld ms: killed, to be started again", service->name, waited);
                kill(service->pid, SIGKILL);
                service->started = now; /* asked for once; what came of it is told by its exit */
            }
            /* Often at first, when it matters; then so that looking adds an eighth to the time at most. */
            long long look = service->once ? 1000 : waited < 32 ? 4 : waited < 2000 ? waited / 8 : 250;
            if (wake < 0 || look < wake) wake = look;
        }
        if (service->state == BACKING_OFF && (wake < 0 || service->due - now < wake))
            wake = service->due > now ? service->due - now : 0;
        if (!service->was_ready) break; /* the next one stands on this one */
    }
    return wake;
}

static void wait_for_signal(int signals, long long timeout, int *stop) {
    struct pollfd ready = {signals, POLLIN, 0};
    struct signalfd_siginfo got;
    if (poll(&ready, 1, timeout) <= 0) return;
    while (read(signals, &got, sizeof got) == sizeof got)
        if (got.ssi_signo == SIGTERM || got.ssi_signo == SIGINT) *stop = 1;
}

static void stop_services(int signals) {
    int asked = 1;
    say("asked to stop");
    for (int i = service_count - 1; i >= 0; i--) {
        struct service *service = &services[i];
        long long deadline = now_ms() + service->stop_timeout_ms;
        if (service->pid) kill(service->pid, SIGTERM);
        for (reap(1); service->pid; reap(1)) {
            long long left = deadline - now_ms();
            if (left <= 0) {
                say("%s: still there after %ld ms: killed", service->name, service->stop_timeout_ms);
                kill(service->pid, SIGKILL);
                deadline += 1000;
                left = 1000;
            }
            wait_for_signal(signals, left, &asked);
        }
        if (service->state != STOPPED) enter_state(service, STOPPED);
    }
    say("stopped");
}

int supervise(void) {
    sigset_t wanted;
    int stop = 0, told = 0;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    /* Blocked signals reach even a PID 1 without handlers, and wait to be read. */
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) fail("cannot wait for signals: %m");
    show_status(); /* whoever hears that the machine booted may look at once */
    dprintf(STDOUT_FILENO, "ok\n");
    /* Whoever made the machine may be gone at any time from here on: nothing hangs on its pipes. */
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    while (!stop) {
        reap(0);
        int timeout = advance();
        if (!told && (!service_count || services[service_count - 1].was_ready)) {
            told = 1;
            say("all services are ready");
        }
        wait_for_signal(signals, timeout, &stop);
    }
    stop_services(signals);
    return 0; /* and the kernel ends all else that ran in the machine */
}
