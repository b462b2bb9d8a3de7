/* What the parts of init share; main.c says what it is. */
#pragma once
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID)
/* The last one is made later: when the machine is in the control group that it shall see as the root. */
#define ALL_NAMESPACES (NAMESPACES | CLONE_NEWCGROUP)
#define STATUS_FD 3
#define MAX_GROUPS 64

/* log.c: the log; and how a boot ends that fails: the caller hears why. Time, in milliseconds. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The same with a code of its own for the caller, in the place of "error". */
void fail_as(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
long long now_ms(void);

/* plan.c: the plan's fields, one after the other. A field has a NUL after it, and may hold some where asked for. */
void read_plan(void);
void use_plan(char *text, size_t size);
char *field_of(size_t *length);
char *field(void);
long number(void);
mode_t mode_field(void);
void forget_plan(void);

/* users.c: users and groups by name or number, as the machine's own files have them. -1 where there is none. */
struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[MAX_GROUPS];
    int group_count;
};
int find_user(const char *name, struct user *found);
int find_group(const char *name, gid_t *found);

/* steps.c: the steps of a plan; each reads its fields. */
void step_mount(void);
void step_hide(void);
void step_take(void);
void step_root(void);
void step_put(void);
void step_link(void);
void step_device(void);
void step_folder(void);
void step_file(void);
void step_hostname(void);
void step_cgroups(void);
void step_group(void);
void join_group(const char *group, const char *leaf);
void step_hand_down(void);

/* capabilities.c: what is in `kept` stays; `handed_in` is what commands get that enter the machine (0: all of it). */
void keep_capabilities(unsigned long long kept, unsigned long long handed_in);

/* readiness.c: whether something listens on a TCP port; whether a UNIX socket accepts. */
int listens(unsigned port);
int answers(const char *path);

/* services.c, roles.c, supervise.c: a plan's services and roles, and what runs for as long as the machine does. */
void step_service(void);
void step_confine(void);
void step_role(void);
unsigned long long handed_in(unsigned long long kept);
int supervise(void);

/* cable.c */
void step_cable(void);

/* boot.c: takes the steps of the plan, to its end; gives the capabilities that are to stay. */
unsigned long long run_steps(void);

/* boot.c, enter.c, cable.c: the things that init does. */
int boot(void);
int enter(int argc, char **argv);
int cable(char **argv);

/* enter.c: when a process began, in clock ticks since the host's boot. 0: it is gone. */
unsigned long long start_of(const char *pid);
