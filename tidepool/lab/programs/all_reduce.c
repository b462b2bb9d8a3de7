/* all_reduce ... [LARGEST_BYTES [ROUNDS]]: sums of doubles over all ranks, of 8 bytes and of powers of four times that.

   Rank 0 records the time of one sum by its size, the mean of all rounds, of the slowest rank. */
#include <mpi.h>

#include "record.h"

int main(int argc, char **argv) {
  int rank, ranks;
  record_begin(&argc, &argv);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  long largest = argument(argc, argv, 1, 1 << 20), rounds = argument(argc, argv, 2, 50), warm_up = 5;
  long most = largest / (long)sizeof(double);
  if (most < 1 || most > INT_MAX) fail(WRONG_USAGE, "%ld bytes: from 8 to %d doubles are allowed", largest, INT_MAX);
  double *own = malloc(most * sizeof *own), *sums = malloc(most * sizeof *sums);
  if (!own || !sums) fail(WRONG_USAGE, "there is no memory for twice %ld bytes", largest);
  for (long i = 0; i < most; i++) own[i] = rank + i;
  for (long count = 1; count <= most; count *= 4) {
    double began = 0, took, slowest;
    for (long round = -warm_up; round < rounds; round++) {
      if (round == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        began = MPI_Wtime();
      }
      MPI_Allreduce(own, sums, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    took = (MPI_Wtime() - began) / rounds;
    for (long i = 0; i < count; i++)
      if (sums[i] != ranks * (ranks - 1.0) / 2 + (double)ranks * i) fail(WRONG_RESULT, "sum %ld of %ld is wrong", i, count);
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) record_figure(slowest, "all_reduce_seconds_at_%ld", count * (long)sizeof(double));
  }
  MPI_Finalize();
  record_end();
}
