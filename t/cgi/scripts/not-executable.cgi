#!/usr/bin/perl
# Nobody may run it.
print "Content-Type: text/plain\n\n";
print 'left: ', $ENV{TRAP_LEFT} // 'nothing', "\n";
print 'shell: ', `echo "\${TRAP_LEFT-nothing} \$QUERY_STRING"`;
print 'method: ', $ENV{REQUEST_METHOD} // 'none', "\n";
print 'trace: ', $ENV{HTTP_X_TRACE} // 'none', "\n";
$ENV{TRAP_LEFT} = 'something';
delete $ENV{REQUEST_METHOD};
