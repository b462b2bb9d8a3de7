#!/usr/bin/env python3
"""Two ranks on two nodes send a message back and forth by MPI, and check each time that it is the one expected.

Open MPI's library is called directly, so that images need no more of MPI than what runs programs.
"""

import ctypes
import socket
import time

ROUNDS = 2_000
SIZE = 1_024

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
WORLD = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
BYTE = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_byte"))


def checked(name, *arguments):
    """Call MPI's function, and end if it fails."""
    code = getattr(mpi, name)(*arguments)
    if code:
        raise SystemExit(f"{name} failed with code {code}")


def number_of(name):
    """Return what MPI_Comm_rank or MPI_Comm_size says."""
    number = ctypes.c_int()
    checked(name, WORLD, ctypes.byref(number))
    return number.value


def main():
    """Rank 0 begins each round; rank 1 sends back what it got, all bytes one higher."""
    checked("MPI_Init", None, None)
    rank, size = number_of("MPI_Comm_rank"), number_of("MPI_Comm_size")
    if size != 2:
        raise SystemExit(f"two ranks are needed, not {size}: was it started by `srun --mpi=pmix`?")
    buffer = ctypes.create_string_buffer(SIZE)
    message = (buffer, SIZE, BYTE, 1 - rank, 0, WORLD)
    checked("MPI_Barrier", WORLD)
    begun = time.perf_counter()
    for turn in range(ROUNDS):
        if rank == 0:
            buffer.raw = bytes([turn % 255]) * SIZE
            checked("MPI_Send", *message)
        checked("MPI_Recv", *message, None)
        if buffer.raw != bytes([turn % 255 + (rank == 0)]) * SIZE:
            raise SystemExit(f"round {turn}: rank {rank} got what was never sent")
        if rank == 1:
            buffer.raw = bytes([turn % 255 + 1]) * SIZE
            checked("MPI_Send", *message)
    took = time.perf_counter() - begun
    print(
        f"rank {rank} on {socket.gethostname()}: {ROUNDS} rounds of {SIZE} bytes, {took / ROUNDS / 2 * 1e6:.0f} us each way"
    )
    checked("MPI_Finalize")


if __name__ == "__main__":
    main()
