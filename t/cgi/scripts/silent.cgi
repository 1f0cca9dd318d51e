#!/usr/bin/perl
# Prints nothing.
exit 0;
