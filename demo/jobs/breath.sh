#!/bin/sh
# A small job: it says where it ran, and from when to when by the clock that all machines share.
began=$(date +%s.%N)
sleep $DEMO_SECONDS
echo "$(hostname) $began $(date +%s.%N)"
