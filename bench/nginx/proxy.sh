#!/bin/sh
# Starlet on a Unix socket in the directory $1 with $2 workers for the application $3, and nginx before it.
plackup -s Starlet -E deployment --listen "$1/starlet.sock" --max-workers "$2" --max-keepalive-reqs 1000000 \
    --max-reqs-per-child 1000000000 "$3" &
while [ ! -S "$1/starlet.sock" ]; do sleep 0.05; done
chmod 0777 "$1/starlet.sock"
exec nginx -p "$1" -c "$1/nginx.conf"
