# Two applications in one server. Whatever becomes of one (killed, overloaded, stuck, reloaded, broken, its shared memory
# scribbled over), every request to the other has its response meanwhile, and the one recovers. Either may be the one.
use strict;
use warnings;
use lib 't/lib';

use Howdah::Test::Client;
use Howdah::Test::Load;
use Howdah::Test::Operator;
use Howdah::Test::Server;
use Test::More;
use Time::HiRes qw(sleep);

my $operator = Howdah::Test::Operator->new;
my $file     = $operator->dir . '/mad.psgi';
my $calm     = 't/apps/load.psgi';
my %path     = (mounted => '/mad', first => '/');
my ($server, $below, $name);

sub write_app {
    open my $out, '>', $file or die $!;
    print {$out} @_ ? "die '$_[0]';" : q{do './t/apps/scribble.psgi' or die $@ || $!};
    return close $out;
}

# Runs Perl in a worker of the mad one.
sub run {
    my $code   = shift;
    my $client = Howdah::Test::Client->new($server);
    $client->write(sprintf "POST $below/do HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length $code, $code);
    return $client;
}

sub serves {
    my $response = eval { run('"sane"')->response };
    return $response && $response->{body} eq 'sane';
}
sub workers { return $server->processes(qr/worker \[\Q$file\E/) }
sub zygotes { return $server->processes(qr/zygote \Q$file\E/) }

sub pool {
    return (grep { $_->{name} eq $name } @{$operator->status->{pools}})[0];
}
sub statuses { my %count; $count{$_->response->{status} // 'none'}++ for @_; return \%count }
sub reload { return ($operator->ask('reload', '--pool', $name))[0, 2] }

# What is done to the mad one; it serves again afterwards.
my @cases = (
    'its workers are killed, again and again' => sub {
        for (1 .. 5) { kill KILL => workers(); sleep 0.2 }
    },
    'its workers end themselves' => sub {
        statuses(map { run('exit 3') } 1 .. 4);
    },
    'its zygote is killed' => sub {
        my ($old) = zygotes();
        kill KILL => $old;
        ok $server->wait_until(sub { my ($new) = zygotes(); $new && $new != $old }), 'another comes';
    },
    'its zygote is stopped, and a worker is killed' => sub {
        my ($zygote) = zygotes();
        kill STOP => $zygote;
        kill KILL => (workers())[0];
        sleep 1;
        kill CONT => $zygote;
    },
    'it is overloaded' => sub {
        my $count = statuses(map { run('sleep 1; "slow"') } 1 .. 12);
        my ($run, $refused) = map { $_ // 0 } delete @{$count}{200, 503};
        is_deeply $count, {}, 'each is run or refused';
        ok $run >= 3 && $refused >= 5,
            "three wait at least, two run at most, and the others are refused: $run, $refused";
    },
    'it is stuck' => sub {
        is_deeply statuses(map { run('sleep 20') } 1 .. 2), {504 => 2}, 'until its time is over';
    },
    'it is reloaded' => sub {
        for (1 .. 4) { is + (reload())[0], 0, "reload $_" }
    },
    'its new version is broken' => sub {
        write_app('broken deploy');
        my ($status, $err) = reload();
        is $status, 1;
        like $err, qr/the new code does not load, the old goes on: .*broken deploy/;
        ok serves(), 'the old one goes on';
        kill KILL => zygotes();
        ok $server->wait_until(sub { (pool()->{trouble} // '') =~ /broken deploy/ }), 'and cannot come back';
        write_app();
        is + (reload())[0], 0, 'before it is mended';
    },
    'its shared memory is scribbled over' => sub {
        for (1 .. 3) {
            run('$segment->write(64, 2**40); $segment->write(1152, 2**47); sleep 5')->response;
            ok $server->wait_until(\&serves), "replaced, time $_";
        }
    },
);

# The mad one has little of everything, so that the other's share must be its own.
my %few  = ('workers' => 2, 'max-queue' => 3, 'request-timeout'   => '3s');
my %many = ('workers' => 2, 'max-queue' => 100, 'request-timeout' => 0);

sub options {
    my ($own, $path, $app, $mounted) = @_;
    my $mount = join ',', "$path=$app", map { "$_=$mounted->{$_}" } sort keys %$mounted;
    return [(map { ("--$_", $own->{$_}) } sort keys %$own), '--mount', $mount, $operator->options];
}

for my $which (sort keys %path) {
    subtest "the mad one is the $which" => sub {
        ($name, $below) = ($path{$which}, $path{$which} =~ s{/$}{}r);
        write_app();
        my @wish =
            $which eq 'first'
            ? (file => $file, options => options(\%few, '/calm', $calm, \%many))
            : (file => $calm, options => options(\%many, '/mad', $file, \%few));
        $server = Howdah::Test::Server->start(@wish);
        my %load = (connections => 4, below => $which eq 'first' ? '/calm' : '');
        my @load = map { Howdah::Test::Load->start($server, %load, fresh => $_) } 0, 1;

        my @left = @cases;
        while (my ($what, $do) = splice @left, 0, 2) {
            subtest $what => sub {
                $do->();
                ok $server->wait_until(\&serves), 'it serves again';
                ok $server->wait_until(sub { workers() == 2 }), 'with all its workers';
            };
        }
        for my $result (map { $_->stop->finish } @load) {
            is_deeply $result->{problems}, [], 'no request to the other is lost';
            is_deeply [keys %{$result->{status}}], [200], "all are served, $result->{requests} of them";
        }
        unlike $server->log, qr/panicked/, 'nothing panics';
        is $server->stop, 0;
    };
}

done_testing;
