/* What root in the machine may do. */
#include "init.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Only what is in `kept` stays, for this process and all that it will start. */
void keep_capabilities(unsigned long long kept, unsigned long long handed_in) {
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
        sets[half].inheritable = sets[half].permitted & (unsigned)(handed_in >> 32 * half);
    }
    if (syscall(SYS_capset, &header, sets)) fail("cannot drop capabilities: %m");
}
