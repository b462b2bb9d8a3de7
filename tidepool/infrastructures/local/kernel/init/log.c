/* The log, and the end of a boot that fails. */
#include "init.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void say(const char *format, ...) {
    char line[1024];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    used += snprintf(line + used, sizeof line - used, ".%03ldZ init: ", now.tv_nsec / 1000000);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    used += more < 0 ? 0 : (size_t)more;
    if (used > sizeof line - 2) used = sizeof line - 2;
    line[used++] = '\n';
    /* A full disk must not stop the machine. */
    if (write(STDERR_FILENO, line, used) < 0) return;
}

static void __attribute__((noreturn)) end(const char *code, const char *format, va_list arguments) {
    char text[768];
    vsnprintf(text, sizeof text, format, arguments);
    say("%s", text);
    dprintf(STDOUT_FILENO, "%s: %s\n", code, text);
    _exit(1);
}

/* Ends the boot; the caller hears why, and the log keeps it. */
void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end("error", format, arguments);
}

void fail_as(const char *code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    end(code, format, arguments);
}

long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* a clock that is set must not start or stop anything */
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}
