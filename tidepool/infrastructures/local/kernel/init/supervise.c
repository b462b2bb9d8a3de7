/* What runs for as long as the machine does. */
#include "services.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { STOP = 1, LOOK = 2 };

/* What the signals that came say. */
static int wait_for_signal(int signals, long long timeout) {
    struct pollfd ready = {signals, POLLIN, 0};
    struct signalfd_siginfo got;
    int said = 0;
    if (poll(&ready, 1, timeout) <= 0) return 0;
    while (read(signals, &got, sizeof got) == sizeof got) {
        if (got.ssi_signo == SIGTERM || got.ssi_signo == SIGINT) said |= STOP;
        if (got.ssi_signo == SIGHUP) said |= LOOK;
    }
    return said;
}

static void stop_services(int signals) {
    say("asked to stop");
    for (int i = service_count - 1; i >= 0; i--)
        for (;;) {
            long long wake = -1;
            reap();
            if (ask_to_stop(&services[i], now_ms(), &wake)) break;
            wait_for_signal(signals, wake);
        }
    say("stopped");
}

static int all_were_ready(void) {
    for (int i = 0; i < service_count; i++)
        if (!services[i].role && !services[i].was_ready) return 0;
    return 1;
}

int supervise(void) {
    static const int WANTED[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigset_t wanted;
    int said = 0, told = 0;
    sigemptyset(&wanted);
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) sigaddset(&wanted, WANTED[i]);
    /* Blocked signals reach even a PID 1 without handlers, and wait to be read. */
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    int signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) fail("cannot wait for signals: %m");
    look_at_markers();
    show_status(); /* whoever hears that the machine booted may look at once */
    dprintf(STDOUT_FILENO, "ok\n");
    /* Whoever made the machine may be gone at any time from here on: nothing hangs on its pipes. */
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    while (!(said & STOP)) {
        reap();
        if (said & LOOK) {
            look_at_markers();
            look_at_requests();
        }
        long long wake = advance(NULL, now_ms());
        for (int i = 0; i < role_count; i++) {
            long long left = advance_role(&roles[i], now_ms());
            if (left >= 0) sooner(&wake, left);
        }
        if (!told && all_were_ready()) {
            told = 1;
            say("all services are ready");
        }
        said = wait_for_signal(signals, wake);
    }
    stop_services(signals);
    return 0; /* and the kernel ends all else that ran in the machine */
}
