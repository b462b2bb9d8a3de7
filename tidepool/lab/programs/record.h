/* A process's record of itself: one file, JOB/RANK.START_NS.PID, made at the process's first instruction. Its lines:

     machine NAME              the node's name
     cpus 0,1,4                processors that it may run on
     figure NAME VALUE         what a kernel measured
     end END_NS EXIT_CODE      its last instruction; missing where it was killed

   Times are CLOCK_REALTIME in nanoseconds: one clock for all that run on one kernel. Each line is one write, so that
   whoever reads meanwhile sees whole lines. Every program is started as

     PROGRAM RECORDS JOB EXIT_CODE ARGUMENT...                                                                          */
#ifndef RECORD_H
#define RECORD_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RECORD_UNUSABLE = 73, WRONG_USAGE = 64, WRONG_RESULT = 70 }; /* as in sysexits.h */

static int record_file = -1;
static int record_exit_code;

static long long nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* End at once, with a sentence on standard error; the record then has no end. */
__attribute__((noreturn, format(printf, 2, 3))) static void fail(int exit_code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(exit_code);
}

__attribute__((format(printf, 1, 2))) static void record_line(const char *format, ...) {
  char line[8192];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof line || write(record_file, line, length) != length)
    fail(RECORD_UNUSABLE, "the record cannot be written: %s", strerror(errno));
}

/* Return the first of these variables that is set, or another value. */
static const char *first_set(const char *const names[], const char *otherwise) {
  for (; *names; names++)
    if (getenv(*names)) return getenv(*names);
  return otherwise;
}

static void record_cpus(void) {
  cpu_set_t cpus;
  char list[6 * CPU_SETSIZE], *end = list;
  if (sched_getaffinity(0, sizeof cpus, &cpus)) fail(RECORD_UNUSABLE, "its processors: %s", strerror(errno));
  *end = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &cpus)) end += sprintf(end, "%s%d", end == list ? "" : ",", cpu);
  record_line("cpus %s\n", list);
}

/* Make the record. Leaves the program its own arguments, from argv[1] on. */
static void record_begin(int *argc, char ***argv) {
  long long began = nanoseconds(CLOCK_REALTIME);
  /* A scheduler's own name for a task's rank; those of MPI first, for a launcher of MPI may run inside of one task. */
  static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",            "SLURM_PROCID",
                                      "FLUX_TASK_RANK",       "JOB_COMPLETION_INDEX", NULL};
  /* A pod has a name of its own; it is told its node's by the name that is usual for that. */
  static const char *const machines[] = {"SLURMD_NODENAME", "NODE_NAME", NULL};
  char host[HOST_NAME_MAX + 1] = "", path[PATH_MAX];
  if (*argc < 4) fail(WRONG_USAGE, "usage: %s RECORDS JOB EXIT_CODE ARGUMENT...", **argv);
  int length = snprintf(path, sizeof path, "%s/%s", (*argv)[1], (*argv)[2]);
  if (mkdir(path, 0777) && errno != EEXIST) fail(RECORD_UNUSABLE, "%s: %s", path, strerror(errno));
  snprintf(path + length, sizeof path - length, "/%s.%lld.%d", first_set(ranks, "0"), began, getpid());
  record_file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (record_file < 0) fail(RECORD_UNUSABLE, "%s: %s", path, strerror(errno));
  gethostname(host, sizeof host - 1);
  record_line("machine %s\n", first_set(machines, host));
  record_cpus();
  record_exit_code = atoi((*argv)[3]);
  (*argv)[3] = (*argv)[0];
  *argc -= 3;
  *argv += 3;
}

__attribute__((unused, format(printf, 2, 3))) static void record_figure(double value, const char *name, ...) {
  char whole[128];
  va_list arguments;
  va_start(arguments, name);
  vsnprintf(whole, sizeof whole, name, arguments);
  va_end(arguments);
  record_line("figure %s %.9g\n", whole, value);
}

/* Write the end, and end with the exit code that the process was told. */
__attribute__((noreturn)) static void record_end(void) {
  record_line("end %lld %d\n", nanoseconds(CLOCK_REALTIME), record_exit_code);
  exit(record_exit_code);
}

/* Return a whole number above 0 of the arguments, or another one where there are fewer. */
__attribute__((unused)) static long argument(int argc, char **argv, int at, long otherwise) {
  char *end;
  if (at >= argc) return otherwise;
  long value = strtol(argv[at], &end, 10);
  if (*end || value < 1) fail(WRONG_USAGE, "%s: argument %d is %s; a whole number above 0 is wanted", *argv, at, argv[at]);
  return value;
}

#endif
