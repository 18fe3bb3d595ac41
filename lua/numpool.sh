#!/bin/sh
# Prints the part of allot.lua about numbers as one script, in the calling form of existing systems:
#
#   lua/numpool.sh | redis-cli -x SCRIPT LOAD
#   EVALSHA sha 1 {pool} ADD|DEL|REG|UNREG|CALL|HANGUP [number]
sed -n -e "/^-- A client's bytes/,/^end/p" \
    -e '/^-- Numbers: /,/^-- The end of the part that is also a script/p' "$(dirname "$0")/allot.lua"
echo 'return numpool(KEYS, ARGV)'
