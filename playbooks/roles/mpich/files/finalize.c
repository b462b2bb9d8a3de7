/* MPI_Finalize of MPICH 4.0, which over TCP often never returns.
 *
 * There each rank closes its connections and then waits for the others, deaf to what closing or opening theirs still
 * asks of it (github.com/pmodels/mpich/pull/6596). So before that a message goes over each connection, which opens it,
 * and the ranks meet twice: by MPI, so that no message is under way, and by the starter's PMI, where nobody listens
 * to connections any more. Then all close theirs, and nothing is asked.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ENTER[] = "cmd=barrier_in\n";

static int meet_all(void)
{
    int size, code, tag = 32767;
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
    MPI_Status *statuses = malloc(2 * (size_t)size * sizeof *statuses);
    if (requests == NULL || statuses == NULL)
        return MPI_ERR_NO_MEM;
    for (int rank = 0; rank < size; rank++) {
        PMPI_Irecv(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &requests[rank]);
        PMPI_Isend(NULL, 0, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &requests[size + rank]);
    }
    code = PMPI_Waitall(2 * size, requests, statuses);
    free(requests);
    free(statuses);
    return code == MPI_SUCCESS ? PMPI_Barrier(MPI_COMM_WORLD) : code;
}

int MPI_Finalize(void)
{
    const char *starter = getenv("PMI_FD");
    int code = meet_all();
    if (code != MPI_SUCCESS)
        return code;
    if (starter != NULL) {
        char each;
        if (write(atoi(starter), ENTER, strlen(ENTER)) == (ssize_t)strlen(ENTER))
            while (read(atoi(starter), &each, 1) == 1 && each != '\n')
                ;
    }
    return PMPI_Finalize();
}
