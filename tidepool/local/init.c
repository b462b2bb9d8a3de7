/*
 * The first process of a machine, and the way into one. Static, so that it needs nothing of the machine's image.
 *
 *   init boot
 *       Makes new namespaces (mount, uts, ipc, net, pid), says "pid N" on stdout (N as the caller sees it) and
 *       leaves PID 1 of the machine behind. That one waits for a plan on stdin, carries its steps out, says "ok"
 *       (or "error: what went wrong"), and starts the plan's services, each when the one before is ready.
 *       Log: stderr. Descriptor 3: a table of the services, rewritten at each change.
 *       A plan that is cut short (its writer died) ends the machine before anything was done.
 *
 *   init enter PID START [CGROUP.PROCS...] -- COMMAND [ARGUMENT...]
 *       Runs a command in the machine whose PID 1 is PID, if that process began at START clock ticks after the
 *       host's boot: in its namespaces, its control groups, with its capabilities. Exits as the command did.
 *
 * A plan is a row of netstrings ("5:mount,1:/,..."): a step's name, then its arguments; the last step is "end".
 * tidepool/local/plan.py writes it and says what the steps are.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID)
#define ALL_NAMESPACES (NAMESPACES | CLONE_NEWCGROUP)
#define STATUS_FD 3
#define MAX_SERVICES 64
#define MAX_GROUPS 64
#define MAX_BINDS 64
/* A daemon that lived this long is started again at once; one that did not waits, twice as long each time. */
#define STEADY_MS 10000
#define FIRST_DELAY_MS 100
#define LAST_DELAY_MS 10000

/* ---- the log ---- */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...) {
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

/* Ends the boot; the caller hears why, and the log keeps it. */
static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *format, ...) {
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    say("%s", text);
    dprintf(STDOUT_FILENO, "error: %s\n", text);
    _exit(1);
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* a clock that is set must not start or stop anything */
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- the plan's text ---- */

static char *plan, *plan_at, *plan_end;

static void read_plan(void) {
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
static char *field_of(size_t *length) {
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

static char *field(void) { return field_of(NULL); }
static long number(void) { return strtol(field(), NULL, 10); }
static mode_t mode_field(void) { return strtol(field(), NULL, 8); }

/* ---- users, as the machine's own files name them ---- */

struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[MAX_GROUPS];
    int group_count;
};

static int find_user(const char *name, struct user *found) {
    char *end;
    unsigned long id = strtoul(name, &end, 10);
    int numeric = *name && !*end;
    memset(found, 0, sizeof *found);
    FILE *users = fopen("/etc/passwd", "re");
    struct passwd *entry = NULL;
    while (users && (entry = fgetpwent(users)))
        if (numeric ? entry->pw_uid == id : !strcmp(entry->pw_name, name)) break;
    if (!entry) {
        if (users) fclose(users);
        if (!numeric && strcmp(name, "root")) return -1;
        found->uid = found->gid = numeric ? id : 0;
    } else {
        found->uid = entry->pw_uid;
        found->gid = entry->pw_gid;
        name = strdup(entry->pw_name);
        fclose(users);
    }
    found->groups[found->group_count++] = found->gid;
    FILE *groups = entry ? fopen("/etc/group", "re") : NULL;
    struct group *group;
    while (groups && (group = fgetgrent(groups)))
        for (char **member = group->gr_mem; *member; member++)
            if (!strcmp(*member, name) && group->gr_gid != found->gid && found->group_count < MAX_GROUPS)
                found->groups[found->group_count++] = group->gr_gid;
    if (groups) fclose(groups);
    return 0;
}

static int find_group(const char *name, gid_t *found) {
    char *end;
    unsigned long id = strtoul(name, &end, 10);
    if (*name && !*end) return *found = id, 0;
    FILE *groups = fopen("/etc/group", "re");
    struct group *entry = NULL;
    while (groups && (entry = fgetgrent(groups)))
        if (!strcmp(entry->gr_name, name)) break;
    if (entry) *found = entry->gr_gid;
    if (groups) fclose(groups);
    if (entry) return 0;
    return strcmp(name, "root") ? -1 : (*found = 0, 0);
}

/* ---- steps ---- */

static void make_parents(const char *path) {
    char *copy = strdup(path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(copy, 0755) && errno != EEXIST) fail("cannot make the folder %s: %m", copy);
    }
    free(copy);
}

/* The owner of what a step makes: the next two fields. Links are not followed, for images may hold any. */
static void give_away(const char *path, int folder, mode_t mode) {
    struct user owner;
    gid_t group;
    const char *user_name = field(), *group_name = field();
    if (find_user(user_name, &owner)) fail("%s: the image has no user %s", path, user_name);
    if (find_group(group_name, &group)) fail("%s: the image has no group %s", path, group_name);
    if (fchown(folder, owner.uid, group)) fail("cannot change the owner of %s: %m", path);
    if (fchmod(folder, mode)) fail("cannot change the mode of %s: %m", path);
}

static void step_folder(void) {
    const char *path = field();
    mode_t mode = mode_field();
    make_parents(path);
    if (mkdir(path, 0700) && errno != EEXIST) fail("cannot make the folder %s: %m", path);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) fail("cannot open the folder %s: %m", path);
    give_away(path, folder, mode);
    close(folder);
}

