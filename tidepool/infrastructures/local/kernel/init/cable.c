/* The cable from a machine to its network's switch: a veth pair, made by the kernel's netlink (rtnetlink(7)). */
#include "init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BRIDGE "switch"
#define INTERFACE "eth0"

/* A request, and how much of it is filled. */
static struct {
    struct nlmsghdr header;
    char rest[1024];
} request;

static void *append(const void *data, size_t size) {
    void *at = (char *)&request + NLMSG_ALIGN(request.header.nlmsg_len);
    memcpy(at, data, size);
    request.header.nlmsg_len = NLMSG_ALIGN(request.header.nlmsg_len) + size;
    return at;
}

static struct rtattr *attribute(int type, const void *data, size_t size) {
    struct rtattr head = {RTA_LENGTH(size), type};
    struct rtattr *at = append(&head, sizeof head);
    append(data, size);
    return at;
}

static void text_attribute(int type, const char *text) { attribute(type, text, strlen(text) + 1); }
static struct rtattr *begin(int type) { return attribute(type | NLA_F_NESTED, "", 0); }
static void end(struct rtattr *nest) { nest->rta_len = (char *)&request + request.header.nlmsg_len - (char *)nest; }

static void begin_request(int type, int flags, const void *body, size_t size) {
    request.header = (struct nlmsghdr){NLMSG_HDRLEN, type, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0};
    append(body, size);
}

/* A change of an interface that is there. */
static void begin_change(const char *name, unsigned flags) {
    struct ifinfomsg link = {.ifi_index = if_nametoindex(name), .ifi_flags = flags, .ifi_change = flags};
    if (!link.ifi_index) fail("there is no interface %s", name);
    begin_request(RTM_NEWLINK, 0, &link, sizeof link);
}

static int error_of(int kernel) {
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[1024];
    } answer;
    if (send(kernel, &request, request.header.nlmsg_len, 0) < 0 || recv(kernel, &answer, sizeof answer, 0) < 0)
        return errno;
    return answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : EPROTO;
}

static void ask(int kernel, const char *what) {
    errno = error_of(kernel);
    if (errno) fail("cannot %s: %m", what);
}

static int socket_in(int network) {
    if (setns(network, CLONE_NEWNET)) fail("cannot enter a network: %m");
    int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (kernel < 0) fail("cannot ask the kernel for a cable: %m");
    return kernel;
}

/* No address of IPv6 by itself: among hundreds of machines, their greetings alone would keep the switch busy. */
static void go_up(int kernel, const char *name) {
    unsigned char none = IN6_ADDR_GEN_MODE_NONE;
    begin_change(name, 0);
    struct rtattr *families = begin(IFLA_AF_SPEC), *family = begin(AF_INET6);
    attribute(IFLA_INET6_ADDR_GEN_MODE, &none, sizeof none);
    end(family);
    end(families);
    ask(kernel, "keep IPv6 from an interface");
    begin_change(name, IFF_UP);
    ask(kernel, "bring an interface up");
}

static void make_pair(int kernel, const char *port, const char *mac, int machine) {
    struct ifinfomsg link = {0}, peer = {0};
    unsigned char bytes[6];
    sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", bytes, bytes + 1, bytes + 2, bytes + 3, bytes + 4, bytes + 5);
    begin_request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &link, sizeof link);
    text_attribute(IFLA_IFNAME, port);
    struct rtattr *kind = begin(IFLA_LINKINFO);
    text_attribute(IFLA_INFO_KIND, "veth");
    struct rtattr *data = begin(IFLA_INFO_DATA);
    struct rtattr *other = attribute(VETH_INFO_PEER, &peer, sizeof peer);
    text_attribute(IFLA_IFNAME, INTERFACE);
    attribute(IFLA_ADDRESS, bytes, sizeof bytes);
    attribute(IFLA_NET_NS_FD, &machine, sizeof machine);
    end(other);
    end(data);
    end(kind);
    ask(kernel, "make a cable");
}

/* The bits of an address that tell machines of a network apart. */
static in_addr_t host_bits(int prefix_length) { return htonl(prefix_length < 32 ? ~0U >> prefix_length : 0); }

static void give_address(int kernel, const char *address, int prefix_length) {
    struct ifaddrmsg told = {AF_INET, prefix_length, 0, RT_SCOPE_UNIVERSE, if_nametoindex(INTERFACE)};
    struct in_addr own, broadcast;
    inet_pton(AF_INET, address, &own);
    broadcast.s_addr = own.s_addr | host_bits(prefix_length);
    begin_request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &told, sizeof told);
    attribute(IFA_LOCAL, &own, sizeof own);
    attribute(IFA_ADDRESS, &own, sizeof own);
    attribute(IFA_BROADCAST, &broadcast, sizeof broadcast);
    ask(kernel, "give the machine its address");
}

