/* stream ... [ELEMENTS [ROUNDS]]: the four kernels of STREAM (McCalpin, 1995) over three arrays of doubles, on one processor.

   Records the best round's bandwidth of each, counted as STREAM counts it: 16 bytes for each element of copy and scale, 24 of
   add and triad. For memory and not caches, the three arrays should be four times as large as the last cache. */
#include "record.h"

enum { COPY, SCALE, ADD, TRIAD, KERNELS };
static const char *const names[KERNELS] = {"copy", "scale", "add", "triad"};
static const int bytes[KERNELS] = {16, 16, 24, 24};

static void run(int kernel, long n, double *restrict a, double *restrict b, double *restrict c) {
  const double factor = 3;
  if (kernel == COPY)
    for (long i = 0; i < n; i++) c[i] = a[i];
  else if (kernel == SCALE)
    for (long i = 0; i < n; i++) b[i] = factor * c[i];
  else if (kernel == ADD)
    for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
  else
    for (long i = 0; i < n; i++) a[i] = b[i] + factor * c[i];
}

int main(int argc, char **argv) {
  record_begin(&argc, &argv);
  long n = argument(argc, argv, 1, 4000000), rounds = argument(argc, argv, 2, 10);
  double *a = malloc(3 * n * sizeof *a), *b = a + n, *c = b + n, expected[3] = {1, 2, 0};
  long long best[KERNELS] = {0};
  if (!a) fail(WRONG_USAGE, "there is no memory for three arrays of %ld elements", n);
  for (long i = 0; i < n; i++) a[i] = 1, b[i] = 2, c[i] = 0;
  for (long round = 0; round < rounds; round++)
    for (int kernel = 0; kernel < KERNELS; kernel++) {
      long long began = nanoseconds(CLOCK_MONOTONIC);
      run(kernel, n, a, b, c);
      long long took = nanoseconds(CLOCK_MONOTONIC) - began;
      if (!best[kernel] || took < best[kernel]) best[kernel] = took;
      run(kernel, 1, &expected[0], &expected[1], &expected[2]);
    }
  for (long i = 0; i < n; i++)
    if (a[i] != expected[0] || b[i] != expected[1] || c[i] != expected[2])
      fail(WRONG_RESULT, "element %ld of an array is wrong", i);
  for (int kernel = 0; kernel < KERNELS; kernel++)
    record_figure(bytes[kernel] * (double)n / (best[kernel] * 1e-9), "%s_bytes_per_second", names[kernel]);
  record_end();
}
