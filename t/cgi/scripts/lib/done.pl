# The same, without any.
sub done { return 'and of a file' }
1;
