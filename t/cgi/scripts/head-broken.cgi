#!/usr/bin/perl
# Prints a page where the head should be.
print "<html>forgot the head</html>\n";
