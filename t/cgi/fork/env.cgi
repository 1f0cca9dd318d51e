#!/usr/bin/env perl
# By the path, and changes of the environment.
print "Content-Type: text/plain\n\n", scalar(`printenv QUERY_STRING`);
$ENV{QUERY_STRING} = 'changed';
delete $ENV{HTTP_ACCEPT};
$ENV{"NEW$_"} = $_ for 1 .. 50;
print `printenv QUERY_STRING; printenv HTTP_ACCEPT; printenv | grep -c ^NEW`;
{ local %ENV = (PATH => '/bin:/usr/bin'); print `printenv | grep -cv ^_=` }
%ENV = (PATH => '/bin:/usr/bin', ONE => 1);
print `printenv ONE`, scalar(keys %ENV), "\n";
