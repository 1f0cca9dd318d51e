#!/usr/bin/perl
# The meta-variables whose values do not depend on the server.
print "Content-Type: text/plain\n\n";
print "$_=", (defined $ENV{$_} ? $ENV{$_} : '(none)'), "\n"
    for qw(GATEWAY_INTERFACE SERVER_PROTOCOL REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING REQUEST_URI
    CONTENT_TYPE CONTENT_LENGTH REMOTE_ADDR HTTP_X_TWO_WORDS HTTP_PROXY HTTP_AUTHORIZATION REQUEST_SCHEME HTTPS);
print "$_: ", (length $ENV{$_} ? 'yes' : 'no'), "\n"
    for qw(SERVER_NAME SERVER_PORT SERVER_SOFTWARE SERVER_ADDR REMOTE_PORT DOCUMENT_ROOT SCRIPT_FILENAME PATH);
