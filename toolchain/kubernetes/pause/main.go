// Pause is the first process of a pod: it holds the pod's namespaces, reaps whom nobody else does, and ends when it
// is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	for {
		// Signals of several children may arrive as one, and one before we listened not at all.
		reap()
		select {
		case <-ends:
			return
		case <-died:
		}
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			return
		}
	}
}
