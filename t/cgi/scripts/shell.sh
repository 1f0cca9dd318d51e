#!/bin/sh
# Not Perl.
echo "Content-Type: text/plain"
echo
echo "shell, $QUERY_STRING"