/* Slurm sends the length of a message and then the message, without TCP_NODELAY: the second waits until the first is
   acknowledged, which Linux puts off by 40 ms. By routes that acknowledge at once `sacctmgr show qos` takes 25 ms, and not 200. */
static void begin_route(int prefix_length, unsigned char scope, unsigned char protocol) {
    unsigned at_once = 1;
    struct rtmsg route = {.rtm_family = AF_INET, .rtm_dst_len = prefix_length, .rtm_table = RT_TABLE_MAIN,
                          .rtm_protocol = protocol, .rtm_scope = scope, .rtm_type = RTN_UNICAST};
    begin_request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, &route, sizeof route);
    struct rtattr *metrics = begin(RTA_METRICS);
    attribute(RTAX_QUICKACK, &at_once, sizeof at_once);
    end(metrics);
}

/* The way to its network, in place of the one that the kernel made when the interface came up. */
static void give_network(int kernel, const char *address, int prefix_length) {
    unsigned interface = if_nametoindex(INTERFACE);
    struct in_addr own, network;
    inet_pton(AF_INET, address, &own);
    network.s_addr = own.s_addr & ~host_bits(prefix_length);
    begin_route(prefix_length, RT_SCOPE_LINK, RTPROT_KERNEL);
    attribute(RTA_DST, &network, sizeof network);
    attribute(RTA_PREFSRC, &own, sizeof own);
    attribute(RTA_OIF, &interface, sizeof interface);
    ask(kernel, "give the machine the way to its network");
}

/* The way to all others; the interface that leads there is up. */
static void give_gateway(int kernel, const char *gateway) {
    struct in_addr by;
    inet_pton(AF_INET, gateway, &by);
    begin_route(0, RT_SCOPE_UNIVERSE, RTPROT_BOOT);
    attribute(RTA_GATEWAY, &by, sizeof by);
    ask(kernel, "give the machine its gateway");
}

/* Ends in the machine's network. */
static void lay_cable(int machine, int network, const char *port, const char *mac, const char *address, int prefix_length,
                      const char *gateway) {
    int kernel = socket_in(network);
    make_pair(kernel, port, mac, machine);
    unsigned bridge = if_nametoindex(BRIDGE);
    begin_change(port, 0);
    attribute(IFLA_MASTER, &bridge, sizeof bridge);
    ask(kernel, "plug the cable into the switch");
    go_up(kernel, port);
    close(kernel);
    kernel = socket_in(machine);
    begin_change("lo", IFF_UP);
    ask(kernel, "bring up lo");
    give_address(kernel, address, prefix_length);
    go_up(kernel, INTERFACE);
    give_network(kernel, address, prefix_length);
    if (*gateway) give_gateway(kernel, gateway);
    close(kernel);
}

/* The one that led to a switch that died goes by itself, but not at once. */
static void take_cable_away(int machine) {
    int kernel = socket_in(machine);
    struct ifinfomsg link = {.ifi_index = if_nametoindex(INTERFACE)};
    begin_request(RTM_DELLINK, 0, &link, sizeof link);
    if (link.ifi_index && (errno = error_of(kernel)) && errno != ENODEV) fail("cannot take the old cable away: %m");
    close(kernel);
}

/* A process's network, if that process is still the one that is meant. */
static int network_of(const char *pid, const char *start) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/ns/net", pid);
    int network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || start_of(pid) != strtoull(start, NULL, 10))
        fail("the switch, or the machine, ended while they were plugged together");
    return network;
}

/* Before the root changes: /proc is still the host's. */
void step_cable(void) {
    const char *pid = field(), *start = field(), *port = field(), *mac = field(), *address = field();
    int machine = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), network = network_of(pid, start);
    if (machine < 0) fail("cannot open the machine's own network: %m");
    int prefix_length = number();
    lay_cable(machine, network, port, mac, address, prefix_length, field());
    close(machine);
    close(network);
}

int cable(char **argv) {
    int network = network_of(argv[0], argv[1]), machine = network_of(argv[2], argv[3]);
    take_cable_away(machine);
    lay_cable(machine, network, argv[4], argv[5], argv[6], atoi(argv[7]), argv[8]);
    return 0;
}
