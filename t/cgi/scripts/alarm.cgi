#!/usr/bin/perl
# No timer is left running.
use Time::HiRes qw(setitimer getitimer ITIMER_VIRTUAL);
printf "Content-Type: text/plain\n\nleft: %s %s\n", alarm(0), (getitimer ITIMER_VIRTUAL)[0] ? 'running' : 'none';
alarm 500;
setitimer ITIMER_VIRTUAL, 500;
