#!/usr/bin/perl
# What the kernel knows of the process.
print "Content-Type: text/plain\n\n";
print 'leads its group: ', (getpgrp == $$ ? 'yes' : 'no'), "\n";
open my $in, '<', '/proc/self/stat';
my ($parent, $group, $session) = (<$in> =~ /.*\) \S (\d+) (\d+) (\d+)/s);
open $in, '<', "/proc/$parent/cmdline";
print 'parent: ', <$in> =~ /^howdah:.cgi-host\b/s ? 'host' : 'somebody else', "\n";
open $in, '<', '/proc/self/status';
print grep /^(?:Umask|Uid|Gid|Groups|Threads|Sig(?:Q|Pnd|Blk|Ign)|ShdPnd|Cap|NoNewPrivs|Seccomp)/, map s/^(SigQ:\s+)\d+/$1/r, <$in>;
open $in, '<', '/proc/self/limits';
print <$in>;
print 'times: ', join(' ', map { $_ < 0.5 ? 'little' : $_ } times), "\n";
print 'started now: ', (abs($^T - time) <= 1 ? 'yes' : 'no'), "\n";
print 'cwd: ', `pwd`, 'nice: ', getpriority(0, 0), "\n";
print 'handlers: ', join(' ', map { "$_=$SIG{$_}" } grep { defined $SIG{$_} } sort keys %SIG), "\n";
print 'left of an alarm: ', alarm(0), "\n", 'child: ', wait, "\n";
