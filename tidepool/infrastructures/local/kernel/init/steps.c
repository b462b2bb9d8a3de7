/* The steps that make a machine of new namespaces. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAX_BINDS 64

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

void step_folder(void) {
    const char *path = field();
    mode_t mode = mode_field();
    make_parents(path);
    if (mkdir(path, 0700) && errno != EEXIST) fail("cannot make the folder %s: %m", path);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) fail("cannot open the folder %s: %m", path);
    give_away(path, folder, mode);
    close(folder);
}

void step_file(void) {
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

void step_mount(void) {
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

/* What the machine has mounted there is not there for whoever takes this step: the first process of a role. */
void step_hide(void) {
    const char *target = field();
    if (umount2(target, MNT_DETACH)) fail("cannot hide %s: %m", target);
}

void step_take(void) {
    struct stat is;
    if (taken_count == MAX_BINDS) fail("more than %d mounts from the host", MAX_BINDS);
    const char *source = taken[taken_count].source = field();
    int tree = open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || fstat(tree, &is)) fail("cannot mount %s: %m", source);
    taken[taken_count].is_folder = S_ISDIR(is.st_mode);
    taken[taken_count++].tree = tree;
}

void step_put(void) {
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

void step_root(void) {
    const char *root = field();
    struct stat seen, entered;
    int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0) fail("cannot open /proc/self/ns/mnt: %m");
    /* The old root comes to lie over the new one at the same place, and is taken off from there. */
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        fail("cannot make %s the root: %m", root);
    /*
     * Begun in a chroot, all of this succeeds, and the host's own root is still that of the mount namespace: whoever
     * enters it, and what breaks out of the machine, would be there. Entering shows it.
     */
    if (stat("/", &seen) || setns(mounts, CLONE_NEWNS) || stat("/", &entered)) fail("cannot look at the root: %m");
    close(mounts);
    if (seen.st_dev != entered.st_dev || seen.st_ino != entered.st_ino)
        fail_as("chroot", "the host's root would stay within the machine's reach, for this is a chroot");
}

void step_link(void) {
    const char *target = field(), *path = field();
    make_parents(path);
    unlink(path);
    if (symlink(target, path)) fail("cannot link %s to %s: %m", path, target);
}

void step_device(void) {
    const char *path = field();
    mode_t mode = mode_field();
    long major_number = number(), minor_number = number();
    make_parents(path);
    if (mknod(path, S_IFCHR | mode, makedev(major_number, minor_number)) || chmod(path, mode))
        fail("cannot make the device %s: %m", path);
}

/* From here on the control group that it was put into is the root of all that the machine sees. */
void step_cgroups(void) {
    if (unshare(CLONE_NEWCGROUP)) fail("cannot make a control group namespace: %m");
}

void join_group(const char *group, const char *leaf) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", group, leaf);
    if (mkdir(path, 0755) && errno != EEXIST) fail("cannot make the control group %s: %m", path);
    snprintf(path, sizeof path, "%s/%s/cgroup.procs", group, leaf);
    int members = open(path, O_WRONLY | O_CLOEXEC);
    if (members < 0 || write(members, "0", 1) != 1) fail("cannot join the control group %s/%s: %m", group, leaf);
    close(members);
}

/* Into a group of its own: version 2 hands controllers down only from groups without processes. */
void step_group(void) { join_group(field(), ""); }

/* All controllers that a group of version 2 has, to those below it. */
void step_hand_down(void) {
    const char *group = field();
    char path[4096], controller[64];
    snprintf(path, sizeof path, "%s/cgroup.controllers", group);
    FILE *controllers = fopen(path, "re");
    if (!controllers) fail("cannot read %s: %m", path);
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", group);
    int control = open(path, O_WRONLY | O_CLOEXEC);
    while (control >= 0 && fscanf(controllers, "%63s", controller) == 1)
        if (dprintf(control, "+%s", controller) < 0) fail("cannot hand the controller %s down: %m", controller);
    if (control < 0) fail("cannot open %s: %m", path);
    close(control);
    fclose(controllers);
}

void step_hostname(void) {
    const char *name = field();
    if (sethostname(name, strlen(name))) fail("cannot set the host name %s: %m", name);
}
