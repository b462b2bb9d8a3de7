/* The plan, as it comes through the pipe. */
#include "init.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *plan, *plan_at, *plan_end;

void read_plan(void) {
    size_t room = 1 << 16, used = 0;
    plan = malloc(room);
    for (;;) {
        if (!plan) fail("out of memory for the plan");
        ssize_t got = read(STDIN_FILENO, plan + used, room - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("cannot read the plan: %m");
        if (got == 0) break;
        used += got;
        if (used == room) plan = realloc(plan, room *= 2);
    }
    if (used < 6 || memcmp(plan + used - 6, "3:end,", 6)) fail("the plan was cut short");
    plan_at = plan;
    plan_end = plan + used;
}

/* The next field, with a NUL after it; *length where it may hold NULs itself. */
char *field_of(size_t *length) {
    size_t size = 0;
    while (plan_at < plan_end && isdigit((unsigned char)*plan_at)) size = size * 10 + (*plan_at++ - '0');
    if (plan_at >= plan_end || *plan_at != ':' || size >= (size_t)(plan_end - plan_at - 1)
        || plan_at[1 + size] != ',')
        fail("the plan is not well formed at byte %td", plan_at - plan);
    char *text = plan_at + 1;
    text[size] = 0;
    plan_at += size + 2;
    if (length) *length = size;
    return text;
}

char *field(void) { return field_of(NULL); }
long number(void) { return strtol(field(), NULL, 10); }
mode_t mode_field(void) { return strtol(field(), NULL, 8); }

/* Another one, in memory. Its fields are cut apart as they are read: it can be used once. */
void use_plan(char *text, size_t size) {
    plan = plan_at = text;
    plan_end = text + size;
}

/* It may hold keys, and this process lives long. */
void forget_plan(void) {
    explicit_bzero(plan, plan_end - plan);
    free(plan);
}
