/* matrix ... [SIZE [ROUNDS]]: products of two square matrices of doubles on one processor, in blocks that its caches hold.

   Records the best round's floating point operations in a second: 2 SIZE^3 of them in each. */
#include "record.h"

enum { BLOCK = 64 };

static void multiply(long size, const double *restrict left, const double *restrict right, double *restrict product) {
  memset(product, 0, size * size * sizeof *product);
  for (long rows = 0; rows < size; rows += BLOCK)
    for (long inner = 0; inner < size; inner += BLOCK)
      for (long columns = 0; columns < size; columns += BLOCK) {
        long last_row = rows + BLOCK < size ? rows + BLOCK : size;
        long last_inner = inner + BLOCK < size ? inner + BLOCK : size;
        long last_column = columns + BLOCK < size ? columns + BLOCK : size;
        for (long i = rows; i < last_row; i++)
          for (long k = inner; k < last_inner; k++) {
            double factor = left[i * size + k];
            for (long j = columns; j < last_column; j++) product[i * size + j] += factor * right[k * size + j];
          }
      }
}

int main(int argc, char **argv) {
  record_begin(&argc, &argv);
  long size = argument(argc, argv, 1, 512), rounds = argument(argc, argv, 2, 5);
  double *left = malloc(3 * size * size * sizeof *left), *right = left + size * size, *product = right + size * size;
  if (!left) fail(WRONG_USAGE, "there is no memory for three matrices of %ld", size);
  /* Small whole numbers, so that sums are exact whatever their order. */
  for (long i = 0; i < size * size; i++) left[i] = i % 7, right[i] = i % 5;
  long long best = 0;
  for (long round = 0; round < rounds; round++) {
    long long began = nanoseconds(CLOCK_MONOTONIC);
    multiply(size, left, right, product);
    long long took = nanoseconds(CLOCK_MONOTONIC) - began;
    if (!best || took < best) best = took;
  }
  /* By the sums of columns and of rows: the sum of all of a product is that of their products. */
  double sum = 0, wanted = 0;
  for (long i = 0; i < size * size; i++) sum += product[i];
  for (long k = 0; k < size; k++) {
    double column = 0, row = 0;
    for (long i = 0; i < size; i++) column += left[i * size + k], row += right[k * size + i];
    wanted += column * row;
  }
  if (sum != wanted) fail(WRONG_RESULT, "the product is wrong: its sum is %.17g and not %.17g", sum, wanted);
  record_figure(2.0 * size * size * size / (best * 1e-9), "matrix_flops_per_second");
  record_end();
}
