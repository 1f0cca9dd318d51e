# Commands that may open few files, one more each time: until there are enough, each says what it cannot do and what to raise, and none
# ends in another way, or never.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Command qw(howdah_bin run_command);
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;

# What the command needs, whatever it looks at.
use constant ENOUGH => 40;

my $operator = Howdah::Test::Operator->new;
my $server   = Howdah::Test::Server->start(
    app     => 'sub { [200, [], ["here"]] }',
    options => ['--workers', 2, $operator->options],
);
my $output = $operator->dir . '/output';

# Of itself, and of a start, which takes more.
my $lacks   = qr/^howdah: \w.*\S: Too many open files.*; .*ulimit -n/ms;
my $too_low = qr/^howdah: the limit of open files is \d+, and a start takes more than \d+, .*ulimit -n/m;

sub limited {
    my ($limit, @command) = @_;
    return run_command('sh', '-c', "ulimit -n $limit; exec \"\$@\"", 'sh', howdah_bin(), @command);
}

for my $command (
    ['status'], ['reopen'], ['workers', '+0'], ['where'],
    ['top', '--once'],
    ['profile', '--seconds', 1, '--output', $output],
    ['heap', '--output', "$output.pmat"],
    ['leaks', '--seconds', 1],
    ['trace', 'exec', '--seconds', 1],
    ['check', '-e', 'sub { [200, [], []] }'],
    )
{
    my @command = $command->[0] eq 'check' ? @$command : (@$command, '--control', $operator->control);
    subtest "howdah @$command" => sub {
        my ($whole, undef, $other) = limited(ENOUGH, @command);
        plan skip_all => "it does not work here: $other" if $whole;
        for my $limit (4 .. ENOUGH) {
            unlink glob "$output*";
            my ($status, $out, $err) = limited($limit, @command);
            unlike $err, qr/panicked|fault of howdah/, "with $limit";
            last if !$status;
            is $status, 1, '... it fails';
            like $err, $command->[0] eq 'check' ? qr/$lacks|$too_low/ : $lacks, '... and says what to raise'
                or diag "$out$err";
        }
        unlink glob "$output*";
    };
}
is $operator->status->{server}{pid}, $server->pid, 'the server does not mind';

done_testing;
