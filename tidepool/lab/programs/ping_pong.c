/* ping_pong ... [LARGEST_BYTES [ROUNDS]]: messages between the first rank and the last, of 0 bytes and of powers of four.

   Rank 0 records, for each size, half of a round trip's median, and of it bandwidth. Other ranks wait. */
#include <mpi.h>

#include "record.h"

static int ascending(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
  int rank, ranks;
  record_begin(&argc, &argv);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  long largest = argument(argc, argv, 1, 1 << 20), rounds = argument(argc, argv, 2, 100), warm_up = 10;
  if (ranks < 2) fail(WRONG_USAGE, "ping_pong is for two ranks or more: ask for as many tasks, and start them by MPI's way");
  if (largest > INT_MAX) fail(WRONG_USAGE, "%ld bytes are more than a message of MPI has", largest);
  char *message = malloc(largest);
  double *took = malloc(rounds * sizeof *took);
  if (!message || !took) fail(WRONG_USAGE, "there is no memory for messages of %ld bytes", largest);
  memset(message, rank, largest);
  int last = ranks - 1;
  for (long size = 0; size <= largest; size = size ? size * 4 : 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    for (long round = -warm_up; round < rounds && (rank == 0 || rank == last); round++) {
      double began = MPI_Wtime();
      if (rank == 0) {
        if (size) message[0] = (char)round, message[size - 1] = (char)round;
        MPI_Send(message, (int)size, MPI_BYTE, last, 0, MPI_COMM_WORLD);
        if (size) message[0] = message[size - 1] = (char)~round;
        MPI_Recv(message, (int)size, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (round >= 0) took[round] = MPI_Wtime() - began;
        if (size && (message[0] != (char)round || message[size - 1] != (char)round))
          fail(WRONG_RESULT, "a message of %ld bytes came back as another one", size);
      } else {
        MPI_Recv(message, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(message, (int)size, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
      }
    }
    if (rank == 0) {
      qsort(took, rounds, sizeof *took, ascending);
      double one_way = took[rounds / 2] / 2;
      record_figure(one_way, "one_way_seconds_at_%ld", size);
      if (size) record_figure(size / one_way, "bandwidth_bytes_per_second_at_%ld", size);
    }
  }
  MPI_Finalize();
  record_end();
}
