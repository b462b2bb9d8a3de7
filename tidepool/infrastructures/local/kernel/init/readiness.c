/* Whether a daemon is ready. */
#include "init.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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
int listens(unsigned port) {
    int found = listens_in(AF_INET, port);
    if (found < 0) return listens_in_table("/proc/net/tcp", port) || listens_in_table("/proc/net/tcp6", port);
    return found || listens_in(AF_INET6, port) > 0;
}

/* A socket's file appears before its daemon listens, and stays when it dies; so it is tried. */
int answers(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return 0;
    strcpy(address.sun_path, path);
    int try = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int connected = try >= 0 && !connect(try, (struct sockaddr *)&address, sizeof address);
    if (try >= 0) close(try);
    return connected;
}
