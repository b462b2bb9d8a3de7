/* A machine's services and its roles, as services.c, roles.c and supervise.c see them. */
#pragma once
#include "init.h"

#define MAX_SERVICES 64
#define MAX_ROLES 8
/* A daemon that lived this long is started again at once; one that did not waits, twice as long each time. */
#define STEADY_MS 10000
#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS 10000

/*
 * The services of a role run in namespaces of their own (pid, mount, cgroup), within those of the machine: all that
 * they start, mount and make groups for ends with the first process there, by the kernel.
 */
struct role {
    char *name, *marker;  /* the machine has the role while the marker is there */
    unsigned long long dropped; /* capabilities that its services do not have */
    char **groups, *leaf; /* its groups, one in each hierarchy; where in them its processes are */
    char *plan;           /* the steps that its first process takes */
    size_t plan_size;
    enum { IS_OFF, IS_ON, IS_STOPPING } is;
    pid_t first;          /* 0: its namespaces are not there */
    int first_fd;
    long long due;        /* not before this time are they made again */
};

enum state { OFF, WAITING, STARTING, UP, BACKING_OFF, DONE, ENDED, STOPPING, STOPPED };

struct service {
    char *name, *user, *begins_path, *ready_kind, *ready_value;
    char **argv, **environment;
    struct role *role; /* NULL: it always runs */
    long ready_timeout_ms, stop_timeout_ms;
    unsigned long long capabilities; /* that it has besides what others have */
    int once, on_failure; /* a command; started again only when it failed */
    enum state state;
    pid_t pid;
    long long started, due;
    long delay;
    int starts, was_ready;
};

extern struct service services[MAX_SERVICES];
extern int service_count;
extern struct role roles[MAX_ROLES];
extern int role_count;

/* services.c */
char **list_field(void);
void show_status(void);
void enter_state(struct service *service, enum state state);
int ask_to_stop(struct service *service, long long now, long long *wake);
void reap(void);
void look_at_requests(void);
long long advance(struct role *role, long long now);
void sooner(long long *wake, long long left);

/* roles.c: the one of that name; which have a marker; what is to be done for one, and when again (-1: at a signal). */
struct role *role_named(const char *name);
void look_at_markers(void);
long long advance_role(struct role *role, long long now);
int open_role(struct role *role);
void role_ended(pid_t pid);
pid_t fork_into(struct role *role);
void settle_in(struct role *role, unsigned long long besides);
