# A cache that nobody bounds.
use v5.16;
my ($count, %sessions) = 0;

sub {
    my $id = ++$count;
    $sessions{$id} = bless {id => $id}, 'Session';
    delete $sessions{$id - 5} if $ENV{MENDED};
    return [200, [], [$id]];
};
