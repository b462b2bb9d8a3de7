/* probe ... sleep SECONDS | compute CPU_SECONDS: a process that waits, or one that computes. */
#include "record.h"

int main(int argc, char **argv) {
  char *end = "";
  record_begin(&argc, &argv);
  double seconds = argc == 3 ? strtod(argv[2], &end) : -1;
  if (*end || !(seconds >= 0)) fail(WRONG_USAGE, "usage: ... sleep SECONDS | compute CPU_SECONDS");
  if (!strcmp(argv[1], "sleep")) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
  } else if (!strcmp(argv[1], "compute")) {
    volatile double sum = 0;
    while (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) < seconds * 1e9)
      for (int i = 1; i < 10000; i++) sum += 1.0 / i;
  } else {
    fail(WRONG_USAGE, "%s is neither sleep nor compute", argv[1]);
  }
  record_end();
}
