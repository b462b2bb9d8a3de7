/* What a machine is while it has a role: services in namespaces of their own, which end as a whole. */
#include "services.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct role roles[MAX_ROLES];
int role_count;

void step_role(void) {
    if (role_count == MAX_ROLES) fail("more than %d roles", MAX_ROLES);
    struct role *role = &roles[role_count++];
    role->name = strdup(field());
    role->marker = strdup(field());
    role->dropped = number();
    role->leaf = strdup(field());
    role->groups = list_field();
    const char *plan = field_of(&role->plan_size);
    role->plan = malloc(role->plan_size + 1);
    if (!role->plan) fail("out of memory for the plan");
    memcpy(role->plan, plan, role->plan_size + 1);
}

struct role *role_named(const char *name) {
    for (int i = 0; i < role_count; i++)
        if (!strcmp(roles[i].name, name)) return &roles[i];
    if (*name) fail("the plan has no role %s", name);
    return NULL;
}

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *at) {
    (void)is, (void)at;
    if (type == FTW_DP && rmdir(path) && errno != ENOENT) say("cannot remove the control group %s: %m", path);
    return 0;
}

/* Nothing runs in them. */
static void remove_groups(const struct role *role) {
    for (char **group = role->groups; *group; group++) nftw(*group, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The first process of a role's namespaces: it makes them what they are, and is there until the role ends. */
static void hold_role(struct role *role, int ready) __attribute__((noreturn));

static void hold_role(struct role *role, int ready) {
    prctl(PR_SET_NAME, role->name);
    for (char **group = role->groups; *group; group++) join_group(*group, "");
    step_cgroups();
    if (*role->leaf)
        for (char **group = role->groups; *group; group++) join_group(*group, role->leaf);
    use_plan(role->plan, role->plan_size);
    run_steps();
    keep_capabilities(~role->dropped, 0);
    prctl(PR_SET_DUMPABLE, 0); /* the log is a file of the host */
    signal(SIGCHLD, SIG_IGN);  /* orphans of the role: nobody asks how they ended */
    if (write(ready, "!", 1) != 1) _exit(1);
    close_range(STATUS_FD, ~0U, 0);
    for (;;) pause();
}

/* Whether its namespaces are there. */
int open_role(struct role *role) {
    int ready[2], is_up = 0;
    char word;
    long long now = now_ms();
    if (now < role->due) return 0;
    if (pipe2(ready, O_CLOEXEC)) return 0;
    pid_t pid = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0); /* fork, with flags */
    if (pid == 0) hold_role(role, ready[1]);
    close(ready[1]);
    if (pid > 0) {
        while ((is_up = read(ready[0], &word, 1)) < 0 && errno == EINTR) continue;
        role->first_fd = syscall(SYS_pidfd_open, pid, 0);
    }
    close(ready[0]);
    if (is_up != 1 || role->first_fd < 0) {
        say("role %s: cannot begin, to be tried again", role->name);
        if (pid > 0) kill(pid, SIGKILL);
        if (pid > 0 && role->first_fd >= 0) close(role->first_fd);
        role->due = now + 10 * FIRST_DELAY_MS;
        return 0;
    }
    role->first = pid;
    say("role %s: begins, pid %d", role->name, pid);
    return 1;
}

/* A process in the namespaces of a role, and a child of this one. */
pid_t fork_into(struct role *role) {
    if (!role) return fork();
    int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    pid_t pid = own < 0 || setns(role->first_fd, CLONE_NEWPID) ? -1 : fork();
    if (pid && own >= 0) {
        int error = errno;
        if (setns(own, CLONE_NEWPID)) say("role %s: cannot leave its namespace: %m", role->name);
        close(own);
        errno = error;
    }
    return pid;
}

/* In that child: the rest of the namespaces, the groups, the capabilities. */
void settle_in(struct role *role, unsigned long long besides) {
    for (char **group = role->groups; *group; group++) join_group(*group, role->leaf);
    if (setns(role->first_fd, CLONE_NEWNS | CLONE_NEWCGROUP) || chdir("/"))
        fail("role %s: cannot enter its namespaces: %m", role->name);
    keep_capabilities(~role->dropped | besides, 0);
}

/* Its services begin anew, in their order. */
static void begin_anew(const struct role *role) {
    for (int i = 0; i < service_count; i++) {
        if (services[i].role != role) continue;
        services[i].was_ready = 0;
        if (services[i].state == DONE || services[i].state == ENDED) services[i].state = WAITING;
    }
    show_status();
}

/* All that was in its namespaces has ended before, and its services were heard of. */
void role_ended(pid_t pid) {
    for (int i = 0; i < role_count; i++) {
        struct role *role = &roles[i];
        if (role->first != pid) continue;
        close(role->first_fd);
        role->first = 0;
        role->due = 0;
        if (role->is != IS_ON) continue;
        say("role %s: its first process was killed, and so all of it", role->name);
        begin_anew(role);
    }
}

static void set_states(const struct role *role, enum state state) {
    for (int i = 0; i < service_count; i++) {
        if (services[i].role != role) continue;
        services[i].state = state;
        services[i].starts = services[i].was_ready = 0;
        services[i].delay = 0;
    }
    show_status();
}

void look_at_markers(void) {
    for (int i = 0; i < role_count; i++) {
        struct role *role = &roles[i];
        int is_wanted = !access(role->marker, F_OK);
        if (is_wanted && role->is == IS_OFF) {
            role->is = IS_ON;
            role->due = 0;
            set_states(role, WAITING);
        } else if (!is_wanted && role->is == IS_ON) {
            say("role %s: is to end", role->name);
            role->is = IS_STOPPING;
        } else if (!is_wanted && role->is == IS_OFF) {
            remove_groups(role); /* the machine lost its plug while it had the role */
        }
    }
}

long long advance_role(struct role *role, long long now) {
    long long wake = -1;
    if (role->is == IS_OFF) return wake;
    if (role->is == IS_ON) return advance(role, now);
    for (int i = service_count - 1; i >= 0; i--)
        if (services[i].role == role && !ask_to_stop(&services[i], now, &wake)) return wake;
    if (role->first) {
        kill(role->first, SIGKILL); /* and the kernel all else in its namespaces */
        return wake;
    }
    remove_groups(role);
    role->is = IS_OFF;
    say("role %s: ended", role->name);
    set_states(role, OFF);
    look_at_markers(); /* it may be wanted again by now */
    return role->is == IS_ON ? 0 : wake;
}
