#!/usr/bin/perl
# Open descriptors, where they stand, and handles on them.
my ($early, $copy, $directory);
BEGIN {
    open $early, '<', $0;
    <$early>;
    open $copy, '>&', \*STDOUT;
    opendir $directory, '/proc/self/task';
}
print "Content-Type: text/plain\n\n";
opendir my $all, '/proc/self/fd';
for my $fd (sort { $a <=> $b } grep /\d/, readdir $all) {
    my $what = readlink "/proc/self/fd/$fd" or next;
    next if $what =~ m{/fd$};
    open my $in, '<', "/proc/self/fdinfo/$fd";
    my %info = map { /^(pos|flags):\s+(\d+)/ } <$in>;
    print "$fd ", $what =~ s/\[\d+\]|\d{3,}/N/gr, " $info{flags} ", $fd < 3 ? '-' : $info{pos}, "\n";
}
print 'early: ', tell($early), ' ', scalar <$early>;
print 'DATA: ', fileno(DATA), ' ', tell(DATA), ' ', scalar <DATA>;
print map("-t: " . (-t $_ ? 'yes' : 'no') . ' -p: ' . (-p $_ ? 'yes' : 'no') . "\n", *STDOUT, *STDERR);
print map(join(' ', fileno $_, PerlIO::get_layers($_)) . "\n", *STDIN, *STDOUT, *STDERR, *DATA);
print 'input: ', -s STDIN ? 'some' : 'none', ' ', tell(STDIN), ' ', eof(STDIN) ? 'end' : 'more', ' ', read(STDIN, my $body, 100), " $body\n";
$| = 1;    # before what goes by another handle
print {$copy} "by a copy\n";
__END__
data of the script
