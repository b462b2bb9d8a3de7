/* A service: started, started again when it dies, stopped. */
#include "services.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often it is looked for the path that a service begins with: a cluster's start may wait for it. */
#define BEGINS_LOOK_MS 10
/* The table of the services, for who looks from within a machine that has roles. */
#define TABLE_FOLDER "/run/tidepool"
#define TABLE TABLE_FOLDER "/services"
/* In it a file of a service's name asks for that one to be started, though it ended on purpose. */
#define REQUESTS TABLE_FOLDER "/start"

static const char *const state_names[] = {"off",         "waiting", "starting", "up",
                                          "backing-off", "done",    "ended",    "stopping", "stopped"};

struct service services[MAX_SERVICES];
int service_count;
/* Capabilities that services without a role do not have, though this process has. */
static unsigned long long confined;

char **list_field(void) {
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
    service->role = role_named(field());
    service->state = service->role ? OFF : WAITING;
    service->user = strdup(field());
    service->capabilities = number();
    service->once = number();
    service->on_failure = number();
    service->begins_path = strdup(field());
    service->ready_kind = strdup(field());
    service->ready_value = strdup(field());
    service->ready_timeout_ms = number();
    service->stop_timeout_ms = number();
    service->argv = list_field();
    service->environment = list_field();
}

void step_confine(void) { confined |= 1ULL << number(); }
unsigned long long handed_in(unsigned long long kept) { return confined ? kept & ~confined : 0; }

static void show_within(const char *table, size_t size) {
    static int within = -1;
    if (!role_count) return;
    if (within < 0) {
        mkdir(TABLE_FOLDER, 0755);
        within = open(TABLE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
    if (within < 0 || pwrite(within, table, size, 0) < 0 || ftruncate(within, size)) return;
}

/* The CRC-32 of zip and PNG (polynomial 0xedb88320). Who reads while the table is rewritten may see some of both. */
static unsigned checksum(const char *text, size_t size) {
    unsigned sum = ~0u;
    for (size_t i = 0; i < size; i++) {
        sum ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & -(sum & 1));
    }
    return ~sum;
}

void show_status(void) {
    char table[MAX_SERVICES * 192];
    size_t used = 0;
    for (int i = 0; i < service_count; i++)
        used += snprintf(table + used, sizeof table - used, "%.64s\t%s\t%d\t%d\t%.63s\n", services[i].name,
                         state_names[services[i].state], services[i].pid,
                         services[i].starts ? services[i].starts - 1 : 0,
                         services[i].role ? services[i].role->name : "");
    used += snprintf(table + used, sizeof table - used, "end\t%u\n", checksum(table, used));
    show_within(table, used);
    /* A full disk must not stop the machine. */
    if (pwrite(STATUS_FD, table, used, 0) < 0 || ftruncate(STATUS_FD, used)) return;
}

void enter_state(struct service *service, enum state state) {
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
    if (service->role) settle_in(service->role, service->capabilities);
    else if (confined) keep_capabilities(~confined | service->capabilities, 0);
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

/* Whether somebody has asked for it; that is over by this. */
static int is_asked_for(const struct service *service) {
    char path[sizeof REQUESTS + 66];
    snprintf(path, sizeof path, REQUESTS "/%.64s", service->name);
    return !unlink(path);
}

static void start_service(struct service *service) {
    is_asked_for(service); /* so it was */
    service->pid = fork_into(service->role);
    if (service->pid == 0) run_service(service);
    service->started = now_ms();
    service->starts++;
    if (service->pid < 0) {
        say("%s: cannot start: %m", service->name);
        service->pid = 0;
        /* A role's namespaces take no more processes while they end: that is heard of soon. */
        service->due = service->started + (service->role ? FIRST_DELAY_MS : LAST_DELAY_MS);
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

void look_at_requests(void) {
    for (int i = 0; i < service_count; i++) {
        struct service *service = &services[i];
        if (service->state != ENDED || !is_asked_for(service)) continue;
        service->delay = 0;
        enter_state(service, WAITING);
    }
}

static void service_ended(struct service *service, int status) {
    long long now = now_ms(), lived = now - service->started;
    int stopping = service->state == STOPPING, well = WIFEXITED(status) && !WEXITSTATUS(status);
    int asked = is_asked_for(service);
    service->pid = 0;
    if (service->once && !stopping && well) {
        mark_ready(service, DONE);
        return;
    }
    say("%s: %s %d after %lld ms", service->name, WIFEXITED(status) ? "ended with exit code" : "killed by signal",
        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), lived);
    if (stopping) {
        enter_state(service, STOPPED);
        return;
    }
    if (service->on_failure && well && !asked) {
        say("%s: it did so on purpose, and is not started again", service->name);
        service->was_ready = 1; /* those after it need not wait */
        enter_state(service, ENDED);
        return;
    }
    if (asked || lived >= STEADY_MS) service->delay = 0;
    service->due = now + service->delay;
    service->delay = service->delay ? service->delay * 2 : FIRST_DELAY_MS;
    if (service->delay > LAST_DELAY_MS) service->delay = LAST_DELAY_MS;
    enter_state(service, BACKING_OFF);
}

void reap(void) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int i = 0;
        while (i < service_count && services[i].pid != pid) i++;
        if (i < service_count) service_ended(&services[i], status);
        else role_ended(pid);
    }
}

void sooner(long long *wake, long long left) {
    if (left < 0) left = 0;
    if (*wake < 0 || left < *wake) *wake = left;
}

/* Does what is due for those of a role (NULL: of none); says in how many milliseconds to look again (-1: at a signal). */
long long advance(struct role *role, long long now) {
    long long wake = -1;
    for (int i = 0; i < service_count; i++) {
        struct service *service = &services[i];
        if (service->role != role) continue;
        if (service->state == BACKING_OFF && now >= service->due) enter_state(service, WAITING);
        if (service->state == WAITING) {
            if (!may_begin(service)) sooner(&wake, BEGINS_LOOK_MS);
            else if (!role || role->first || open_role(role)) start_service(service);
            else sooner(&wake, role->due - now);
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
            sooner(&wake, service->once ? 1000 : waited < 32 ? 4 : waited < 2000 ? waited / 8 : 250);
        }
        if (service->state == BACKING_OFF) sooner(&wake, service->due - now);
        if (!service->was_ready) break; /* the next one stands on this one */
    }
    return wake;
}

/* Whether it has stopped; it is asked to, and killed when its time is over. */
int ask_to_stop(struct service *service, long long now, long long *wake) {
    if (!service->pid) {
        if (service->state != STOPPED) enter_state(service, STOPPED);
        return 1;
    }
    if (service->state != STOPPING) {
        kill(service->pid, SIGTERM);
        service->due = now + service->stop_timeout_ms;
        enter_state(service, STOPPING);
    } else if (now >= service->due) {
        say("%s: still there after %ld ms: killed", service->name, service->stop_timeout_ms);
        kill(service->pid, SIGKILL);
        service->due = now + 1000;
    }
    sooner(wake, service->due - now);
    return 0;
}