static void step_file(void) {
    const char *path = field();
    mode_t mode = mode_field();
    char beside[4096];
    size_t size;
    make_parents(path);
    snprintf(beside, sizeof beside, "%s.new", path);
    unlink(beside);
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) fail("cannot make the file %s: %m", path);
    give_away(path, file, mode);
    char *content = field_of(&size);
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(file, content + done, size - done);
        if (wrote < 0) fail("cannot write the file %s: %m", path);
        done += wrote;
    }
    if (close(file) || rename(beside, path)) fail("cannot write the file %s: %m", path);
    explicit_bzero(content, size); /* it may be a key, and this process lives long */
}

static void step_mount(void) {
    const char *source = field(), *target = field(), *type = field();
    unsigned long flags = number();
    const char *options = field();
    if (!(flags & (MS_REMOUNT | MS_PRIVATE))) {
        make_parents(target);
        mkdir(target, 0755); /* where it fails, so does the mount, and that says more */
    }
    if (mount(source, target, type, flags, options)) fail("cannot mount %s at %s: %m", source, target);
}

/*
 * Folders and files of the host that the machine shall have are taken up before the root changes and put down
 * after it: a link in the image then never leads out of the machine.
 */
static struct {
    const char *source;
    int tree, is_folder;
} taken[MAX_BINDS];
static int taken_count, put_count;

static void step_take(void) {
    struct stat is;
    if (taken_count == MAX_BINDS) fail("more than %d mounts from the host", MAX_BINDS);
    const char *source = taken[taken_count].source = field();
    int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || fstat(tree, &is)) fail("cannot mount %s: %m", source);
    taken[taken_count].is_folder = S_ISDIR(is.st_mode);
    taken[taken_count++].tree = tree;
}

static void step_put(void) {
    const char *target = field();
    unsigned long flags = number();
    if (put_count == taken_count) fail("the plan puts more than it took");
    make_parents(target);
    if (taken[put_count].is_folder) mkdir(target, 0755);
    else close(open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (move_mount(taken[put_count].tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH)
        || mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | flags, NULL))
        fail("cannot mount %s at %s: %m", taken[put_count].source, target);
    close(taken[put_count++].tree);
}

static void step_root(void) {
    const char *root = field();
    /* The old root comes to lie over the new one at the same place, and is taken off from there. */
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        fail("cannot make %s the root: %m", root);
}

static void step_link(void) {
    const char *target = field(), *path = field();
    make_parents(path);
    unlink(path);
    if (symlink(target, path)) fail("cannot link %s to %s: %m", path, target);
}

static void step_device(void) {
    const char *path = field();
    mode_t mode = mode_field();
    long major_number = number(), minor_number = number();
    make_parents(path);
    if (mknod(path, S_IFCHR | mode, makedev(major_number, minor_number)) || chmod(path, mode))
        fail("cannot make the device %s: %m", path);
}

/* From here on the control group that it was put into is the root of all that the machine sees. */
static void step_cgroups(void) {
    if (unshare(CLONE_NEWCGROUP)) fail("cannot make a control group namespace: %m");
}

static void step_hostname(void) {
    const char *name = field();
    if (sethostname(name, strlen(name))) fail("cannot set the host name %s: %m", name);
}

/* Only what is in `kept` stays, for this process and all that it will start. */
static void keep_capabilities(unsigned long long kept) {
    for (int capability = 0; capability < 64; capability++)
        if (!(kept >> capability & 1) && prctl(PR_CAPBSET_READ, capability) == 1
            && prctl(PR_CAPBSET_DROP, capability))
            fail("cannot drop capability %d: %m", capability);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets)) fail("cannot read the capabilities: %m");
    for (int half = 0; half < 2; half++) {
        sets[half].permitted &= (unsigned)(kept >> 32 * half);
        sets[half].effective &= (unsigned)(kept >> 32 * half);
        sets[half].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, sets)) fail("cannot drop capabilities: %m");
}

/* ---- services ---- */

enum state { WAITING, STARTING, UP, BACKING_OFF, DONE, STOPPED };
static const char *const state_names[] = {"waiting", "starting", "up", "backing-off", "done", "stopped"};

