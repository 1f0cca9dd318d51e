#!/usr/bin/perl
# A death before any output.
use strict;
die 'too early';
