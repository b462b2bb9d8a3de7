/* C = A B of whole numbers by SUMMA on a square grid of ranks, one round after the other until the file "enough" is there.
 *
 * Each round is checked by Freivalds: A (B x) = C x, exactly, for a vector x by chance. "matrix spoil" falsifies an
 * element of its first round, which must be found.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define N 128 /* rows and columns of a rank's block */
#define RANKS 64

typedef int64_t block[N][N];

static block a, b, c, left, above;
static int64_t x[N * RANKS], bx[N * RANKS];
static MPI_Comm row, column;
static int rank, size, side, my_row, my_column;

static void multiply(int round)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int64_t global_i = my_row * N + i, global_j = my_column * N + j;
            a[i][j] = (31 * global_i + 17 * global_j + round) % 101 - 50;
            b[i][j] = (13 * global_i + 47 * global_j + 3 * round) % 103 - 51;
            c[i][j] = 0;
        }
    for (int step = 0; step < side; step++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                left[i][j] = a[i][j];
                above[i][j] = b[i][j];
            }
        MPI_Bcast(left, N * N, MPI_INT64_T, step, row);
        MPI_Bcast(above, N * N, MPI_INT64_T, step, column);
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    c[i][j] += left[i][k] * above[k][j];
    }
}

/* The part of m v that is this row's: the sum of its blocks. */
static void times(block m, const int64_t *v, int64_t *product)
{
    int64_t part[N] = {0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            part[i] += m[i][j] * v[my_column * N + j];
    MPI_Allreduce(part, product, N, MPI_INT64_T, MPI_SUM, row);
}

static int wrong(void)
{
    int64_t mine[N], abx[N], cx[N];
    int found = 0, all;
    for (int i = 0; rank == 0 && i < N * side; i++)
        x[i] = 1 + random() % 1000;
    MPI_Bcast(x, N * side, MPI_INT64_T, 0, MPI_COMM_WORLD);
    times(b, x, mine);
    MPI_Allgather(mine, N, MPI_INT64_T, bx, N, MPI_INT64_T, column);
    times(a, bx, abx);
    times(c, x, cx);
    for (int i = 0; i < N; i++)
        found += my_column == 0 && abx[i] != cx[i];
    MPI_Allreduce(&found, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    int rounds = 0, on = 1, length;
    char name[MPI_MAX_PROCESSOR_NAME] = "", names[RANKS][MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (side * side < size)
        side++;
    if (side * side != size || size > RANKS) {
        fprintf(stderr, "a square number of ranks is needed, up to %d, and not %d\n", RANKS, size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    my_row = rank / side;
    my_column = rank % side;
    MPI_Comm_split(MPI_COMM_WORLD, my_row, my_column, &row);
    MPI_Comm_split(MPI_COMM_WORLD, my_column, my_row, &column);
    srandom((unsigned)(time(NULL) ^ getpid()));
    while (on) {
        multiply(rounds++);
        if (argc > 1 && rank == size - 1 && rounds == 1)
            c[N / 2][N / 3]++;
        int elements = wrong();
        if (elements) {
            if (rank == 0)
                fprintf(stderr, "round %d is wrong in %d sums\n", rounds, elements);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        on = rank == 0 && access("enough", F_OK) != 0;
        MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 0 && rounds == 1) {
            printf("begun\n");
            fflush(stdout);
        }
    }
    MPI_Get_processor_name(name, &length);
    MPI_Gather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Get_library_version(library, &length);
    if (rank == 0) {
        printf("right: %d rounds of %d by %d by %.8s on", rounds, N * side, N * side, library);
        for (int each = 0; each < size; each++)
            printf(" %s", names[each]);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
