/* Users and groups, as the machine's own files name them: a static program has no other way to ask. */
#include "init.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int find_user(const char *name, struct user *found) {
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

int find_group(const char *name, gid_t *found) {
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
