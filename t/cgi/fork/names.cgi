#!/usr/bin/perl
# What it is called, where it is, and what it was given.
print "Content-Type: text/plain\n\n$0 ", __FILE__, " @ARGV $^X $^W ${^TAINT} $^O $] ${^GLOBAL_PHASE}\n";
print map("$_=$INC{$_}\n", sort keys %INC), map("\@INC $_\n", @INC);
print map "$_=$ENV{$_}\n", grep !/^(?:REMOTE_PORT|SERVER_PORT|UNIQUE_ID|HTTP_X_REQUEST_ID|HTTP_HOST)$/, sort keys %ENV;
open my $in, '<', '/proc/self/environ';
print scalar(my @all = split /\0/, `env -0`), ' for programs, ', scalar(keys %ENV), " here\n";
open $in, '<', '/proc/self/cmdline';
print join('|', grep length, split /\0/, <$in>), "\n";
open $in, '<', '/proc/self/comm';
print <$in>, 'main: ', join(' ', sort keys %main::), "\n";
print 'caller: ', join(' ', caller) || 'none', "\n";
