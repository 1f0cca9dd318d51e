# Answers Howdah::Test::Load: the request's name and the length of its body, now at once, now in pieces, after a little
# work of differing length; behind them as many zero bytes as the query says. What has been begun is written to the file
# that LOAD_RUNS names, if any.
use strict;
use warnings;

my $runs;
open $runs, '>>', $ENV{LOAD_RUNS} or die $! if $ENV{LOAD_RUNS};

sub {
    my $env = shift;
    my ($name, $id) = $env->{PATH_INFO} =~ m{^/(\d+-(\d+))$} or return [404, [], ['?']];
    syswrite $runs, "$name\n" if $runs;
    my $body = '';
    1 while $env->{'psgi.input'}->read($body, 65536, length $body);
    select undef, undef, undef, $id % 4 * 0.0005 if $id % 3;
    my $answer = "$name " . length $body;
    my $pad    = "\0" x ($env->{QUERY_STRING} || 0);
    return [200, [], [$answer, $pad]] if $id % 7;
    return sub {
        my $writer = $_[0]->([200, []]);
        $writer->write($_) for split(//, $answer), $pad;
        $writer->close;
    };
};