struct service {
    char *name, *user, *ready_kind, *ready_value;
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

static void step_service(void) {
    if (service_count == MAX_SERVICES) fail("more than %d services", MAX_SERVICES);
    struct service *service = &services[service_count++];
    service->name = strdup(field());
    service->user = strdup(field());
    service->once = number();
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

/* Asks the kernel (sock_diag(7)). -1 where it has no answer: inet_diag is a module, and may be missing. */
static int listens_in(int family, unsigned port) {
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } question = {
        {sizeof question, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
        {.sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = 1 << TCP_LISTEN},
    };
    char answers[16384] __attribute__((aligned(8)));
    int found = -1, kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    int asked = kernel >= 0 && send(kernel, &question, sizeof question, 0) == sizeof question;
    for (int more = asked; more;) {
        int size = recv(kernel, answers, sizeof answers, 0);
        if (size <= 0) break;
        for (struct nlmsghdr *at = (void *)answers; NLMSG_OK(at, (unsigned)size); at = NLMSG_NEXT(at, size)) {
            if (at->nlmsg_type == NLMSG_DONE && found < 0) found = 0;
            if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) {
                more = 0;
                break;
            }
            struct inet_diag_msg *socket = NLMSG_DATA(at);
            if (ntohs(socket->id.idiag_sport) == port) found = 1;
        }
    }
    if (kernel >= 0) close(kernel);
    return found;
}

/* The same from a table whose reading takes the kernel 5 ms: it goes through all connections of the host. */
static int listens_in_table(const char *table, unsigned port) {
    char line[512];
    unsigned local, state;
    int found = 0;
    FILE *sockets = fopen(table, "re");
    while (sockets && !found && fgets(line, sizeof line, sockets))
        found = sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &local, &state) == 2
                && state == 0x0A && local == port;
    if (sockets) fclose(sockets);
    return found;
}

/* Looked up, never tried: daemons log a connection that says nothing. */
static int listens(unsigned port) {
    int found = listens_in(AF_INET, port);
    if (found < 0) return listens_in_table("/proc/net/tcp", port) || listens_in_table("/proc/net/tcp6", port);
    return found || listens_in(AF_INET6, port) > 0;
}

/* A socket's file appears before its daemon listens, and stays when it dies; so it is tried. */
static int answers(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return 0;
    strcpy(address.sun_path, path);
    int try = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int connected = try >= 0 && !connect(try, (struct sockaddr *)&address, sizeof address);
    if (try >= 0) close(try);
    return connected;
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
        if (service->state == WAITING || (service->state == BACKING_OFF && now >= service->due))
            start_service(service);
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

static int supervise(void) {
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
    dprintf(STDOUT_FILENO, "ok\n");
    /* Whoever made the machine may be gone at any time from here on: nothing hangs on its pipes. */
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(nowhere);
    show_status();
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

static const struct {
    const char *name;
    void (*act)(void);
} steps[] = {
    {"mount", step_mount}, {"take", step_take},   {"root", step_root},     {"put", step_put},
    {"link", step_link},   {"device", step_device}, {"folder", step_folder}, {"file", step_file},
    {"hostname", step_hostname}, {"cgroups", step_cgroups}, {"service", step_service},
};

static int run_plan(void) {
    unsigned long long kept = ~0ULL;
    umask(0022);
    read_plan();
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
    explicit_bzero(plan, plan_end - plan);
    free(plan);
    keep_capabilities(kept);
    prctl(PR_SET_DUMPABLE, 0); /* its log and table are files of the host: not to be opened through /proc/1/fd */
    return supervise();
}

static int boot(void) {
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

/* ---- the way in ---- */

/* Field 22 of /proc/PID/stat: when the process began, in clock ticks since the host's boot. 0: it is gone. */
static unsigned long long start_of(const char *pid) {
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

static unsigned long long bounding_set_of(const char *pid) {
    char path[64], line[256];
    unsigned long long set = 0;
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "CapBnd: %llx", &set) == 1) break;
    if (file) fclose(file);
    return set;
}

static void fail_entry(const char *what) __attribute__((noreturn));

static void fail_entry(const char *what) {
    fprintf(stderr, "init: %s: %m\n", what);
    _exit(125);
}

static int enter(int argc, char **argv) {
    if (argc < 4) return 125;
    int machine = syscall(SYS_pidfd_open, atoi(argv[2]), 0);
    if (machine < 0 || start_of(argv[2]) != strtoull(argv[3], NULL, 10)) {
        fprintf(stderr, "init: the machine is not running\n");
        return 125;
    }
    unsigned long long kept = bounding_set_of(argv[2]);
    int at = 4;
    for (; at < argc && strcmp(argv[at], "--"); at++) {
        int group = open(argv[at], O_WRONLY | O_CLOEXEC);
        if (group < 0 || write(group, "0", 1) != 1) fail_entry(argv[at]);
        close(group);
    }
    if (++at >= argc) return 125;
    if (setns(machine, ALL_NAMESPACES)) fail_entry(errno == ESRCH ? "the machine ended" : "cannot enter the machine");
    close(machine);
    keep_capabilities(kept);
    if (chdir("/")) fail_entry("/");
    pid_t pid = fork(); /* only a child is in the new pid namespace */
    if (pid < 0) fail_entry("cannot fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(argv[at], argv + at);
        fprintf(stderr, "init: cannot run %s: %m\n", argv[at]);
        _exit(errno == ENOENT ? 127 : 126);
    }
    /* A terminal's Ctrl-C goes to the command, which decides. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) fail_entry("cannot wait for the command");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "boot")) return boot();
    if (argc > 2 && !strcmp(argv[1], "enter")) return enter(argc, argv);
    fprintf(stderr, "usage: init boot | init enter PID START [CGROUP.PROCS...] -- COMMAND [ARGUMENT...]\n");
    return 2;
}
