# END block of a library without a package.
END { print "of a library\n" }
1;
