#!/usr/bin/env perl
# A script that is run in a process where startup.pl was: it only answers, nothing is loaded or built again.
use strict;
use warnings;

Guestbook->cache->run;
